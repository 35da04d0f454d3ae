// Light, dark, or as the system says; remembered by the browser.

import { byId } from "./dom.js";
import { forgetColours } from "./draw.js";

const THEMES = { system: "◐", light: "☀", dark: "☾" };
const NAME = "radt-view-theme";

export function bindTheme(onChange) {
  const button = byId("theme");
  let theme = localStorage.getItem(NAME) ?? "system";
  const apply = () => {
    if (!(theme in THEMES)) theme = "system";
    document.documentElement.dataset.theme = theme;
    button.textContent = THEMES[theme];
    button.setAttribute("aria-label", `Colours: ${theme === "system" ? "as the system" : theme}`);
    button.title = button.getAttribute("aria-label");
    forgetColours();
    onChange();
  };
  button.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    theme = names[(names.indexOf(theme) + 1) % names.length];
    localStorage.setItem(NAME, theme);
    apply();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}
