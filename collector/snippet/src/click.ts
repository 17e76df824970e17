// Reads referral codes from the page's address and builds the body of the request that
// registers a click.

import { consent } from "./consent";
import { group, settings, split } from "./env";

/**
 * Parameters in which ad platforms pass their click ids. The request contains the names
 * of these parameters, but not their values.
 */
const adIDs = split("gclid gbraid wbraid dclid msclkid fbclid ttclid twclid li_fat_id epik rdt_cid ScCid yclid");

const codeNames = split(settings.param || "via,ref,aff,fpr,fp_ref").concat(split(settings.params));

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
export const bodyOf = (code: string, url: URL): string => {
  const query = url.searchParams;
  const utm: Record<string, string | undefined> = {};
  split("source,medium,campaign,term,content").forEach((part) => (utm[part] = text(query, "utm_" + part)));
  const ads = adIDs.filter((name) => query.has(name)).join("=1&");
  return JSON.stringify({
    public_key: settings.merchant,
    referral_code: code,
    // A UUIDv7: 12 hex digits of the time, the version, 3 random digits, the variant and
    // 15 random digits.
    click_id: crypto
      .getRandomValues(new Uint8Array(9))
      .reduce((digits, random) => digits + (random + 256).toString(16).slice(1), "0" + Date.now().toString(16))
      .replace(/(.{8})(.{4})(.{3})(.{3})/, "$1-$2-7$3-a$4-"),
    url: url.origin + (url.pathname[2000] ? "" : url.pathname) + (ads && "?" + ads + "=1"),
    referrer: document.referrer.split("/", 3).join("/"),
    sub_id: text(query, "sub_id"),
    utm,
    consent: consent(),
    screen: screen.width + "x" + screen.height,
    language: navigator.language,
  });
};
