import { createRoot } from "react-dom/client";

import "../kit/theme.css";
import "../kit/kit.module.css";
import "./shell.module.css";
import { BrowserSession } from "../app/session";
import { TextsProvider } from "../app/texts";
import { applyTheme } from "../app/theme";
import { Portal } from "./Portal";

applyTheme();
const session = new BrowserSession("partner");
const root = document.getElementById("app");
if (root) {
  createRoot(root).render(
    <TextsProvider>
      <Portal session={session} />
    </TextsProvider>,
  );
}
