import type { Schemas } from "../../app/data";
import type { Format } from "../../i18n/format";

export type Interval = NonNullable<Schemas["AnalyticsTimeseries"]["interval"]>;

export const intervals = ["hour", "day", "week", "month"] as const satisfies readonly Interval[];

/** The beginning of an interval. */
export function startText(start: string, interval: Interval, f: Format): string {
  return interval === "hour" ? f.time(start) : interval === "month" ? f.month(start) : f.date(start);
}
