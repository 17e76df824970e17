import { TributaryError } from "../../../clients/typescript/src/errors.js";

/**
 * Sends a request with a JSON body and without an access token, and returns the body of the
 * response. It throws a TributaryError if the service refuses the request.
 */
export async function post<T>(path: string, body: object): Promise<T> {
  return send<T>(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** Returns what anybody can read, without an answer that the browser has stored. */
export async function get<T>(path: string): Promise<T> {
  return send<T>(path, { cache: "no-cache" });
}

/** Like post, for a body that is a form. */
export async function postForm<T>(path: string, form: URLSearchParams): Promise<T> {
  return send<T>(path, { method: "POST", body: form });
}

async function send<T>(path: string, request: RequestInit): Promise<T> {
  const response = await fetch(path, request);
  const result: unknown = response.status === 204 ? undefined : await response.json().catch(() => undefined);
  if (!response.ok) throw new TributaryError(response, result);
  return result as T;
}
