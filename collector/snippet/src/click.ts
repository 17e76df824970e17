// Reads referral codes from the page's address and builds the body of the request that
// registers a click.

import { consent } from "./consent";
import { group, settings, split } from "./env";

/**
 * Parameters in which ad platforms pass their click ids, such as gclid, msclkid and ScCid.
 * The request contains the names of these parameters, but not their values.
 */
const adID = /^(((d|fb|g|tt|tw|y)cl|li_fat_|msclk|rdt_c|ScC)id|[gw]braid|epik)$/;

const codeNames = split([settings.param || "via,ref,aff,fpr,fp_ref", settings.params] + "");

/**
 * Returns the possible referral codes in a query, in lower case and without duplicates.
 */
export const codesOf = (query: URLSearchParams): string[] =>
  codeNames
    .map((name) => (query.get(name) || "").trim().toLowerCase())
    .filter((code, at, all) => code && !code[100] && all.indexOf(code) === at);

/**
 * Returns the value of a parameter in a form that the collector accepts: the characters
 * up to the first control character, but at most 255. Control characters at the start
 * of the value are skipped.
 */
const text = (query: URLSearchParams, name: string): string | undefined => group(/([^\0-\x1f]{1,255})/u, query.get(name) || "");

/** The body of the request that registers a click. */
export const bodyOf = (code: string, url: URL, id: string | null | false): string => {
  const query = url.searchParams;
  const utm: Record<string, string | undefined> = {};
  let ads = "";
  query.forEach((_, name) => {
    if (name.startsWith("utm_")) utm[name.slice(4)] = text(query, name);
    if (adID.test(name)) ads += "&" + name + "=1";
  });
  return JSON.stringify({
    public_key: settings.merchant,
    referral_code: code,
    // A UUIDv7: 12 hex digits of the time, the version, 3 random digits, the variant and
    // 15 random digits.
    click_id:
      id ||
      crypto
        .getRandomValues(new Uint8Array(18))
        .reduce((digits, random) => digits + (random & 15).toString(16), "0" + Date.now().toString(16))
        .replace(/(.{8})(.{4})(.{3})(.{3})/, "$1-$2-7$3-a$4-"),
    url: url.origin + (url.pathname[2000] ? "" : url.pathname) + ads.replace("&", "?"),
    referrer: document.referrer.split("/", 3).join("/"),
    sub_id: text(query, "sub_id"),
    utm,
    consent: consent(),
    screen: screen.width + "x" + screen.height,
    language: navigator.language,
  });
};
