// One request per click: text/plain, so that no preflight precedes it.

import { api, debug } from "./env";

export interface Reply {
  click_id?: unknown;
  cookie_max_age?: number;
  attribution_model?: string | null;
}

/** Milliseconds: an attempt, and the pause before the second and last one. */
const patience = 3000;
const pause = 1000;

/** The body that has no answer yet. */
let waiting = "";

const ask = (body: string): Promise<Reply | undefined> => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), patience);
  // Cookies go to the page's own origin and to no other, which is the default.
  return fetch(api, { method: "POST", body, keepalive: true, signal: controller.signal }).then((answer) => {
    debug(answer.status);
    if (answer.status >= 500) throw 0;
    return answer.ok ? answer.json() : undefined;
  });
};

/** Asks twice at most, with the same id, and is silent about failure. */
export const send = (body: string): Promise<Reply | undefined | void> => {
  waiting = body;
  return Promise.resolve(body)
    .then(ask)
    .catch(() => new Promise<string>((again) => setTimeout(again, pause, body)).then(ask))
    .catch(debug)
    .then((reply) => {
      if (waiting === body) waiting = "";
      return reply;
    });
};

/** The page goes: what has no answer is sent once more, as the same click. */
export const farewell = (): void => {
  if (waiting) navigator.sendBeacon(api, waiting);
  waiting = "";
};
