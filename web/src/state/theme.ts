/** Light, dark, or as the system says. */

import { effect, signal } from "@preact/signals";
import { keptSignal } from "./kept";

export const THEMES = ["system", "light", "dark"] as const;
export const theme = keptSignal("theme", THEMES, "system");

/** Increases when colours change, so that canvases are redrawn. */
export const paint = signal(0);

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  paint.value = paint.peek() + 1;
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint.value++);
