// Drawings in SVG whose parts can be selected: by pointer, keyboard and screen reader.

/** Clip shortens text to a number of characters. */
export function clip(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length - 1) + "…";
}

/** Button returns what makes an element of a drawing a button. */
export function button(label: string, select: () => void) {
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
