import type { Format } from "../i18n/format";

/** The sums of amounts in each currency, for example "$12.00 + €8.50". Currencies are never added. */
export function sumsOf(rows: { amountCents: number; currency: string }[], f: Format): string {
  const sums = new Map<string, number>();
  for (const { amountCents, currency } of rows) sums.set(currency, (sums.get(currency) ?? 0) + amountCents);
  return [...sums].map(([currency, cents]) => f.money(cents, currency)).join(" + ");
}
