// The settings from the script's element, and helpers for the other files.

/**
 * The element that loaded this script. If a tag manager inserted the element,
 * currentScript is not set.
 */
const element = (document.currentScript || document.querySelector("script[data-merchant]")) as HTMLScriptElement;

/** The settings: the data- attributes of the element. */
export const settings = element.dataset;

/**
 * The address to which clicks are sent. It is at the origin of the script, unless the
 * attribute data-api contains another address, such as that of a first-party proxy.
 */
export const endpoint = new URL((settings.api || new URL(element.src).origin).replace(/\/?$/, "/v1/clicks"), location.href).href;

export const debug = (value: unknown): void => {
  if ("debug" in settings) console.debug(clickID, value);
};

/**
 * Returns a function that calls run and logs its errors. The errors are not thrown into
 * the page.
 */
export const guard =
  <A extends unknown[], R>(run: (...args: A) => R) =>
  (...args: A): R | undefined => {
    try {
      return run(...args);
    } catch (error) {
      debug(error);
    }
  };

/** Runs a function at once and returns undefined if it throws. */
export const attempt = <R>(run: () => R): R | undefined => guard(run)();

/** Splits a list at commas and spaces. */
export const split = (list = ""): string[] => list.match(/[^\s,]+/g) || [];

/**
 * Adds a listener for events. The listener runs in the capture phase, before the page's
 * own listeners.
 */
export const on = (names: string, run: (event: Event) => void): void => split(names).forEach((name) => addEventListener(name, guard(run), true));

/** Returns the first group of a match, or undefined. */
export const group = (form: RegExp, text: string): string | undefined => (form.exec(text) || [])[1];

/**
 * The name under which the script stores and passes on the click id: the name of the
 * cookie, the localStorage item, the query parameter and the form field.
 */
export const clickID = "aff_click_id";

/** Reports whether a text is a UUIDv7. All click ids are UUIDv7. */
export const isID = (text: unknown): text is string => /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/i.test(text as string);
