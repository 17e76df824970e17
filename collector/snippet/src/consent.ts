// What the visitor allows: said to consent(), or by the browser's Global Privacy
// Control and Google's consent mode.

import { settings } from "./env";

type Word = "granted" | "denied";

type Entry = { 0?: unknown; 1?: unknown; 2?: { ad_storage?: Word } };
type Page = Window & { dataLayer?: ArrayLike<Entry | null> | null };

/** What the visitor said herself. */
export let choice: Word | undefined;

/**
 * What a click says of consent, from now on what the visitor says. Nothing is
 * stored while it is denied. Of ad_storage in Google's consent mode an update
 * outranks the defaults. Defaults may be for regions, and a page does not know
 * its own: one that denies, denies.
 */
export const consent = (said?: Word): Word | "unknown" => {
  let byDefault: Word | undefined;
  let updated: Word | undefined;
  [].forEach.call((window as Page).dataLayer || [], (entry: Entry | null) => {
    const word = entry && entry[0] === "consent" && entry[2] && entry[2].ad_storage;
    if (word) {
      if (entry[1] === "update") updated = word;
      else if (byDefault !== "denied") byDefault = word;
    }
  });
  choice = said || choice;
  if (choice) return choice;
  if (settings.consent === "required" || (navigator as { globalPrivacyControl?: boolean }).globalPrivacyControl) return "denied";
  return updated || byDefault || "unknown";
};
