import { memo } from "react";
import { button, clip } from "../../components/drawing";
import { colors, dotClassOf, dotColors, kindColors, kindNames, stateColor } from "./colors";
import { count, dotAt, interfaceHeight, type PlacedCard, cardTitle } from "./layout";
import type { Address, Card, Interface } from "./network";
import type { Detail } from "./view";

export type Mark = "none" | "selected" | "related" | "path";

interface Props {
  placed: PlacedCard;
  detail: Detail;
  mark: Mark;
  /** The address that is selected. */
  address?: string;
  onSelect: (id: string, address?: string) => void;
}

export const markColors: Record<Mark, string> = {
  none: colors.border,
  selected: colors.selected,
  related: colors.selected,
  path: colors.path,
};

function CardViewNow({ placed, detail, mark, address, onSelect }: Props) {
  const { card, x, y, width, height } = placed;
  const attention = stateColor(card);
  const label = [
    `${kindNames[card.kind]} ${card.title}`,
    card.state,
    count(card.interfaces.length, "network interface"),
    count(card.pods, "pod"),
  ];
  const subtitle = [kindNames[card.kind].replace(" network interface", ""), card.state].filter(Boolean).join(", ");
  const tops = topsOf(card);
  return (
    <g transform={`translate(${x} ${y})`}>
      <g
        aria-pressed={mark === "selected"}
        {...button(label.filter((part) => part !== "").join(", "), () => onSelect(card.id))}
      >
        <rect
          className="frame"
          width={width}
          height={height}
          rx={8}
          strokeWidth={mark === "none" ? 1 : 3}
          style={{ fill: mark === "selected" ? colors.selectedBox : colors.box, stroke: markColors[mark] }}
        />
        <rect width={6} height={height} rx={3} style={{ fill: attention ?? kindColors[card.kind] }} />
      </g>
      <text aria-hidden x={14} y={16} fontSize={12} fontWeight={700} style={{ fill: colors.text }}>
        {clip(card.title, 25)}
      </text>
      <text aria-hidden x={14} y={31} fontSize={11} style={{ fill: attention ?? colors.secondary }}>
        {clip(subtitle, 29)}
      </text>
      {card.interfaces.map((eni, i) => (
        <InterfaceView
          key={eni.id}
          eni={eni}
          y={tops[i] ?? 0}
          close={detail === "addresses"}
          address={address}
          onSelect={onSelect}
        />
      ))}
    </g>
  );
}

/** TopsOf returns where the network interfaces of a card begin. */
function topsOf({ interfaces }: Card): number[] {
  let y = cardTitle;
  return interfaces.map((eni) => {
    const top = y;
    y += interfaceHeight(eni);
    return top;
  });
}

// What is drawn depends on no more than this: the objects themselves are new whenever something is read again.
function signature({ placed: { card, x, y, height }, detail, mark, address }: Props): string {
  const addresses = card.interfaces.map((eni) =>
    eni.addresses.map((each) => each.ip + dotClassOf(each).charAt(1) + each.pods.map(({ name }) => name).join()),
  );
  return JSON.stringify([card.title, card.state, card.kind, x, y, height, detail, mark, address, addresses]);
}

/** CardView draws an instance, or what else has network interfaces. */
export const CardView = memo(
  CardViewNow,
  (before, now) =>
    before.onSelect === now.onSelect &&
    before.detail === now.detail &&
    before.mark === now.mark &&
    before.address === now.address &&
    (before.placed === now.placed || signature(before) === signature(now)),
);

interface InterfaceProps {
  eni: Interface;
  y: number;
  /** Near enough to select addresses. */
  close: boolean;
  address?: string;
  onSelect: Props["onSelect"];
}

function InterfaceView({ eni, y, close, address, onSelect }: InterfaceProps) {
  const primary = eni.addresses.find((each) => each.primary)?.ip ?? "";
  return (
    // Farther out, all of the card is one button.
    <g transform={`translate(0 ${y})`} style={{ pointerEvents: close ? undefined : "none" }}>
      <g {...(close ? button(`Network interface ${eni.id}, ${primary}`, () => onSelect(eni.id)) : {})}>
        <rect
          className="frame"
          x={8}
          width={178}
          height={interfaceHeight(eni)}
          rx={3}
          style={{ fill: "transparent", stroke: colors.border }}
          strokeWidth={close ? 0.5 : 0}
        />
      </g>
      <text aria-hidden x={14} y={12} fontSize={10} style={{ fill: colors.secondary }}>
        {clip(`${primary}  ${eni.id}`, 31)}
      </text>
      {close
        ? eni.addresses.map((each, i) => (
            <Dot
              key={each.ip}
              at={dotAt(i)}
              address={each}
              selected={each.ip === address}
              onSelect={() => onSelect(eni.id, each.ip)}
            />
          ))
        : dotPaths(eni).map(([color, path]) => (
            <path key={color} d={path} strokeWidth={8} strokeLinecap="round" style={{ stroke: color }} />
          ))}
    </g>
  );
}

function Dot(props: { at: { x: number; y: number }; address: Address; selected: boolean; onSelect: () => void }) {
  const { at, address, selected, onSelect } = props;
  const names = address.pods.map(({ namespace, name }) => `${namespace}/${name}`);
  const label = [address.ip, names.length > 3 ? count(names.length, "pod") : names.join(", ")];
  const title = label.filter(Boolean).join(", ");
  return (
    <g {...button(`Address ${title}`, onSelect)}>
      <circle
        className="frame"
        cx={at.x}
        cy={at.y}
        r={4}
        strokeWidth={selected ? 2 : 0.5}
        style={{ fill: dotColors[dotClassOf(address)], stroke: selected ? colors.selected : colors.secondary }}
      >
        <title>{title}</title>
      </circle>
    </g>
  );
}

/** DotPaths returns a path of dots for each color: far fewer elements than one for each dot. */
function dotPaths({ addresses }: Interface): [string, string][] {
  const paths = new Map<string, string>();
  addresses.forEach((address, i) => {
    const color = dotColors[dotClassOf(address)];
    const { x, y } = dotAt(i);
    paths.set(color, `${paths.get(color) ?? ""}M${x} ${y}h.01`);
  });
  return [...paths];
}
