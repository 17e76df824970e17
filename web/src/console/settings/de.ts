import type en from "./en";

/** The texts about the settings of the workspace in German. */
const de: typeof en = {
  pages: { tracking: "Tracking und Stripe", keys: "API-Schlüssel" },
};

export default de;
