// One request per click: text/plain, so that no preflight precedes it.

import { api, debug, on } from "./env";

export interface Reply {
  click_id?: unknown;
  cookie_max_age?: number;
  attribution_model?: string | null;
}

/** Milliseconds. */
const enum Wait {
  /** For the response to an attempt. */
  response = 3000,
  /** Before the second and last attempt. */
  again = 1000,
}

// fetch sends cookies to the page's own origin only: its default for credentials is
// "same-origin". A beacon would send them to any origin.
const post = (body: string, signal?: AbortSignal): Promise<Response> => fetch(api, { method: "POST", body, keepalive: true, signal });

const ask = (body: string): Promise<Reply | number> => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), Wait.response);
  return post(body, controller.signal).then((response) => {
    debug(response.status);
    // Too many requests, or a fault of the server.
    if (response.status > 428) throw 0;
    return response.ok ? response.json() : response.status;
  });
};

/** Sends a click twice at most, with the same id. Resolves to the reply, to the status of a refusal, or to 0 without a response. */
export const send = (body: string): Promise<Reply | number> => {
  let waiting = 1;
  // The visitor leaves the page: a click without a response is sent once more, with the same id.
  on("pagehide", () => {
    if (waiting) post(body).catch(() => 0);
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
