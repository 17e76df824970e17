// What the visitor allows: said to consent(), or by the browser's Global Privacy
// Control and Google's consent mode.

import { settings } from "./env";

type Word = "granted" | "denied";

type Page = Window & {
  dataLayer?: ArrayLike<{ 0?: unknown; 1?: unknown; 2?: { ad_storage?: Word } } | null>;
};

let choice: Word | undefined;

export const choose = (word: Word): void => {
  choice = word;
};

/** Whether the visitor said no herself. */
export const refused = (): boolean => choice === "denied";

/**
 * ad_storage of Google's consent mode. An update outranks the defaults. Defaults
 * may be for regions, and a page does not know its own: one that denies, denies.
 */
const adStorage = (): Word | undefined => {
  const layer = (window as Page).dataLayer || [];
  let byDefault: Word | undefined;
  let updated: Word | undefined;
  for (let i = 0; i < layer.length; i++) {
    const entry = layer[i];
    const word = entry && entry[0] === "consent" && entry[2] && entry[2].ad_storage;
    if (word) {
      if (entry[1] === "update") updated = word;
      else if (byDefault !== "denied") byDefault = word;
    }
  }
  return updated || byDefault;
};

/** What a click says of consent. Nothing is stored while it is denied. */
export const consent = (): Word | "unknown" => {
  if (choice) return choice;
  if (settings.consent === "required" || (navigator as { globalPrivacyControl?: boolean }).globalPrivacyControl) return "denied";
  return adStorage() || "unknown";
};
