import type { Schemas } from "../../app/data";
import type { Format } from "../../i18n/format";
import type { Texts } from "../texts";

/** The numbers of the analytics, as the API names them. */
export const measures = [
  "clicks",
  "uniqueClicks",
  "signups",
  "conversions",
  "newCustomers",
  "revenueCents",
  "refundedCents",
  "commissionCents",
  "netRevenueCents",
  "conversionRate",
  "eventsPerClick",
  "epcCents",
  "aovCents",
  "returnOnCommission",
] as const satisfies readonly (keyof Schemas["AnalyticsMetrics"])[];

export type Measure = (typeof measures)[number];
export type Numbers = Schemas["AnalyticsMetrics"];

/** The measures that are always in a table. */
const usual: readonly Measure[] = ["clicks", "conversions", "newCustomers", "conversionRate", "revenueCents", "commissionCents"];

/** The measures of a table in which one is wanted too. */
export function withUsual(wanted: Measure): readonly Measure[] {
  return usual.includes(wanted) ? usual : [...usual, wanted];
}

/** Whether a measure is computed from clicks. */
export function needsClicks(measure: Measure): boolean {
  return ["clicks", "uniqueClicks", "conversionRate", "eventsPerClick", "epcCents"].includes(measure);
}

/** A value of a measure in its unit. Ratios without a divisor are null. */
export function measureText(measure: Measure, value: number | null, currency: string, t: Texts, f: Format): string {
  if (value === null) return "–";
  if (measure.endsWith("Cents")) return f.money(value, currency);
  if (measure === "conversionRate") return f.percent(value * 10_000);
  if (measure === "returnOnCommission") return t.overview.times(f.number(Math.round(value * 10) / 10));
  return f.number(value);
}
