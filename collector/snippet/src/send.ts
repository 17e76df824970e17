// One request per click: text/plain, so that no preflight precedes it.

import { api, debug, on } from "./env";

export interface Reply {
  click_id?: unknown;
  cookie_max_age?: number;
  attribution_model?: string | null;
}

/** Milliseconds. */
const enum Wait {
  /** For the answer to an attempt. */
  answer = 3000,
  /** Before the second and last attempt. */
  again = 1000,
}

const ask = (body: string): Promise<Reply | number> => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), Wait.answer);
  // Cookies go to the page's own origin and to no other, which is the default.
  return fetch(api, { method: "POST", body, keepalive: true, signal: controller.signal }).then((answer) => {
    debug(answer.status);
    // Too many, or the server's own fault.
    if (answer.status > 428) throw 0;
    return answer.ok ? answer.json() : answer.status;
  });
};

/** Asks twice at most, with the same id. A refusal is its status, and 0 that nothing came. */
export const send = (body: string): Promise<Reply | number> => {
  let waiting = 1;
  // The page goes: what has no answer is sent once more, as the same click.
  on("pagehide", () => {
    if (waiting) navigator.sendBeacon(api, body);
    waiting = 0;
  });
  return Promise.resolve(body)
    .then(ask)
    .catch(() => new Promise<string>((again) => setTimeout(again, Wait.again, body)).then(ask))
    .catch(() => 0)
    .then((reply) => {
      waiting = 0;
      return reply;
    });
};
