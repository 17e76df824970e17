// The click that this browser holds: a cookie with the bare id, so that any
// server can read it, and a note in localStorage that brings a lost cookie back
// and remembers which code the click was of.

import { consent, refused } from "./consent";
import { attempt, clickID, find, isUUID, settings } from "./env";

/** Seconds: a window that is not known, and the longest life that browsers give a cookie. */
const month = 2592000;
const longest = 34560000;
/** Milliseconds in which the same code is the same click. */
const halfHour = 18e5;

/** What a note says, in the order in which it is written. Times are Unix milliseconds. */
const enum At {
  id,
  /** When the cookie ends. */
  ends,
  /** When the code was registered. */
  registered,
  /** 1 where the programme keeps the first click. */
  first,
  code,
}
export type Note = ArrayLike<string | number>;

/** The click that could not be stored, or must not be: only this page knows it. */
let held: Note | undefined;

const read = (): Note | undefined =>
  attempt(() => {
    const note = (localStorage.getItem(clickID) || "").split(" ");
    if (isUUID(note[At.id])) return note;
  });

const cookie = (): string | undefined =>
  attempt(() => {
    const id = find(/; aff_click_id=([^;]*)/, "; " + document.cookie);
    if (isUUID(id)) return id;
  });

/**
 * Sets the cookie on the widest domain that the browser accepts, which is found by
 * trying; without an id, removes it from every domain.
 */
const setCookie = (id: string, age: number, domain?: string): void => {
  const labels = location.hostname.split(".");
  // Without labels there is no domain: that is a cookie of this host alone.
  for (let i = labels.length + (id ? 0 : 1); i-- && !(id && cookie() === id); )
    attempt(() => {
      document.cookie =
        clickID + "=" + id + ";path=/;samesite=lax;max-age=" + age + ";domain=" + (domain || labels.slice(i).join(".")) + (location.protocol === "https:" ? ";secure" : "");
    });
};

const erase = (): void => {
  setCookie("", 0);
  attempt(() => localStorage.removeItem(clickID));
};

const click = (): Note | undefined => {
  if (held) return held;
  const id = cookie();
  const note = read();
  if (id) return note && note[At.id] === id ? note : [id, Date.now() + month * 1000, 0, "", ""];
};

/** What there is to know about the click, or undefined when there is none. */
const fact = (which: At): string | number | undefined => (click() || [])[which];

/** The id of the click, or null. */
export const current = (): string | null => (fact(At.id) as string) || null;

/** Stores what is held as soon as the visitor allows it, and removes what she has refused. */
export const store = (): void => {
  if (!held) return;
  if (consent() === "denied") {
    if (refused()) erase();
    return;
  }
  const id = held[At.id] as string;
  if (cookie() !== id) {
    erase();
    setCookie(id, Math.min(longest, ((held[At.ends] as number) - Date.now()) / 1000) | 0, settings.cookieDomain);
  }
  attempt(() => localStorage.setItem(clickID, (held as unknown[]).join(" ")));
  if (cookie() === id) held = undefined;
};

/** Makes of cookie and note two again when one was lost. */
export const restore = (): void => {
  const note = read();
  held = click() || (note && +note[At.ends]! > Date.now() ? note : undefined);
  store();
};

/** Whether a click of this code is known that is too young for another. */
export const isFresh = (code: string): boolean => fact(At.code) === code && Math.abs(Date.now() - (fact(At.registered) as number)) < halfHour;

/** Whether the click that is known stays whatever comes. */
export const isFirst = (): boolean => !!fact(At.first);

/** Takes a click over; age is in seconds. */
export const keep = (id: string, code: string, age = month, first?: boolean): void => {
  const now = Date.now();
  held = [(first && fact(At.id)) || id, (first && fact(At.ends)) || now + age * 1000, now, first ? 1 : "", code];
  store();
};

/** Forgets the click. */
export const forget = (): void => {
  held = undefined;
  erase();
};
