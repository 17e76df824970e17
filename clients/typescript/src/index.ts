/**
 * A typed client of the Tributary API.
 *
 * The types are generated from the OpenAPI document. The client adds the credential to each
 * request, adds idempotency keys where the API accepts them, and repeats requests safely.
 */
export { createTributary, type Tributary, type TributaryOptions } from "./client.js";
export { TributaryError, unwrap, type FieldError } from "./errors.js";
export { pages, type Page } from "./pages.js";
export { type RetryOptions } from "./retry.js";
export { Session, type SessionOptions } from "./session.js";
export { verifyWebhook } from "./webhooks.js";
export type { components, operations, paths } from "./schema.js";
export type { EventOf, TributaryEvent } from "./events.js";
