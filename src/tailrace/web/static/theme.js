// Dark, light, or as the system.

import { by } from "./dom.js";

const KEY = "tailrace-theme";
const THEMES = ["system", "light", "dark"];
const MARKS = { system: "◐", light: "☀", dark: "☾" };

export function startTheme() {
  let theme = localStorage.getItem(KEY);
  if (!THEMES.includes(theme)) theme = "system";
  apply(theme);
  by("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(KEY, theme);
    apply(theme);
  });
}

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = by("theme");
  button.textContent = MARKS[theme];
  const text = `Theme: ${theme === "system" ? "as the system" : theme}`;
  button.setAttribute("aria-label", text);
  button.title = text;
}
