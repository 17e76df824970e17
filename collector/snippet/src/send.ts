// Sends one request per click. Its content type is text/plain, so that the browser sends no
// preflight request.

import { endpoint, debug, on } from "./env";

export interface Reply {
  click_id?: unknown;
  cookie_max_age?: number;
  attribution_model?: string | null;
}

/** Durations in milliseconds. */
const enum Wait {
  /** The time limit for the response to an attempt. */
  response = 3000,
  /** The pause before the second and last attempt. */
  again = 1000,
}

// fetch sends cookies only to the page's own origin, because credentials is "same-origin" by
// default. sendBeacon would send them to any origin.
const post = (body: string, signal?: AbortSignal): Promise<Response> => fetch(endpoint, { method: "POST", body, keepalive: true, signal });

const request = (body: string): Promise<Reply | number> => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), Wait.response);
  return post(body, controller.signal).then((response) => {
    debug(response.status);
    // Retry after 429 (too many requests) and server errors.
    if (response.status > 428) throw 0;
    return response.ok ? response.json() : response.status;
  });
};

/** Sends a click at most twice, with the same id. Resolves to the reply, to the status if the click was refused, or to 0 if there was no response. */
export const send = (body: string): Promise<Reply | number> => {
  let waiting = 1;
  // If the visitor leaves the page before the response, send the click once more with the same id.
  on("pagehide", () => {
    if (waiting) post(body).catch(() => 0);
    waiting = 0;
  });
  return Promise.resolve(body)
    .then(request)
    .catch(() => new Promise<string>((again) => setTimeout(again, Wait.again, body)).then(request))
    .catch(() => 0)
    .then((reply) => {
      waiting = 0;
      return reply;
    });
};
