/** The instant of a local time such as 2026-11-30T14:05 in a time zone. */
export function instantOf(local: string, timeZone: string): Date {
  const asUtc = new Date(`${local}Z`).getTime();
  const first = asUtc - offsetAt(asUtc, timeZone);
  return new Date(asUtc - offsetAt(first, timeZone)); // the offset at the first guess can be another one
}

/** The milliseconds that the clocks of a time zone are ahead of UTC. */
function offsetAt(instant: number, timeZone: string): number {
  const local = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(instant);
  return Date.parse(`${local.replace(" ", "T")}Z`) - Math.floor(instant / 1000) * 1000;
}
