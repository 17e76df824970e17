// Sends one request per click. The content type of the request is text/plain, so that the
// browser sends no preflight request.

import { endpoint, debug, on } from "./env";

/** The part of the collector's response that the script uses. */
export interface Reply {
  click_id?: unknown;
  cookie_max_age?: number;
  attribution_model?: string | null;
  discount?: Discount | null;
}

/** The discount that the partner's promo code gives to buyers. */
export interface Discount {
  /** the promo code; promo_code in the collector's reply */
  code: string;
  /** percentage or fixed */
  type?: string;
  /** a percentage, or an amount in minor units of the currency */
  value?: number;
  /** absent for a percentage */
  currency?: string;
}

/** Durations in milliseconds. */
const enum Wait {
  /** The time limit for the response to an attempt. */
  response = 3000,
  /** The pause before the second and last attempt. */
  again = 1000,
}

// fetch sends cookies only to the page's own origin, because its option credentials is
// "same-origin" by default. sendBeacon would send cookies to any origin.
const post = (body: string, signal?: AbortSignal): Promise<Response> => fetch(endpoint, { method: "POST", body, keepalive: true, signal });

const request = (body: string): Promise<Reply | number> => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), Wait.response);
  return post(body, controller.signal).then((response) => {
    debug(response.status);
    // Throw an error after 429 (too many requests) and server errors, so that send
    // retries.
    if (response.status > 428) throw 0;
    return response.ok ? response.json() : response.status;
  });
};

/**
 * Makes at most two attempts to send a click, with the same id. The promise resolves to
 * the collector's reply, to the status if the click was refused, or to 0 if both attempts
 * failed.
 */
export const send = (body: string): Promise<Reply | number> => {
  let waiting = 1;
  // If the visitor leaves the page before the response arrives, send the click once more
  // with the same id.
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
