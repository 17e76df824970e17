// The browser script. It detects a visitor who came through a partner's link, registers
// the click, stores the click id, and adds the id to elements that lead to the purchase.

import { bodyOf, codesOf } from "./click";
import { consent } from "./consent";
import { decorate, decorateAll, decorateTarget } from "./decorate";
import { attempt, clickID, debug, guard, isID, on, settings } from "./env";
import { send, type Reply } from "./send";
import { At, cookie, current, field, clear, adopt, Rank, restore, store } from "./store";

type Method = (argument?: any) => unknown;
type Page = Window & { __tributary?: Record<string, Method> & { q?: unknown[][] } };

/** Resolves after start has run. */
let started: Promise<unknown>;

/** Resolves after the page's last click was registered or refused, or has failed. */
let registration: unknown;

/** The numbers of the last click sent and of the last click saved. A response to an older click than the last saved one is ignored. */
let lastSent = 0;
let saved = 0;

/** The last address that was read. */
let lastAddress = "";
/** The codes that were sent last. */
let tried = "";

/** Durations in milliseconds. */
const enum Time {
  /** The same code is not registered again within this time. */
  halfHour = 1800000,
  /** An id next to a code is accepted if it was created within this time. */
  hour = 3600000,
}

const read = (href: string): void => {
  if (lastAddress === href) return;
  lastAddress = href;
  const url = new URL(href);
  const query = url.searchParams;
  const codes = codesOf(query);
  const all = codes + "";
  const handedID = query.get(clickID);
  // If an address has a code and an id, it may have been shared or bookmarked. An old id
  // is ignored then, and the code is registered as a new click.
  if (isID(handedID) && (!all || Math.abs(Date.now() - parseInt(handedID.replace("-", ""), 16)) < Time.hour)) {
    if (handedID !== current() && field(At.rank) != Rank.first) {
      saved = ++lastSent;
      adopt(handedID, codes[0] || "");
    }
  } else if (all && all !== tried && settings.merchant) {
    const post = (): unknown => {
      const code = codes.shift();
      if (!code || (field(At.code) === code && Math.abs(Date.now() - (field(At.registered) as number)) < Time.halfHour)) return;
      const number = ++lastSent;
      tried = all;
      debug(code);
      return send(bodyOf(code, url)).then(
        guard((reply) => {
          if (number < saved) return;
          // The code is unknown. It may belong to another service, so try the next one.
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
  ready: (run) => void whenClickId().then(guard(run)),
  consent: (value) => {
    if (value === "denied") {
      // A click that was denied from the start was never stored. It stays in memory.
      if (consent() !== value || cookie() === current()) clear();
    } else if (value !== "granted") return;
    consent(value);
    restore();
    decorateAll();
  },
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
  // A router may have changed the address before this script ran.
  attempt(() => read(performance.getEntriesByType("navigation")[0]!.name));
  readPage();
  // Read the address after each change by the page.
  for (const name of ["pushState", "replaceState"] as const) {
    const original = history[name];
    history[name] = (...state) => {
      const result = original.apply(history, state);
      readPage();
      return result;
    };
  }
  on("popstate", readPage);
  on("pagehide,pointerdown,keydown,auxclick,click,submit", (event) => {
    // Google's consent mode sends no event when the visitor agrees, so check here.
    store(true);
    decorateTarget(event);
  });
};

guard(() => {
  const global = (window as Page).__tributary || ({} as NonNullable<Page["__tributary"]>);
  // A second copy of the script finds the first one's methods and no queue.
  if (global.reset && !global.q) return;
  const queue = global.q || [];
  delete global.q;
  (window as Page).__tributary = global;
  Object.keys(methods).forEach((name) => (global[name] = guard(methods[name]!)));
  // A prerendered page is not a click until the visitor opens it.
  started = new Promise((shown: (event?: unknown) => void) => {
    if ((document as { prerendering?: boolean }).prerendering) on("prerenderingchange", shown);
    else shown();
  }).then(guard(start));
  queue.forEach(guard((call: unknown[]) => global[call[0] as string]!(call[1])));
})();
