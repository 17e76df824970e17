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

interface Result<R> {
  data?: { results: R[] };
  error?: unknown;
  response: Response;
}

/** The result of each record of a call for several. If all failed, the status is 422, and the body has the results too. */
export function rowsOf<R extends Row>(result: Result<R>): R[] {
  const { results } = result.response.status === 422 ? (result.error as { results?: R[] }) : unwrap(result);
  if (!results) throw new TributaryError(result.response, result.error);
  return results;
}

/** Reads the result of a call for several records. */
export function outcomeOf<R extends Row>(result: Result<R>, idOf: (row: R) => string): Outcome {
  const rows = rowsOf(result);
  return {
    changed: rows.filter(({ success }) => success).map(idOf),
    failed: new Map(rows.filter(({ success }) => !success).map((row) => [idOf(row), row.message ?? ""])),
  };
}
