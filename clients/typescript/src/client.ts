import createFetchClient, { type Client } from "openapi-fetch";

import { retrying, type RetryOptions } from "./retry.js";
import type { paths } from "./schema.js";

export interface TributaryOptions {
  /** The address of the gateway, for example https://api.example.com. */
  baseUrl: string;
  /**
   * A secret key or an access token, or a function that returns a key or a token, such as
   * the token method of a Session. The client calls the function for each attempt of a
   * request. If the response is a 401, the client calls the function again with
   * renew = true and repeats the request once, unless a password or code in the body is wrong.
   */
  credential: string | ((renew: boolean) => string | Promise<string>);
  /** The mode of requests with an access token. Each key belongs to one mode. Default: live. */
  mode?: "test" | "live";
  /** The limits for repeated attempts of a request. */
  retry?: RetryOptions;
  /** The fetch function. Default: globalThis.fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

/** The client. It has a method for each HTTP method: GET, POST, PATCH, PUT and DELETE. */
export type Tributary = Client<paths>;

/**
 * The paths whose POST accepts an Idempotency-Key. The client adds a key to each of these
 * requests that has none, so the requests can be repeated like a GET.
 */
export const idempotentPaths: readonly string[] = [
  "/api/v1/conversions",
  "/api/v1/conversions/batch",
  "/api/v1/programs/{programId}/partners/{participantId}/ledger",
  "/api/v1/programs/{programId}/announcements",
  "/api/v1/programs/{programId}/partners",
  "/api/v1/programs/{programId}/partners/invite",
  "/api/v1/workspace/invites",
  "/api/v1/payouts/batches",
  "/api/v1/merchant/gdpr/buyer-erasure",
];

/**
 * Whether the service refuses the password or the code in the body of a request. The access token
 * is valid then, and the same request would count as another failed login.
 */
async function isWrongSecret(response: Response): Promise<boolean> {
  const body: unknown = await response.clone().json().catch(() => undefined);
  return typeof body === "object" && body !== null && "code" in body && body.code === "INVALID_CREDENTIALS";
}

/** Returns a client of the service at baseUrl. */
export function createTributary(options: TributaryOptions): Tributary {
  const { credential, mode } = options;
  const send = options.fetch ?? ((request: Request) => globalThis.fetch(request));
  const token = async (renew: boolean) => (typeof credential === "string" ? credential : credential(renew));

  const authorized = async (request: Request): Promise<Response> => {
    const attempt = async (renew: boolean) => {
      const authorizedRequest = request.clone();
      authorizedRequest.headers.set("Authorization", `Bearer ${await token(renew)}`);
      return send(authorizedRequest);
    };
    const response = await attempt(false);
    if (response.status !== 401 || typeof credential === "string" || (await isWrongSecret(response))) return response;
    await response.body?.cancel();
    return attempt(true);
  };

  const client = createFetchClient<paths>({ baseUrl: options.baseUrl, fetch: retrying(authorized, options.retry) });
  client.use({
    onRequest({ request, schemaPath }) {
      if (mode !== undefined && !request.headers.has("X-Mode")) request.headers.set("X-Mode", mode);
      if (request.method === "POST" && idempotentPaths.includes(schemaPath) && !request.headers.has("Idempotency-Key")) {
        request.headers.set("Idempotency-Key", crypto.randomUUID());
      }
    },
  });
  return client;
}
