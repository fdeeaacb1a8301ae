// Drawings in SVG whose parts can be selected: by pointer, keyboard and screen reader. The class of a drawing is
// "drawing"; that of the outline of a part is "frame".
import "./drawing.css";

/** Clip shortens text to a number of characters. */
export function clip(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length - 1) + "…";
}

/** Button returns what makes an element of a drawing a button. Without a label, its text names it. */
export function button(label: string | undefined, select: () => void) {
  return {
    "role": "button",
    "tabIndex": 0,
    "aria-label": label,
    "onClick": (event: React.MouseEvent) => {
      event.stopPropagation();
      select();
    },
    "onKeyDown": (event: React.KeyboardEvent) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      select();
    },
  };
}
