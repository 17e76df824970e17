/** The appearance of the pages: light, dark, or as on the device. */
export type Theme = "light" | "dark" | "system";

const stored = "tributary-theme";

export function theme(): Theme {
  const value = localStorage.getItem(stored);
  return value === "light" || value === "dark" ? value : "system";
}

/** Applies an appearance and remembers it in this browser. */
export function setTheme(theme: Theme): void {
  if (theme === "system") localStorage.removeItem(stored);
  else localStorage.setItem(stored, theme);
  applyTheme();
}

/** Applies the appearance that this browser remembers. */
export function applyTheme(): void {
  const value = theme();
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
}
