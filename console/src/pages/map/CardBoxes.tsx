import { memo, useMemo } from "react";
import { type Mark, markColors } from "./CardView";
import { colors, kindColors, stateColor } from "./colors";
import type { PlacedCard } from "./layout";
import { cardAt } from "./view";

interface Props {
  cards: PlacedCard[];
  /** The numbers of pods can be read. */
  numbers: boolean;
  markOf: (card: PlacedCard) => Mark;
  onSelect: (id: string) => void;
}

type Paths = [key: string, path: string][];

/** BoxPaths draws rectangles of one color as one path each: of a thousand cards, a handful of elements is drawn. */
export function boxPaths(cards: PlacedCard[], markOf: Props["markOf"]): { boxes: Paths; stripes: Paths } {
  const boxes = new Map<string, string>();
  const stripes = new Map<string, string>();
  const add = (to: Map<string, string>, key: string, { x, y, width, height }: PlacedCard, across = width) =>
    to.set(key, `${to.get(key) ?? ""}M${x} ${y}h${across}v${height}h${-across}z`);
  for (const placed of cards) {
    add(boxes, markOf(placed), placed);
    add(stripes, stateColor(placed.card) ?? kindColors[placed.card.kind], placed, 12);
  }
  return { boxes: [...boxes], stripes: [...stripes] };
}

/** CardBoxes draws the cards of a subnet from afar: boxes in the colors of what they are, with numbers of pods. */
export const CardBoxes = memo(function CardBoxes({ cards, numbers, markOf, onSelect }: Props) {
  const { boxes, stripes } = useMemo(() => boxPaths(cards, markOf), [cards, markOf]);
  const onClick = (event: React.MouseEvent<SVGGElement>) => {
    const toMap = event.currentTarget.getScreenCTM()?.inverse();
    if (toMap === undefined) return;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(toMap);
    const found = cardAt(cards, x, y);
    if (found === undefined) return;
    event.stopPropagation();
    onSelect(found.card.id);
  };
  return (
    <g className="boxes" onClick={onClick}>
      {boxes.map(([mark, path]) => (
        <path
          key={mark}
          d={path}
          strokeWidth={mark === "none" ? 2 : 8}
          style={{
            fill: mark === "selected" ? colors.selectedBox : colors.box,
            stroke: markColors[mark as Mark],
          }}
        />
      ))}
      {stripes.map(([color, path]) => (
        <path key={color} d={path} style={{ fill: color }} />
      ))}
      {numbers &&
        cards.map(({ card: { id, pods }, x, y, height }) =>
          pods === 0 ? null : (
            <text aria-hidden key={id} x={x + 24} y={y + height / 2 + 10} fontSize={28} style={{ fill: colors.text }}>
              {pods}
            </text>
          ),
        )}
    </g>
  );
});
