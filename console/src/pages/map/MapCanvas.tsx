import { memo, useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { button, clip } from "../../components/drawing";
import { CardBoxes } from "./CardBoxes";
import { CardView, type Mark, markColors } from "./CardView";
import { colors } from "./colors";
import { type Box, count, type Layout, type PlacedCard, type PlacedChip, type PlacedSubnet } from "./layout";
import "./map.css";
import {
  cardsIn,
  type Detail,
  detailAt,
  type Drawn,
  drawnOf,
  fit,
  moved,
  overlaps,
  type Size,
  type View,
  type ViewStore,
  zoomAt,
} from "./view";

interface Props {
  layout: Layout;
  store: ViewStore;
  size: Size;
  selected?: string;
  address?: string;
  /** What belongs to what is selected. */
  related: Set<string>;
  /** What a packet passes, in order. */
  path: string[];
  /** What an analysis is about. */
  analyzed: string[];
  onView: (change: (view: View) => View) => void;
  onSelect: (id: string | undefined, address?: string) => void;
}

const step = 80;

/** MapCanvas draws the part of the map that is in view, as much of it as can be read. */
export function MapCanvas({ store, ...props }: Props) {
  const { layout, size, onView, onSelect } = props;
  const whole = useMemo(() => fit(layout, size), [layout, size]);
  const view = useSyncExternalStore(store.subscribe, store.get) ?? whole;
  const svg = useRef<SVGSVGElement>(null);
  const dragged = useRef({ pointer: -1, x: 0, y: 0, far: false });

  // React's own listener of wheels cannot keep the page from scrolling.
  useEffect(() => {
    const element = svg.current;
    if (element === null) return;
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const { left, top } = element.getBoundingClientRect();
      const pixels = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY : event.deltaY * 16;
      const factor = Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0015));
      onView((before) => zoomAt(before, factor, event.clientX - left, event.clientY - top));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [onView]);

  const onKeyDown = (event: React.KeyboardEvent) => {
    const changes: Record<string, (before: View) => View> = {
      "ArrowLeft": (before) => moved(before, step, 0),
      "ArrowRight": (before) => moved(before, -step, 0),
      "ArrowUp": (before) => moved(before, 0, step),
      "ArrowDown": (before) => moved(before, 0, -step),
      "+": (before) => zoomAt(before, 1.25, size.width / 2, size.height / 2),
      "=": (before) => zoomAt(before, 1.25, size.width / 2, size.height / 2),
      "-": (before) => zoomAt(before, 0.8, size.width / 2, size.height / 2),
      "0": () => fit(layout, size),
    };
    const change = changes[event.key];
    if (event.key === "Escape") onSelect(undefined);
    if (change === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onView(change);
  };
  const onPointerDown = (event: React.PointerEvent) => {
    if (event.button !== 0) return;
    dragged.current = { pointer: event.pointerId, x: event.clientX, y: event.clientY, far: false };
  };
  const onPointerMove = (event: React.PointerEvent) => {
    const last = dragged.current;
    if (event.pointerId !== last.pointer) return;
    const [right, down] = [event.clientX - last.x, event.clientY - last.y];
    if (!last.far && Math.hypot(right, down) < 4) return;
    // Captured now and not before, for else no click would reach what is below the pointer.
    if (!last.far) svg.current?.setPointerCapture(event.pointerId);
    dragged.current = { pointer: event.pointerId, x: event.clientX, y: event.clientY, far: true };
    onView((before) => moved(before, right, down));
  };
  const onPointerUp = () => {
    dragged.current.pointer = -1;
  };

  const { x, y, width, height, scale } = drawnOf(view, size);
  const drawn = useMemo(() => ({ x, y, width, height, scale }), [x, y, width, height, scale]);
  return (
    <svg
      ref={svg}
      className="drawing map-canvas"
      role="group"
      tabIndex={0}
      aria-label="Map. Arrow keys move it, plus and minus zoom, 0 shows all, Tab goes to what is in view."
      height={size.height}
      style={{ background: colors.background }}
      onKeyDown={onKeyDown}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={onPointerUp}
      onClick={() => {
        if (!dragged.current.far) onSelect(undefined);
      }}
    >
      <g transform={`translate(${view.left} ${view.top}) scale(${view.scale})`}>
        <Scene {...props} drawn={drawn} detail={detailAt(view.scale)} />
      </g>
    </svg>
  );
}

interface SceneProps extends Omit<Props, "store" | "size" | "onView"> {
  drawn: Drawn;
  detail: Detail;
}

/** Scene is what does not change while the view moves a little. */
const Scene = memo(function Scene(props: SceneProps) {
  const { layout, drawn, detail, selected, address, related, path, analyzed, onSelect } = props;
  const { scale } = drawn;
  const onPath = useMemo(() => new Set(analyzed), [analyzed]);
  const markOf = useCallback(
    (...ids: string[]): Mark => {
      if (selected !== undefined && ids.includes(selected)) return "selected";
      if (ids.some((each) => onPath.has(each))) return "path";
      return ids.some((each) => related.has(each)) ? "related" : "none";
    },
    [selected, onPath, related],
  );
  const markOfCard = useCallback(
    ({ card }: PlacedCard) => markOf(card.id, ...card.interfaces.map(({ id }) => id)),
    [markOf],
  );
  const networks = layout.networks.filter((network) => overlaps(network, drawn));
  const subnets = networks.flatMap(({ zones }) => zones.flatMap((zone) => zone.subnets));
  const withCards = detail === "counts" ? [] : subnets.filter((subnet) => overlaps(subnet, drawn));
  return (
    <>
      {networks.map((placed) => {
        const { network, zones, chips } = placed;
        const title = `VPC ${network.name}`;
        return (
          <g key={network.id}>
            <g {...button(`${title}, ${network.cidrs.join(", ")}`, () => onSelect(network.id))}>
              <Frame box={placed} mark={markOf(network.id)} fill={colors.box} scale={scale} />
            </g>
            <Title box={placed} scale={scale} title={title} subtitle={network.cidrs.join(", ")} />
            {zones.map((zone) => (
              <g key={zone.name} role="group" aria-label={`Availability Zone ${zone.name}`}>
                <Frame box={zone} mark="none" fill="transparent" dashed scale={scale} />
                <Title box={zone} scale={scale} title={zone.name} subtitle="Availability Zone" />
                {zone.subnets
                  .filter((subnet) => overlaps(subnet, drawn))
                  .map((subnet) => (
                    <SubnetView
                      key={subnet.subnet.id}
                      placed={subnet}
                      mark={markOf(subnet.subnet.id)}
                      counts={detail === "counts"}
                      scale={scale}
                      onSelect={onSelect}
                    />
                  ))}
              </g>
            ))}
            {chips
              .filter((chip) => overlaps(chip, drawn))
              .map((chip) => (
                <ChipView
                  key={chip.id}
                  chip={chip}
                  mark={markOf(chip.id)}
                  text={detail !== "counts"}
                  onSelect={onSelect}
                />
              ))}
          </g>
        );
      })}
      {detail === "boxes"
        ? withCards.map((subnet) => (
            <CardBoxes
              key={subnet.subnet.id}
              cards={subnet.cards}
              numbers={scale >= numbersFrom}
              markOf={markOfCard}
              onSelect={onSelect}
            />
          ))
        : withCards.flatMap((subnet) =>
            cardsIn(subnet, drawn).map((placed) => (
              <CardView
                key={placed.card.id}
                placed={placed}
                detail={detail}
                mark={markOfCard(placed)}
                address={placed.card.interfaces.some(({ id }) => id === selected) ? address : undefined}
                onSelect={onSelect}
              />
            )),
          )}
      <PathLine layout={layout} path={path} scale={scale} />
    </>
  );
});

/** The scale from which on the numbers in boxes can be read. */
const numbersFrom = 0.25;

interface FrameProps {
  box: Box;
  mark: Mark;
  fill: string;
  dashed?: boolean;
  scale: number;
}

function Frame({ box, mark, fill, dashed = false, scale }: FrameProps) {
  const { x, y, width, height } = box;
  const line = (mark === "none" ? 1 : 3) / Math.min(1, scale);
  return (
    <rect
      className="frame"
      {...{ x, y, width, height }}
      rx={8}
      strokeWidth={line}
      strokeDasharray={dashed ? `${4 * line} ${4 * line}` : undefined}
      style={{ fill, stroke: markColors[mark] }}
    />
  );
}

/** Title writes what a box is at its top; farther out in larger letters, as far as there is space for them. */
function Title({ box, scale, title, subtitle }: { box: Box; scale: number; title: string; subtitle: string }) {
  const size = Math.min(14 / Math.min(1, scale), 16);
  const letters = Math.floor((box.width - 24) / (size * 0.58));
  return (
    <>
      <text aria-hidden x={box.x + 12} y={box.y + 18} fontSize={size} fontWeight={700} style={{ fill: colors.text }}>
        {clip(title, letters)}
      </text>
      <text aria-hidden x={box.x + 12} y={box.y + 35} fontSize={size - 2} style={{ fill: colors.secondary }}>
        {clip(subtitle, letters)}
      </text>
    </>
  );
}

interface SubnetProps {
  placed: PlacedSubnet;
  mark: Mark;
  /** Numbers stand for the cards. */
  counts: boolean;
  scale: number;
  onSelect: Props["onSelect"];
}

function SubnetView({ placed, mark, counts, scale, onSelect }: SubnetProps) {
  const { subnet, x, y, width, height } = placed;
  const instances = subnet.cards.filter(({ kind }) => kind === "instance").length;
  const pods = subnet.cards.reduce((sum, card) => sum + card.pods, 0);
  const title = `${subnet.isPublic ? "Public subnet" : "Subnet"} ${subnet.name}`;
  const lines = [count(instances, "instance"), count(pods, "pod")];
  const size = Math.min(15 / scale, width / 9, height / 4);
  const letters = Math.floor((width - 24) / (size * 0.58));
  return (
    <g>
      <g {...button([title, subnet.cidr, ...lines].join(", "), () => onSelect(subnet.id))}>
        <Frame box={placed} mark={mark} fill={colors.subnet} scale={scale} />
      </g>
      {counts ? (
        [title, ...lines].map((line, i) => (
          <text
            aria-hidden
            key={i}
            x={x + width / 2}
            y={y + height / 2 + (i - 0.6) * size * 1.2}
            fontSize={size}
            fontWeight={i === 0 ? 700 : undefined}
            textAnchor="middle"
            style={{ fill: colors.text }}
          >
            {clip(line, letters)}
          </text>
        ))
      ) : (
        <Title box={placed} scale={scale} title={title} subtitle={subnet.cidr} />
      )}
    </g>
  );
}

interface ChipProps {
  chip: PlacedChip;
  mark: Mark;
  text: boolean;
  onSelect: Props["onSelect"];
}

function ChipView({ chip, mark, text, onSelect }: ChipProps) {
  const { x, y, width, height, title, subtitle } = chip;
  return (
    <g>
      <g {...button(`${subtitle}: ${title}`, () => onSelect(chip.id))}>
        <rect
          className="frame"
          {...{ x, y, width, height }}
          rx={16}
          strokeWidth={mark === "none" ? 1 : 3}
          style={{ fill: mark === "selected" ? colors.selectedBox : colors.box, stroke: markColors[mark] }}
        />
      </g>
      {text && (
        <>
          <text aria-hidden x={x + 14} y={y + 17} fontSize={12} fontWeight={700} style={{ fill: colors.text }}>
            {clip(title, 24)}
          </text>
          <text aria-hidden x={x + 14} y={y + 32} fontSize={11} style={{ fill: colors.secondary }}>
            {clip(subtitle, 29)}
          </text>
        </>
      )}
    </g>
  );
}

/** PathLine draws the way of a packet, through what of it is on the map. */
function PathLine({ layout, path, scale }: { layout: Layout; path: string[]; scale: number }) {
  const points = path.flatMap((id) => {
    const box = layout.boxes.get(id);
    return box === undefined ? [] : [`${box.x + box.width / 2},${box.y + box.height / 2}`];
  });
  if (points.length < 2) return null;
  return (
    <polyline
      points={points.join(" ")}
      strokeWidth={3 / Math.min(1, scale)}
      strokeLinejoin="round"
      style={{ fill: "none", stroke: colors.path, pointerEvents: "none" }}
    />
  );
}
