// The browser script: notices a visitor who came by a partner's link, registers
// the click, keeps its id, and hands the id to what leads to the purchase.

import { bodyOf, codeOf } from "./click";
import { choose } from "./consent";
import { decorate, decorateAll, decorateTarget } from "./decorate";
import { attempt, clickID, debug, guard, isUUID, settings } from "./env";
import { farewell, send } from "./send";
import { current, forget, isFirst, isFresh, keep, restore, store } from "./store";

type Method = (argument?: any) => unknown;
type Page = Window & { __tributary?: Record<string, Method> & { q?: unknown[][] } };

/** The page's click is registered, refused, or given up. */
let settled: Promise<unknown> = Promise.resolve();

/** Clicks are counted, so that a late answer does not undo a newer one. */
let sent = 0;
let kept = 0;

/** The address that was read last, and the code that was sent last. */
let address = "";
let asked = "";

const read = (href: string): void => {
  if (address === href) return;
  address = href;
  const url = new URL(href);
  const query = url.searchParams;
  const code = codeOf(query);
  const handed = query.get(clickID);
  if (isUUID(handed)) {
    if (handed !== current() && !isFirst()) {
      kept = ++sent;
      keep(handed, code);
    }
  } else if (code && code !== asked && settings.merchant && !isFresh(code)) {
    const turn = ++sent;
    asked = code;
    debug("click", code);
    settled = send(bodyOf(code, url)).then(
      guard((reply) => {
        const id = reply && reply.click_id;
        if (turn < kept || !isUUID(id)) return;
        if (asked === code) asked = "";
        kept = turn;
        keep(id, code, reply!.cookie_max_age, reply!.attribution_model === "first_click");
        decorateAll();
      }),
    );
  }
  decorateAll();
};

const readPage = guard(() => read(location.href));

const whenClickId = (): Promise<string | null> =>
  Promise.resolve()
    .then(() => settled)
    .then(current);

const methods: Record<string, Method> = {
  getClickId: current,
  whenClickId,
  ready: (run) => void whenClickId().then(guard((id) => void run(id))),
  consent: (word) => {
    if (word === "denied" || word === "granted") {
      choose(word);
      restore();
    }
  },
  reset: () => {
    kept = ++sent;
    asked = "";
    forget();
  },
  decorate: (what) => attempt(() => decorate(what)) || what,
};

/** Reads the address after the page has changed it. */
const watch = (name: "pushState" | "replaceState"): void => {
  const original = history[name];
  history[name] = function (this: History) {
    const result = original.apply(this, arguments as unknown as Parameters<History["pushState"]>);
    readPage();
    return result;
  };
};

const on = (name: string, run: (event: Event) => void): void => addEventListener(name, guard(run), true);

const start = (): void => {
  restore();
  // A router may have tidied the address before this script came.
  attempt(() => read(performance.getEntriesByType("navigation")[0]!.name));
  readPage();
  watch("pushState");
  watch("replaceState");
  on("popstate", readPage);
  on("pagehide", () => {
    store();
    farewell();
  });
  for (const name of ["pointerdown", "keydown", "auxclick", "click", "submit"])
    on(name, (event) => {
      // Google's consent mode tells nobody that the visitor has agreed.
      store();
      decorateTarget(event);
    });
};

guard(() => {
  const page = window as Page;
  const global = page.__tributary || ({} as NonNullable<Page["__tributary"]>);
  // A second copy of the script finds the first one's methods and no queue.
  if (global.reset && !global.q) return;
  const queue = global.q || [];
  delete global.q;
  page.__tributary = global;
  for (const name of Object.keys(methods)) global[name] = guard(methods[name]!);
  queue.forEach(guard((call: unknown[]) => global[call[0] as string]!(call[1])));
  // Who is not there yet has not clicked.
  if ((document as { prerendering?: boolean }).prerendering) on("prerenderingchange", start);
  else start();
})();
