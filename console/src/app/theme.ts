// The colors: those that the system prefers, until the user chooses.
import { applyMode, Mode } from "@cloudscape-design/global-styles";
import { useEffect, useEffectEvent, useState } from "react";

const key = "coracle.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

/** The chosen mode; "system" follows the system. */
export type Theme = "system" | "light" | "dark";

export function storedTheme(): Theme {
  const stored = localStorage.getItem(key);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function isDark(theme: Theme): boolean {
  return theme === "dark" || (theme === "system" && system.matches);
}

const listeners = new Set<() => void>();

/** UseThemeListener calls a function whenever the document turns light or dark. */
export function useThemeListener(listener: () => void): void {
  const call = useEffectEvent(listener);
  useEffect(() => {
    const onTheme = () => call();
    listeners.add(onTheme);
    return () => {
      listeners.delete(onTheme);
    };
  }, []);
}

/** IsDarkMode reports whether the document is dark now. */
export function isDarkMode(): boolean {
  return isDark(storedTheme());
}

function applyTheme(theme: Theme): void {
  const dark = isDark(theme);
  applyMode(dark ? Mode.Dark : Mode.Light);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  for (const listener of listeners) listener();
}

/** FollowTheme colors the document, now and whenever the system prefers other colors. */
export function followTheme(): void {
  applyTheme(storedTheme());
  system.addEventListener("change", () => applyTheme(storedTheme()));
}

/** UseTheme returns the chosen theme, and a function that changes and stores it. */
export function useTheme(): { theme: Theme; setTheme: (theme: Theme) => void } {
  const [theme, setState] = useState(storedTheme);
  return {
    theme,
    setTheme: (next) => {
      localStorage.setItem(key, next);
      applyTheme(next);
      setState(next);
    },
  };
}
