import { unwrap } from "./errors.js";

/** A page of a list. */
export interface Page<T> {
  data: T[];
  page: number;
  limit: number;
}

/**
 * Yields every item of a list. It calls get with the number of each page, which starts at 1:
 *
 *     for await (const commission of pages((page) => client.GET("/api/v1/commissions", { params: { query: { page, pageSize: 100 } } })))
 *
 * The iteration ends after the first page that is not full. If items are added or removed
 * during the iteration, items may be missing or appear twice.
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
