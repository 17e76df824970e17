/** The periods of the overview and the analytics, by their numbers of days. */
export const periods = ["7", "30", "90", "365"] as const;

/** The day that is a number of days before another one, as YYYY-MM-DD. */
export function daysBefore(day: string, days: number): string {
  const time = new Date(`${day}T00:00:00Z`);
  time.setUTCDate(time.getUTCDate() - days);
  return time.toISOString().slice(0, 10);
}

/** The change from an earlier number to a later one in basis points. It is null if there is nothing to compare with. */
export function changeOf(now: number | null | undefined, before: number | null | undefined): number | null {
  if (now === null || now === undefined || !before) return null;
  return Math.round(((now - before) / before) * 10_000);
}
