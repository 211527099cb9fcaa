/** Light or dark: as the system has it, unless the reader chose. */

import { useSyncExternalStore } from "react";
import type { Theme } from "./flame/colours";

const KEY = "isoprof.theme";
const CHANGED = "isoprof:theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, themeNow);
}

/** Choose a theme and remember it on this machine. */
export function chooseTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Then it lasts until the page is left.
  }
  chosen = theme;
  window.dispatchEvent(new Event(CHANGED));
}

/** Put the theme onto the page; called once, before anything is drawn. */
export function followTheme(): void {
  const apply = (): void => {
    document.documentElement.dataset["theme"] = themeNow();
  };
  apply();
  subscribe(apply);
}

let chosen = read();

function themeNow(): Theme {
  return chosen ?? (dark.matches ? "dark" : "light");
}

function read(): Theme | null {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : null;
  } catch {
    return null;
  }
}

function subscribe(changed: () => void): () => void {
  dark.addEventListener("change", changed);
  window.addEventListener(CHANGED, changed);
  return () => {
    dark.removeEventListener("change", changed);
    window.removeEventListener(CHANGED, changed);
  };
}
