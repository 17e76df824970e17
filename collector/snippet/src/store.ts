// Stores the click of this browser in two places. A cookie contains only the id, so that
// any server can read it. A note in localStorage restores a lost cookie and also contains
// the code of the click.

import { choice, consent } from "./consent";
import { attempt, clickID, group, isID, settings } from "./env";
import type { Discount, Reply } from "./send";

const enum Time {
  /**
   * The age of the cookie in seconds if the collector has not sent an age. The collector
   * sends at most 400 days, which is the largest age that browsers accept.
   */
  month = 2592000,
  monthMillis = 2592000000,
}

/** The indexes of the fields of a note. Times are Unix milliseconds. */
export const enum At {
  id,
  /** The time at which the cookie expires. */
  ends,
  /** The time at which the code was registered. */
  registered,
  /** A Rank, which decides whether a later click replaces this one. */
  rank,
  code,
  /** The partner's Discount as JSON, or empty. */
  discount,
}

/**
 * Says which later clicks replace a click. In a note that was read from localStorage, a
 * rank is a string, so compare ranks only with == and <.
 */
export const enum Rank {
  /** Any later click replaces this click. */
  newest,
  /** The programme keeps the first click, and this is the first click. */
  first,
  /**
   * The id came from an address, which anyone can write. Any click that this browser
   * registers replaces this click.
   */
  handed,
}
type Note = (string | number | undefined)[];

/**
 * The click while it is only in memory, because it could not be stored or because consent
 * is denied.
 */
let unstored: Note | undefined | "" | false;

/** The consent at the last attempt to store the click. */
let checked: unknown;

const read = (): Note | undefined =>
  attempt(() => (localStorage[clickID] || "").split(" "));

/** The id in the cookie. */
export const cookie = (): string | undefined =>
  attempt(() => {
    const id = group(/; aff_click_id=([^;]*)/, "; " + document.cookie);
    if (isID(id)) return id;
  });

/**
 * Sets the cookie on the widest domain that the browser accepts. It tries the domains one
 * after another. Without an id, it removes the cookie from every domain.
 */
const setCookie = (id: string, age: number): void => {
  const labels = location.hostname.split(".");
  // The removal also needs an empty domain, for a cookie of this host only.
  for (let i = labels.length + +!id; i-- && cookie() !== id; )
    attempt(() => {
      document.cookie =
        clickID + "=" + id + ";path=/;samesite=lax;max-age=" + age + ";domain=" + ((id && settings.cookieDomain) || labels.slice(i).join(".")) + (location.protocol > "http:" ? ";secure" : "");
    });
};

const erase = (): void => {
  setCookie("", 0);
  attempt(() => delete localStorage[clickID]);
};

const click = (): Note | undefined | "" => {
  const id = cookie();
  const note = read();
  return unstored || (id && (note && note[At.id] === id ? note : [id, Date.now() + Time.monthMillis, 0, Rank.newest]));
};

/** Returns one field of the click, or undefined if there is no click. */
export const field = (which: At): string | number | undefined => (click() || [])[which];

/** Returns the id of the click, or null. */
export const current = (): string | null => (field(At.id) as string) || null;

/** Returns the discount of the partner who earns for the click, or null. */
export const discountNow = (): Discount | null => JSON.parse((field(At.discount) as string) || null!);

/**
 * Stores the click that is only in memory, unless consent is denied. If the visitor's own
 * choice denies consent, it deletes the stored click. If onlyAfterChange is true, it does
 * nothing unless consent has changed since the last attempt.
 */
export const store = (onlyAfterChange?: boolean): void => {
  if (!unstored || (onlyAfterChange && checked === consent())) return;
  checked = consent();
  if (checked !== "denied") {
    const before = cookie();
    const id = unstored[At.id] as string;
    const age = (((unstored[At.ends] as number) - Date.now()) / 1000) | 0;
    setCookie(id, age);
    // Delete the old cookie only if it prevents the new cookie from being set. Another
    // tab may be reading the old cookie, or may have just set a cookie of its own.
    if (cookie() === before && before !== id) {
      erase();
      setCookie(id, age);
    }
    attempt(() => (localStorage[clickID] = (unstored as unknown[]).join(" ")));
    if (cookie() === id) unstored = undefined;
  } else if (choice) erase();
};

/** Restores the cookie or the note if one of them was lost. */
export const restore = (): void => {
  const note = read();
  unstored = click() || (note && isID(note[At.id]) && note[At.ends]! > Date.now() && note);
  store();
};

/**
 * Saves a click. The reply is absent if the id came from an address. The existing click
 * stays if the programme keeps the first click. It also stays if the attribution model is
 * null, because the collector could not look up the programme. In both cases, however, an
 * existing click whose id came from an address is replaced.
 */
export const adopt = (id: string, code: string, { cookie_max_age: age = Time.month as number, attribution_model: model, discount }: Reply = {}): void => {
  const now = Date.now();
  const first = model === "first_click";
  const rank = field(At.rank)!;
  const keepExisting = (first || model === null) && rank < Rank.handed;
  unstored = (keepExisting && click()) || [id, now + age * 1000, , , , (JSON.stringify(discount) || "").replace("promo_", "")];
  unstored[At.registered] = now;
  unstored[At.rank] = first ? Rank.first : model === undefined ? Rank.handed : keepExisting ? rank : Rank.newest;
  unstored[At.code] = code;
  store();
};

/** Deletes the click. */
export const clear = (): void => {
  unstored = undefined;
  erase();
};
