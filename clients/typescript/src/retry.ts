export interface RetryOptions {
  /** The highest number of attempts, including the first. Default: 4. */
  attempts?: number;
  /** The longest time for all attempts and the waits between them, in milliseconds. Default: 60000. */
  totalMs?: number;
}

const firstWaitMs = 250;
const longestWaitMs = 8_000;

/**
 * Returns a fetch function that repeats a request in these cases:
 *
 * - 429: the request was over the rate limit and had no effect, so every request is repeated.
 * - 502, 503, 504 and a broken connection: the request may have had an effect. It is only
 *   repeated if a second execution has no further effect: GET, HEAD, PUT, and requests with
 *   an Idempotency-Key.
 *
 * Between attempts the function waits for the time in the Retry-After header. If the response
 * has no such header, the first wait is 250 ms, and each further wait is twice as long, up to
 * 8 s. A random part is subtracted from these waits. If no attempts or time are left, the
 * result is the last response or error.
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
      const mayRepeat = response === undefined ? repeatable(request) : shouldRepeat(request, response.status);
      const wait = retryAfterMs(response) ?? backoffMs(attempt);
      if (!mayRepeat || attempt >= attempts || Date.now() + wait > deadline) {
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

/** Reports whether the request can be sent twice without a second effect. */
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
