import { Webhook } from "standardwebhooks";

import type { TributaryEvent } from "./events.js";

/**
 * Verifies the signature and the age of a webhook (Standard Webhooks) and returns its event.
 * It throws if the webhook is not genuine or older than five minutes. The body must be the bytes as received:
 * a body that was parsed and serialized again does not verify.
 *
 * A later version of the service may send types that this version does not know, so a
 * switch over event.type needs a default.
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
