import type { Commission } from "../data";

/** The amounts of a commission that depend on each other. */
type Amounts = Pick<Commission, "rateBps" | "baseAmountCents" | "saleCurrency" | "originalAmountCents" | "currency">;

/**
 * Says what leads from the rate to the amount before refunds: nothing else, an exchange rate, or
 * a limit in the rules of the programme. It is null if the commission is a flat amount.
 */
export function calculationOf(commission: Amounts): "equal" | "converted" | "limited" | null {
  const { rateBps, baseAmountCents, saleCurrency, originalAmountCents, currency } = commission;
  if (rateBps === null) return null;
  if (saleCurrency !== currency) return "converted";
  // The rate can be the rounded mean of the rates of several products.
  const tolerance = 1 + baseAmountCents / 20_000;
  return originalAmountCents < (baseAmountCents * rateBps) / 10_000 - tolerance ? "limited" : "equal";
}
