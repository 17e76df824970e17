import type { components } from "./schema.js";

type ErrorBody = components["schemas"]["Error"];

/** A field of a request whose value is not valid. Its name is spelled as in the request. */
export type FieldError = NonNullable<ErrorBody["details"]>[number];

/** An error response of the service. */
export class TributaryError extends Error {
  override readonly name = "TributaryError";
  /** The HTTP status. */
  readonly status: number;
  /**
   * The stable error code, for example VALIDATION_ERROR. If the response is not an error of the
   * API, for example because a proxy sent it, the code is INTERNAL_ERROR.
   */
  readonly code: string;
  /** All fields that are not valid, if the code is VALIDATION_ERROR. Otherwise empty. */
  readonly details: readonly FieldError[];
  /** Facts about the error, for example holdUntil or refundableCents. Empty if there are none. */
  readonly context: Readonly<Record<string, string | number>>;
  /** The challenge for Session.completeLogin, if the code is SECOND_FACTOR_REQUIRED. Otherwise null. */
  readonly challenge: string | null;
  /** The seconds until the request can be repeated, if the status is 429. Otherwise null. */
  readonly retryAfter: number | null;
  /** The id of the request in the service's log. */
  readonly requestId: string | null;

  constructor(response: Response, body: unknown) {
    const error = isErrorBody(body) ? body : undefined;
    super(error?.message ?? `The response has status ${response.status} and is not an error of the API.`);
    this.status = response.status;
    this.code = error?.code ?? "INTERNAL_ERROR";
    this.details = error?.details ?? [];
    this.context = error?.context ?? {};
    this.challenge = (error as { challenge?: string } | undefined)?.challenge ?? null;
    const seconds = response.headers.get("Retry-After");
    this.retryAfter = seconds && /^\d+$/.test(seconds) ? Number(seconds) : null;
    this.requestId = response.headers.get("X-Request-Id");
  }
}

/** Returns the data of a result. If the result is an error, it throws a TributaryError. */
export function unwrap<T>(result: { data?: T; error?: unknown; response: Response }): NonNullable<T> {
  if (!result.response.ok) throw new TributaryError(result.response, result.error);
  return result.data as NonNullable<T>;
}

function isErrorBody(body: unknown): body is ErrorBody {
  return typeof body === "object" && body !== null && "code" in body && "message" in body;
}
