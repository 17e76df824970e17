import type { Schemas } from "../app/data";
import type { Format } from "../i18n/format";

/** A rate in words: a percentage, or a flat amount in the currency of the programme. */
export function rateText({ percentage, flatAmountCents }: Schemas["CommissionRate"], currency: string, f: Format): string {
  return percentage === null ? f.money(flatAmountCents ?? 0, currency) : f.percent(percentage * 100);
}
