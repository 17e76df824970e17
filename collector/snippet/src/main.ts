// The browser script: notices a visitor who came by a partner's link, registers
// the click, keeps its id, and hands the id to what leads to the purchase.

import { bodyOf, codesOf } from "./click";
import { consent } from "./consent";
import { decorate, decorateAll, decorateTarget } from "./decorate";
import { attempt, clickID, debug, guard, isID, on, settings } from "./env";
import { send, type Reply } from "./send";
import { At, cookie, current, fact, forget, keep, Rank, restore, store } from "./store";

type Method = (argument?: any) => unknown;
type Page = Window & { __tributary?: Record<string, Method> & { q?: unknown[][] } };

/** The page is read. */
let started: Promise<unknown>;

/** The page's click is registered, refused, or given up. */
let settled: unknown;

/** Clicks are counted, so that a late answer does not undo a newer one. */
let sent = 0;
let kept = 0;

/** The address that was read last, and the codes that were sent last. */
let address = "";
let asked = "";

/** Milliseconds. */
const enum Time {
  /** In which the same code is the same click. */
  halfHour = 1800000,
  /** In which an id arrives that came with its code. */
  hour = 3600000,
}

const read = (href: string): void => {
  if (address === href) return;
  address = href;
  const url = new URL(href);
  const query = url.searchParams;
  const codes = codesOf(query);
  const all = codes + "";
  const handed = query.get(clickID);
  // An address with both that was shared or kept is the code's alone.
  if (isID(handed) && (!all || Math.abs(Date.now() - parseInt(handed.replace("-", ""), 16)) < Time.hour)) {
    if (handed !== current() && fact(At.rank) != Rank.first) {
      kept = ++sent;
      keep(handed, codes[0] || "");
    }
  } else if (all && all !== asked && settings.merchant) {
    const next = (): unknown => {
      const code = codes.shift();
      if (!code || (fact(At.code) === code && Math.abs(Date.now() - (fact(At.registered) as number)) < Time.halfHour)) return;
      const turn = ++sent;
      asked = all;
      debug(code);
      return send(bodyOf(code, url)).then(
        guard((reply) => {
          if (turn < kept) return;
          // Another service's parameter stood before ours.
          if (reply === 404) return next();
          if (!(reply > 0)) asked = "";
          const id = (reply as Reply).click_id;
          if (!isID(id)) return;
          kept = turn;
          keep(id, code, reply as Reply);
          decorateAll();
        }),
      );
    };
    settled = next();
  }
  decorateAll();
};

const readPage = guard(() => read(location.href));

const whenClickId = (): Promise<string | null> => started.then(() => settled).then(current);

const methods: Record<string, Method> = {
  getClickId: current,
  whenClickId,
  ready: (run) => void whenClickId().then(guard(run)),
  consent: (word) => {
    if (word === "denied") {
      // A click that was denied from the start stays: this page alone knows it.
      if (consent() !== word || cookie() === current()) forget();
    } else if (word !== "granted") return;
    consent(word);
    restore();
    decorateAll();
  },
  reset: () => {
    kept = ++sent;
    asked = "";
    forget();
    decorateAll();
  },
  decorate,
};

const start = (): void => {
  restore();
  // A router may have tidied the address before this script came.
  attempt(() => read(performance.getEntriesByType("navigation")[0]!.name));
  readPage();
  // What the page does to its address is read after it was done.
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
    // Google's consent mode tells nobody that the visitor has agreed.
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
  // Who is not there yet has not clicked.
  started = new Promise((seen: (event?: unknown) => void) => {
    if ((document as { prerendering?: boolean }).prerendering) on("prerenderingchange", seen);
    else seen();
  }).then(guard(start));
  queue.forEach(guard((call: unknown[]) => global[call[0] as string]!(call[1])));
})();
