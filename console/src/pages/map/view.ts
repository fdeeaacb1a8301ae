// What of the map is in view, and how large.
import type { Box, PlacedCard, PlacedSubnet } from "./layout";

/** A point (x, y) of the map is at (x * scale + left, y * scale + top) on the screen. */
export interface View {
  scale: number;
  left: number;
  top: number;
}

export interface Size {
  width: number;
  height: number;
}

/** How much of cards is drawn: their number alone, boxes, boxes with text and dots, dots that can be chosen. */
export type Detail = "counts" | "boxes" | "cards" | "addresses";

const smallest = 0.02;
const largest = 3;

/** DetailAt returns what can be read at a scale. */
export function detailAt(scale: number): Detail {
  if (scale < 0.12) return "counts";
  if (scale < 0.55) return "boxes";
  return scale < 0.9 ? "cards" : "addresses";
}

/** ZoomAt scales the view by a factor, and keeps what is at a point of the screen there. */
export function zoomAt(view: View, factor: number, x: number, y: number): View {
  const scale = Math.min(largest, Math.max(smallest, view.scale * factor));
  const by = scale / view.scale;
  return { scale, left: x - (x - view.left) * by, top: y - (y - view.top) * by };
}

/** Moved moves the map by pixels of the screen. */
export function moved(view: View, right: number, down: number): View {
  return { ...view, left: view.left + right, top: view.top + down };
}

/** Fit shows all of a box, not larger than it is. */
export function fit(box: Box, size: Size, margin = 16): View {
  const across = (size.width - 2 * margin) / Math.max(1, box.width);
  const down = (size.height - 2 * margin) / Math.max(1, box.height);
  const scale = Math.min(1, Math.max(smallest, Math.min(across, down)));
  return {
    scale,
    left: (size.width - box.width * scale) / 2 - box.x * scale,
    top: (size.height - box.height * scale) / 2 - box.y * scale,
  };
}

/** CenterOn shows a box in the middle, at a scale at which it can be read. */
export function centerOn(view: View, box: Box, size: Size): View {
  const whole = fit(box, size).scale;
  const scale = Math.min(whole, Math.max(view.scale, 0.9));
  return {
    scale,
    left: size.width / 2 - (box.x + box.width / 2) * scale,
    top: size.height / 2 - (box.y + box.height / 2) * scale,
  };
}

/** WindowOf returns the part of the map that is in view. */
export function windowOf(view: View, size: Size): Box {
  return {
    x: -view.left / view.scale,
    y: -view.top / view.scale,
    width: size.width / view.scale,
    height: size.height / view.scale,
  };
}

/** The part of the map that is drawn. It is more than what is in view, and the same while the view moves in it. */
export interface Drawn extends Box {
  /** About that of the view: what has one width on the screen at any scale, such as a line, is drawn for this one. */
  scale: number;
}

const scaleStep = 1.25;
/** What is drawn ends at multiples of this part of the width and height that are in view. */
const cell = 1 / 4;

/** DrawnOf returns what is drawn for a view. */
export function drawnOf(view: View, size: Size): Drawn {
  const scale = scaleStep ** Math.round(Math.log(view.scale) / Math.log(scaleStep));
  const { x, y, width, height } = windowOf(view, size);
  const [across, down] = [(cell * size.width) / scale, (cell * size.height) / scale];
  const [left, top] = [Math.floor(x / across) * across, Math.floor(y / down) * down];
  return {
    scale,
    x: left,
    y: top,
    width: Math.ceil((x + width) / across) * across - left,
    height: Math.ceil((y + height) / down) * down - top,
  };
}

/** The view of a map, apart from the page: that is not rendered again with each frame in which the map moves. */
export interface ViewStore {
  /** Undefined shows all. */
  get: () => View | undefined;
  set: (view: View | undefined) => void;
  subscribe: (changed: () => void) => () => void;
}

export function newViewStore(): ViewStore {
  let view: View | undefined;
  const subscribers = new Set<() => void>();
  return {
    get: () => view,
    set: (next) => {
      view = next;
      for (const changed of subscribers) changed();
    },
    subscribe: (changed) => {
      subscribers.add(changed);
      return () => subscribers.delete(changed);
    },
  };
}

export function overlaps(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** CardsIn returns the cards of a subnet that a part of the map has. */
export function cardsIn({ cards }: PlacedSubnet, window: Box): PlacedCard[] {
  return cards.filter((card) => overlaps(card, window));
}

/** CardAt returns the card at a point of the map. */
export function cardAt(cards: PlacedCard[], x: number, y: number): PlacedCard | undefined {
  return cards.find((card) => overlaps(card, { x, y, width: 0, height: 0 }));
}
