// What the script's element says, and what everything else is made of.

/** The element that loaded this script; a tag manager may have lost it. */
const element = (document.currentScript || document.querySelector("script[data-merchant]")) as HTMLScriptElement;

/** The data- attributes. */
export const settings = element.dataset;

/** At the origin of the script, or behind the first-party proxy that the merchant names. */
export const api = new URL((settings.api || new URL(element.src).origin).replace(/\/?$/, "/v1/clicks"), location.href).href;

export const debug = (what: unknown): void => {
  if ("debug" in settings) console.debug(clickID, what);
};

/** A function that does not throw into the page that calls it. */
export const guard =
  <A extends unknown[], R>(run: (...args: A) => R) =>
  (...args: A): R | undefined => {
    try {
      return run(...args);
    } catch (fault) {
      debug(fault);
    }
  };

/** Runs what a browser may refuse. */
export const attempt = <R>(run: () => R): R | undefined => guard(run)();

/** The words of a list that is written with commas. */
export const words = (list = ""): string[] => list.match(/[^\s,]+/g) || [];

/** Listens before the page's own listeners. */
export const on = (names: string, run: (event: Event) => void): void => words(names).forEach((name) => addEventListener(name, guard(run), true));

/** The first group of a match, if there is one. */
export const find = (form: RegExp, text: string): string | undefined => (form.exec(text) || [])[1];

/** The name of the cookie, of the note in localStorage, of the hand-over's parameter and of the form field. */
export const clickID = "aff_click_id";

/** Whether a text is a UUIDv7: no other is the id of a click. */
export const isID = (text: unknown): text is string => /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/i.test(text as string);
