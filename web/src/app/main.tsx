import { createRoot } from "react-dom/client";

import "../kit/kit.module.css";
import "../kit/theme.css";
import { Application, type Pages } from "./Application";
import { BrowserSession } from "./session";
import "./shell.module.css";
import { type AppTexts, TextsProvider } from "./texts";
import { applyTheme } from "./theme";

/** Shows an application in the page. */
export function render(kind: BrowserSession["kind"], texts: AppTexts, pages: Pages): void {
  applyTheme();
  const session = new BrowserSession(kind);
  const root = document.getElementById("app");
  if (!root) return;
  createRoot(root).render(
    <TextsProvider texts={texts}>
      <Application session={session} pages={pages} />
    </TextsProvider>,
  );
}
