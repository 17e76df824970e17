import { TributaryError, unwrap } from "../app/app";

/** The result of a call for several records: the ids of those that were changed, and the messages of the others. */
export interface Outcome {
  changed: string[];
  failed: ReadonlyMap<string, string>;
}

interface Row {
  success: boolean;
  message: string | null;
}

/** Reads the result of a call for several records. If all failed, the status is 422, and the body has the results too. */
export function outcomeOf<R extends Row>(result: { data?: { results: R[] }; error?: unknown; response: Response }, idOf: (row: R) => string): Outcome {
  const body = result.response.status === 422 ? (result.error as { results?: R[] }) : unwrap(result);
  if (!body.results) throw new TributaryError(result.response, result.error);
  return {
    changed: body.results.filter(({ success }) => success).map(idOf),
    failed: new Map(body.results.filter(({ success }) => !success).map((row) => [idOf(row), row.message ?? ""])),
  };
}
