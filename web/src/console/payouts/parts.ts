import type { Schemas } from "../../app/data";

type Preview = Schemas["PayoutPreview"];

/** The part of a preview that is shown: the payouts, or the participants that get none. */
export type Part = "payable" | "excluded";

/**
 * Loads a page of a part of the preview. The pages of the service contain both parts, one after
 * the other, so a page of the second part can be in two pages of the service.
 */
export async function partsOf(load: (page: number) => Promise<Preview>, part: Part, page: number, pageSize: number) {
  const first = await load(part === "payable" ? page : 1);
  const payable = first.totals.reduce((sum, { payoutCount }) => sum + payoutCount, 0);
  const excluded = first.total - payable;
  const counts = { payable, excluded, totals: first.totals };
  if (part === "payable") return { ...counts, lines: first.data.filter(({ excludedBecause }) => excludedBecause === null) };
  const start = payable + (page - 1) * pageSize;
  const number = Math.floor(start / pageSize) + 1;
  const offset = start % pageSize;
  const one = number === 1 ? first : await load(number);
  const two = offset > 0 && number * pageSize < first.total ? (await load(number + 1)).data : [];
  return { ...counts, lines: [...one.data, ...two].slice(offset, offset + pageSize) };
}
