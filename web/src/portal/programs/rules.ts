import type { Format } from "../../i18n/format";
import type { Offer } from "../data";
import type { Texts } from "../texts";

/** The rules of a programme that decide what a sale earns, as sentences. The rate itself is in rateOf. */
export function rulesOf(program: Offer, t: Texts, f: Format): string[] {
  const rules = program.commissionRules;
  if (!rules) return [];
  const say = t.programs.rule;
  const sentences: string[] = [];
  const money = (amount: number) => f.money(amount, program.currency);
  const percent = (rate: number | null) => f.percent((rate ?? 0) * 100);
  const isGiven = (value: number | null) => value !== null && value !== undefined;

  const own = program.participation?.commissionRate;
  const events = rules.events.map(({ eventType, percentage, flatAmountCents }) => {
    const name = t.event[eventType ?? "custom"];
    if (own || (!isGiven(percentage) && !isGiven(flatAmountCents))) return name;
    return say.rateFor(isGiven(percentage) ? percent(percentage) : money(flatAmountCents ?? 0), name);
  });
  if (events.length > 0) sentences.push(say.events(events.join(", ")));

  // A rate of the partner replaces the others, but one of the partner's group does not replace
  // those of products. The API does not say which of the two a rate is.
  if (own) {
    if (rules.products.length > 0) sentences.push(say.products);
  } else {
    for (const { minConversions, minRevenueCents, percentage } of rules.tiers) {
      if (isGiven(minRevenueCents)) sentences.push(say.tierRevenue(percent(percentage), money(minRevenueCents ?? 0)));
      else sentences.push(say.tierConversions(percent(percentage), f.number(minConversions ?? 0)));
    }
    for (const { productId, percentage, flatAmountCents } of rules.products) {
      if (isGiven(percentage)) sentences.push(say.rateFor(percent(percentage), productId));
      else sentences.push(say.unitsOf(money(flatAmountCents ?? 0), productId));
    }
  }

  const { enabled, maxMonths, maxPayments } = rules.recurring ?? { enabled: true, maxMonths: null, maxPayments: null };
  if (enabled === false) {
    sentences.push(say.first);
  } else {
    if (!own && isGiven(rules.laterPercentage)) sentences.push(say.later(percent(rules.laterPercentage)));
    if (maxMonths) sentences.push(say.months(maxMonths));
    if (maxPayments) sentences.push(say.payments(f.number(maxPayments)));
  }
  if (rules.minOrderCents) sentences.push(say.minimum(money(rules.minOrderCents)));
  if (isGiven(rules.capCents)) sentences.push(say.cap(money(rules.capCents ?? 0)));
  if (isGiven((own ?? rules).percentage) && rules.netBasis) sentences.push(say.basis[rules.netBasis]);
  return sentences;
}
