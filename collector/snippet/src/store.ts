// The click that this browser holds: a cookie with the bare id, so that any
// server can read it, and a note in localStorage that brings a lost cookie back
// and remembers which code the click was of.

import { choice, consent } from "./consent";
import { attempt, clickID, find, isID, settings } from "./env";
import type { Reply } from "./send";

const enum Time {
  /** Seconds: a window that is not known. The collector asks for 400 days at most, as browsers allow. */
  month = 2592000,
}

/** What a note says, in the order in which it is written. Times are Unix milliseconds. */
export const enum At {
  id,
  /** When the cookie ends. */
  ends,
  /** When the code was registered. */
  registered,
  /** What the click is to those that come after it: a Rank. */
  rank,
  code,
}

/** Compared with == and < alone: it is a text where the note was read. */
export const enum Rank {
  newest,
  /** The programme keeps the first click, and this is it. */
  first,
  /** An address brought it, and anybody can write one: a click that this browser registers replaces it. */
  handed,
}
type Note = ArrayLike<string | number>;

/** The click that could not be stored, or must not be: only this page knows it. */
let held: Note | undefined | "" | false;

/** The consent with which storing was tried last. */
let tried: unknown;

const read = (): Note | undefined =>
  attempt(() => {
    const note = (localStorage[clickID] || "").split(" ");
    if (isID(note[At.id])) return note;
  });

/** The id in the cookie. */
export const cookie = (): string | undefined =>
  attempt(() => {
    const id = find(/; aff_click_id=([^;]*)/, "; " + document.cookie);
    if (isID(id)) return id;
  });

/**
 * Sets the cookie on the widest domain that the browser accepts, which is found by
 * trying; without an id, removes it from every domain.
 */
const setCookie = (id: string, age: number): void => {
  const labels = location.hostname.split(".");
  // Without labels there is no domain: that is a cookie of this host alone, to be removed.
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
  return held || (id && (note && note[At.id] === id ? note : [id, Date.now() + Time.month * 1000, 0, Rank.newest, ""]));
};

/** What there is to know about the click, or undefined when there is none. */
export const fact = (which: At): string | number | undefined => (click() || [])[which];

/** The id of the click, or null. */
export const current = (): string | null => (fact(At.id) as string) || null;

/**
 * Stores what is held if the visitor allows it, and removes what she has refused.
 * Again does nothing unless she has changed her mind.
 */
export const store = (again?: boolean): void => {
  if (!held || (again && tried === consent())) return;
  tried = consent();
  if (tried !== "denied") {
    const before = cookie();
    const id = held[At.id] as string;
    const age = (((held[At.ends] as number) - Date.now()) / 1000) | 0;
    setCookie(id, age);
    // Removed only when the old one stands in the way: another tab may be reading it, or
    // have written its own meanwhile.
    if (cookie() === before && before !== id) {
      erase();
      setCookie(id, age);
    }
    attempt(() => (localStorage[clickID] = (held as unknown[]).join(" ")));
    if (cookie() === id) held = undefined;
  } else if (choice) erase();
};

/** Makes of cookie and note two again when one was lost. */
export const restore = (): void => {
  const note = read();
  held = click() || (note && note[At.ends]! > Date.now() && note);
  store();
};

/**
 * Takes a click over. Without a reply it was handed over. The one that is known
 * stays in a programme that keeps the first click, and where the model is null:
 * then the collector could not ask for it.
 */
export const keep = (id: string, code: string, { cookie_max_age: age = Time.month as number, attribution_model: model }: Reply = {}): void => {
  const now = Date.now();
  const first = model === "first_click";
  const rank = fact(At.rank)!;
  const stays = (first || model === null) && rank < Rank.handed;
  const [known, ends] = (stays && click()) || [id, now + age * 1000];
  held = [known, ends, now, first ? Rank.first : model === undefined ? Rank.handed : stays ? rank : Rank.newest, code];
  store();
};

/** Forgets the click. */
export const forget = (): void => {
  held = undefined;
  erase();
};
