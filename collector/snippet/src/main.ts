// The browser script. It detects a visitor who came through a partner's link, registers
// the click, stores the click id, and adds the id to elements that lead to the purchase.

import { bodyOf, codesOf } from "./click";
import { consent } from "./consent";
import { decorate, decorateAll, decorateTarget } from "./decorate";
import { attempt, clickID, debug, guard, isID, on, settings } from "./env";
import { send, type Reply } from "./send";
import { At, cookie, current, discountNow, field, clear, adopt, Rank, restore, store } from "./store";

type Method = (argument?: any) => unknown;
type Page = Window & { __tributary?: Record<string, Method> & { q?: unknown[][] } };

/** Resolves after start has run. */
let started: Promise<unknown>;

/** Resolves after the registration of the page's last click has succeeded or failed. */
let registration: unknown;

/**
 * Clicks are numbered in the order in which they are sent. lastSent and saved are the
 * numbers of the last click that was sent and of the last click that was saved. The
 * script ignores a response if a later click has already been saved.
 */
let lastSent = 0;
let saved = 0;

/** The last address that was read. */
let lastAddress = "";
/** The codes, separated by commas, of the last address for which a click was sent. */
let tried = "";

/** Durations in milliseconds. */
const enum Time {
  /** Within this time, the same code is not registered again. */
  halfHour = 1800000,
  /**
   * If an address has a code and an id, the id must have been created within this time.
   */
  hour = 3600000,
}

const read = (href: string): void => {
  if (lastAddress === href) return;
  lastAddress = href;
  const url = new URL(href);
  const query = url.searchParams;
  const codes = codesOf(query);
  const all = codes + "";
  // The id that a short link, or another site of the merchant, put into the address.
  const handedID = query.get(clickID);
  // An address with a code and an id may have been shared or bookmarked. If its id is
  // old, the script ignores the id and registers a new click for the code.
  const handed = isID(handedID) && (!all || Math.abs(Date.now() - parseInt(handedID.replace("-", ""), 16)) < Time.hour);
  const keepFirst = handed && field(At.rank) == Rank.first;
  if (handed && !keepFirst && handedID !== current()) {
    saved = ++lastSent;
    adopt(handedID, "");
  }
  // If there are both, register the code with this id, which does not make a second click:
  // the response contains the partner's discount.
  if (all && all !== tried && settings.merchant && !keepFirst) {
    const post = (): unknown => {
      const code = codes.shift();
      if (!code || (field(At.code) === code && Math.abs(Date.now() - (field(At.registered) as number)) < Time.halfHour)) return;
      const number = ++lastSent;
      tried = all;
      debug(code);
      return send(bodyOf(code, url, handed && handedID)).then(
        guard((reply) => {
          if (number < saved) return;
          // The code is unknown. It may belong to another service, so try the next code.
          if (reply === 404) return post();
          if (!(reply > 0)) tried = "";
          const id = (reply as Reply).click_id;
          if (!isID(id)) return;
          saved = number;
          adopt(id, code, reply as Reply);
          decorateAll();
        }),
      );
    };
    registration = post();
  }
  decorateAll();
};

const readPage = guard(() => read(location.href));

const whenClickId = (): Promise<string | null> => started.then(() => registration).then(current);

const methods: Record<string, Method> = {
  getClickId: current,
  whenClickId,
  ready: (run) => whenClickId().then(guard(run)),
  consent: (value) => {
    if (value === "denied") {
      // If consent was already denied when the click was registered, the click was never
      // stored and stays in memory. Any other click is deleted.
      if (consent() !== value || cookie() === current()) clear();
    } else if (value !== "granted") return;
    consent(value);
    restore();
    decorateAll();
  },
  getDiscount: discountNow,
  reset: () => {
    saved = ++lastSent;
    tried = "";
    clear();
    decorateAll();
  },
  decorate,
};

const start = (): void => {
  restore();
  // A router may have changed the address before this script ran, so read the original
  // address too.
  attempt(() => read(performance.getEntriesByType("navigation")[0]!.name));
  readPage();
  // Read the address whenever the page changes it.
  (["pushState", "replaceState"] as const).forEach((name) => {
    const original = history[name];
    history[name] = (...state) => {
      original.apply(history, state);
      readPage();
    };
  });
  on("popstate", readPage);
  on("pagehide,pointerdown,keydown,auxclick,click,submit", (event) => {
    // Google's consent mode sends no event when the visitor agrees, so check the consent
    // whenever the visitor uses the page.
    store(true);
    decorateTarget(event);
  });
};

{
  const global = (window as Page).__tributary || ({} as NonNullable<Page["__tributary"]>);
  // If another copy of the script has already run, there are methods and there is no
  // queue.
  if (!global.reset || global.q) {
    const queue = global.q || [];
    delete global.q;
    (window as Page).__tributary = global;
    for (const name in methods) global[name] = guard(methods[name]!);
    // If the browser prerenders the page, wait until the visitor opens it.
    started = new Promise((shown: (event?: unknown) => void) => {
      if ((document as { prerendering?: boolean }).prerendering) on("prerenderingchange", shown);
      else shown();
    }).then(guard(start));
    queue.forEach(guard((call: unknown[]) => global[call[0] as string]!(call[1])));
  }
}
