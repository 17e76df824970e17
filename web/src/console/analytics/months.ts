/** The first day of the month that is a number of months before that of a day, as YYYY-MM-DD. */
export function monthsBefore(day: string, months: number): string {
  const time = new Date(`${day.slice(0, 7)}-01T00:00:00Z`);
  time.setUTCMonth(time.getUTCMonth() - months);
  return time.toISOString().slice(0, 10);
}
