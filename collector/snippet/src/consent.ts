// Determines the visitor's consent. It comes from the page's call of consent(), from the
// browser's Global Privacy Control, or from Google's consent mode.

import { settings } from "./env";

type Word = "granted" | "denied";

/** An entry of Google's dataLayer. */
type Entry = { 0?: unknown; 1?: unknown; 2?: { ad_storage?: Word } };
type Page = Window & { dataLayer?: ArrayLike<Entry | null> | null };

/** The visitor's own choice, which the page passed to consent(). */
export let choice: Word | undefined;

/**
 * Returns the consent value that is sent with a click. The visitor's own choice overrides
 * every other source. If stated is given, it becomes the visitor's own choice. The script
 * stores nothing while consent is denied.
 *
 * In Google's consent mode, an update of ad_storage overrides the defaults. There may
 * be several defaults for different regions, but the page does not know the visitor's
 * region. If any default denies consent, the script therefore assumes that consent is
 * denied.
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
