import type { Format } from "../../i18n/format";
import type { Texts } from "../texts";
import type { Conversion } from "./ConversionDetail";
import type { Decision } from "./Trace";

/** A line of the calculation: its name, and its amount if it has one. */
export interface Line {
  name: string;
  amount: string;
  /** Whether the line is a sum of those before it. */
  isSum?: boolean;
}

/** The lines of the calculation of a commission, from what the customer paid to the commission. */
export function linesOf(decision: Decision, conversion: Conversion, t: Texts, f: Format): Line[] {
  const { calculation, inputs } = decision;
  const currency = conversion.currency;
  if (!calculation) return [];
  const { line } = t.conversions;
  const lines: Line[] = [];
  if (currency && inputs) {
    lines.push({ name: line.paid, amount: f.money(inputs.amount_cents, currency) });
    const deductions = { net_of_tax: 1, net_of_tax_shipping: 2, net_of_tax_shipping_fees: 3 }[calculation.net_basis] ?? 0;
    const parts = [[line.tax, inputs.tax_cents], [line.shipping, inputs.shipping_cents], [line.fees, inputs.fee_cents]] as const;
    for (const [name, cents] of parts.slice(0, deductions)) {
      if (cents !== 0) lines.push({ name, amount: f.money(-cents, currency) });
    }
    lines.push({ name: line.base, amount: f.money(calculation.base_amount_cents, calculation.base_currency || currency), isSum: true });
  }
  const rate = (bps: number | null, flatCents: number | null) => (bps === null ? f.money(flatCents ?? 0, calculation.currency) : f.percent(bps));
  for (const part of calculation.parts) {
    lines.push({ name: line.product(part.product_id, rate(part.rate_bps, part.flat_amount_cents)), amount: currency ? line.units(f.money(part.amount_cents, currency), f.number(part.quantity)) : "" });
  }
  if (calculation.parts.length === 0) {
    if (calculation.rate_bps !== null) lines.push({ name: line.rate(f.percent(calculation.rate_bps)), amount: "" });
    else lines.push({ name: line.flat, amount: f.money(calculation.flat_amount_cents ?? 0, calculation.currency) });
  }
  if (calculation.fx_rate && calculation.fx_date) lines.push({ name: line.fx(calculation.fx_rate, f.date(calculation.fx_date)), amount: "" });
  if (calculation.capped_at_order_cap) lines.push({ name: line.capOrder, amount: "" });
  if (calculation.capped_at_base) lines.push({ name: line.capBase, amount: "" });
  lines.push({ name: line.amount, amount: f.money(calculation.amount_cents, calculation.currency), isSum: true });
  return lines;
}
