import { Webhook } from "standardwebhooks";

import type { TributaryEvent } from "./events.js";

/**
 * Verifies the signature and the age of a webhook (Standard Webhooks) and returns its event.
 * It throws if the signature is wrong, or if the timestamp differs from the current time by
 * more than five minutes. The body must be the received bytes. If it was parsed and serialized
 * again, the signature is wrong.
 *
 * A later version of the service may send event types that this version of the client does
 * not know, so a switch over event.type needs a default case.
 */
export function verifyWebhook(
  secret: string,
  body: string | Uint8Array,
  headers: Headers | Record<string, string | string[] | undefined>,
): TributaryEvent {
  const plain: Record<string, string> = {};
  const entries = headers instanceof Headers ? headers.entries() : Object.entries(headers);
  for (const [name, value] of entries) {
    if (typeof value === "string") plain[name.toLowerCase()] = value;
  }
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  return new Webhook(secret).verify(text, plain) as TributaryEvent;
}
