export interface RetryOptions {
  /** The number of attempts, the first included. Default: 4. */
  attempts?: number;
  /** The longest time for all attempts and the waits between them, in milliseconds. Default: 60000. */
  totalMs?: number;
}

const firstWaitMs = 250;
const longestWaitMs = 8_000;

/**
 * Returns a fetch function that repeats a request in these cases:
 *
 * - 429: the service has refused the request and done nothing, so every request can be repeated.
 * - 502, 503, 504 and a broken connection: the service may have acted, so only a request
 *   that can be repeated without harm is repeated: GET, HEAD, PUT, and requests with
 *   an Idempotency-Key.
 *
 * The wait is the Retry-After of the response. Without one it starts at 250 ms and doubles up
 * to 8 s, with random jitter. When no attempt or time is left, the last response or error is the result.
 */
export function retrying(
  send: (request: Request) => Promise<Response>,
  { attempts = 4, totalMs = 60_000 }: RetryOptions = {},
): (request: Request) => Promise<Response> {
  return async (request) => {
    const deadline = Date.now() + totalMs;
    for (let attempt = 1; ; attempt++) {
      let response: Response | undefined;
      let failure: unknown;
      try {
        response = await send(request.clone());
      } catch (error) {
        // fetch reports a broken connection as a TypeError.
        if (!(error instanceof TypeError)) throw error;
        failure = error;
      }
      const repeat = response === undefined ? repeatable(request) : shouldRepeat(request, response.status);
      const wait = retryAfterMs(response) ?? backoffMs(attempt);
      if (!repeat || attempt >= attempts || Date.now() + wait > deadline) {
        if (response === undefined) throw failure;
        return response;
      }
      await response?.body?.cancel();
      await sleep(wait, request.signal);
    }
  };
}

function shouldRepeat(request: Request, status: number): boolean {
  return status === 429 || ([502, 503, 504].includes(status) && repeatable(request));
}

function repeatable(request: Request): boolean {
  return ["GET", "HEAD", "PUT"].includes(request.method) || request.headers.has("Idempotency-Key");
}

function retryAfterMs(response: Response | undefined): number | undefined {
  const seconds = response?.headers.get("Retry-After");
  return seconds && /^\d+$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}

function backoffMs(attempt: number): number {
  const wait = Math.min(firstWaitMs * 2 ** (attempt - 1), longestWaitMs);
  return wait / 2 + (Math.random() * wait) / 2;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal.addEventListener("abort", abort, { once: true });
  });
}
