// The colors of a terminal, in light and dark mode.
import type { ITheme } from "@xterm/xterm";
import { isDarkMode } from "../../../app/theme";

// The palette of xterm.js is for a dark background.
const light: ITheme = {
  black: "#16191f",
  red: "#b0140e",
  green: "#0f6b1f",
  yellow: "#7a5c00",
  blue: "#0451a5",
  magenta: "#9a049a",
  cyan: "#00707f",
  white: "#545b64",
  brightBlack: "#687078",
  brightRed: "#c7251f",
  brightGreen: "#1d8102",
  brightYellow: "#8a6700",
  brightBlue: "#0972d3",
  brightMagenta: "#b30fb3",
  brightCyan: "#00808f",
  brightWhite: "#16191f",
  selectionBackground: "#b5d6f4",
};

/** ColorsOf returns colors for a terminal in an element: those that the element has by its style sheet. */
export function colorsOf(element: HTMLElement): ITheme {
  const { color: foreground, backgroundColor: background } = getComputedStyle(element);
  const palette = isDarkMode() ? { selectionBackground: "#354a66" } : light;
  return { ...palette, foreground, background, cursor: foreground, cursorAccent: background };
}
