// The colors: those that the system prefers, until the user chooses.
import { applyMode, Mode } from "@cloudscape-design/global-styles";
import { useEffect, useState } from "react";

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

/** ApplyTheme colors the document. */
export function applyTheme(theme: Theme): void {
  const dark = isDark(theme);
  applyMode(dark ? Mode.Dark : Mode.Light);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
}

/** UseTheme returns the theme, whether it is dark now, and a function that changes and stores it. */
export function useTheme(): { theme: Theme; dark: boolean; setTheme: (theme: Theme) => void } {
  const [theme, setState] = useState(storedTheme);
  const [dark, setDark] = useState(() => isDark(theme));
  useEffect(() => {
    const apply = () => {
      applyTheme(theme);
      setDark(isDark(theme));
    };
    apply();
    system.addEventListener("change", apply);
    return () => system.removeEventListener("change", apply);
  }, [theme]);
  return {
    theme,
    dark,
    setTheme: (next) => {
      localStorage.setItem(key, next);
      setState(next);
    },
  };
}
