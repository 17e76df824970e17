// Determines the visitor's consent. It comes from the page's call of consent(), from the
// browser's Global Privacy Control, or from Google's consent mode.

import { settings } from "./env";

type Word = "granted" | "denied";

type Entry = { 0?: unknown; 1?: unknown; 2?: { ad_storage?: Word } };
type Page = Window & { dataLayer?: ArrayLike<Entry | null> | null };

/** The visitor's own choice, which the page passed to consent(). */
export let choice: Word | undefined;

/**
 * Returns the consent that a click is sent with. An argument sets the visitor's own
 * choice, which overrides every other source. The script stores nothing while consent is
 * denied.
 *
 * In Google's consent mode, an update of ad_storage overrides the defaults. There may be
 * several defaults for different regions, and the page does not know the visitor's region.
 * Therefore one default that denies is enough to deny.
 */
export const consent = (stated?: Word): Word | "unknown" => {
  let byDefault: Word | undefined;
  let update: Word | undefined;
  [].forEach.call((window as Page).dataLayer || [], (entry: Entry | null) => {
    const value = entry && entry[0] === "consent" && entry[2] && entry[2].ad_storage;
    if (value) {
      if (entry[1] === "update") update = value;
      else if (byDefault !== "denied") byDefault = value;
    }
  });
  choice = stated || choice;
  if (choice) return choice;
  if (settings.consent === "required" || (navigator as { globalPrivacyControl?: boolean }).globalPrivacyControl) return "denied";
  return update || byDefault || "unknown";
};
