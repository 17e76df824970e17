import { unwrap } from "./errors.js";

/** A page of a list. */
export interface Page<T> {
  data: T[];
  page: number;
  limit: number;
}

/**
 * Yields every item of a list. The function get requests the page with the given number:
 *
 *     for await (const commission of pages((page) => client.GET("/api/v1/commissions", { params: { query: { page, pageSize: 100 } } })))
 *
 * The iteration ends with the first page that is not full. Items that are added or removed
 * during the iteration may be missing or appear twice.
 */
export async function* pages<T>(
  get: (page: number) => Promise<{ data?: Page<T>; error?: unknown; response: Response }>,
): AsyncGenerator<T, void, undefined> {
  for (let number = 1; ; number++) {
    const page = unwrap(await get(number));
    yield* page.data;
    if (page.data.length < page.limit) return;
  }
}
