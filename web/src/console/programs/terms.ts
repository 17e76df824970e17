import type { Schemas } from "../../app/data";
import { decimal, exponent, type Format, minorUnits } from "../../i18n/format";
import { rateText } from "../rate";
import type { Texts } from "../texts";
import type { Program } from "./data";

/** The events that can earn, in the order of the form. */
export const eventTypes = ["purchase", "renewal", "signup", "lead", "trial", "custom"] as const;
export const bases = ["gross", "net_of_tax", "net_of_tax_shipping", "net_of_tax_shipping_fees"] as const;

/** The rules of a programme that the form changes, as the API names them. */
export type Terms = Pick<Program, "attributionWindowDays" | "attributionModel" | "signalPrecedence" | "minPayoutCents" | "payoutTermDays"> & {
  commissionRules: Schemas["CommissionRules"];
};

/** The rules of a programme that the form changes. A list without events means the two that earn by default. */
export function termsOf(program: Program): Terms {
  const { attributionWindowDays, attributionModel, signalPrecedence, minPayoutCents, payoutTermDays } = program;
  const commissionRules = program.commissionRules as Schemas["CommissionRules"];
  return { attributionWindowDays, attributionModel, signalPrecedence, minPayoutCents, payoutTermDays, commissionRules };
}

/** Reads the values of the form. It throws fault(name) if one is no number. */
export function readTerms(values: Record<string, string>, currency: string, fault: (name: string) => Error): Terms {
  const digits = exponent(currency);
  const number = (name: string, digits = 0) => {
    const text = (values[name] ?? "").trim();
    if (text === "") return null;
    const units = minorUnits(text, digits);
    if (units === null || units < 0) throw fault(name);
    return units;
  };
  const percent = (name: string) => {
    const hundredths = number(name, 2);
    return hundredths === null ? null : hundredths / 100;
  };
  const rate = (path: string, kind: string | undefined) => ({
    percentage: kind === "percentage" ? percent(`${path}.percentage`) : null,
    flatAmountCents: kind === "flat" ? number(`${path}.flatAmountCents`, digits) : null,
  });
  const rows = (path: string) => {
    const found = Object.keys(values).flatMap((name) => (name.startsWith(`${path}[`) ? [Number.parseInt(name.slice(path.length + 1), 10)] : []));
    return [...new Set(found)].sort((a, b) => a - b).map((row) => `${path}[${row}]`);
  };
  const isRevenue = values["tiersBy"] === "revenue";
  const type = values["commissionRules.commissionType"] === "flat" ? "flat" : "percentage";
  return {
    attributionWindowDays: number("attributionWindowDays") ?? 60,
    attributionModel: values["attributionModel"] as Terms["attributionModel"],
    signalPrecedence: values["signalPrecedence"] as Terms["signalPrecedence"],
    minPayoutCents: number("minPayoutCents", digits) ?? 0,
    payoutTermDays: number("payoutTermDays") ?? 0,
    commissionRules: {
      commissionType: type,
      ...rate("commissionRules", type),
      holdPeriodDays: number("commissionRules.holdPeriodDays") ?? 30,
      autoApproval: values["commissionRules.autoApproval"] === "true",
      netBasis: values["commissionRules.netBasis"] as Terms["commissionRules"]["netBasis"],
      recurring: {
        enabled: values["commissionRules.recurring.enabled"] === "true",
        maxMonths: number("commissionRules.recurring.maxMonths"),
        maxPayments: number("commissionRules.recurring.maxPayments"),
      },
      laterPercentage: percent("commissionRules.laterPercentage"),
      minOrderCents: number("commissionRules.minOrderCents", digits),
      capCents: number("commissionRules.capCents", digits),
      tiers: rows("commissionRules.tiers").map((path) => ({
        minConversions: isRevenue ? null : (number(`${path}.minConversions`) ?? 0),
        minRevenueCents: isRevenue ? (number(`${path}.minRevenueCents`, digits) ?? 0) : null,
        percentage: percent(`${path}.percentage`),
      })),
      products: rows("commissionRules.products").map((path) => ({ productId: values[`${path}.productId`] ?? "", ...rate(path, values[`${path}.kind`]) })),
      events: eventTypes.flatMap((eventType) => {
        const kind = values[`event.${eventType}.kind`];
        if (!kind || kind === "none") return [];
        return [{ eventType, ...rate(`event.${eventType}`, kind) }];
      }),
    },
  };
}

/** Whether each row of the form has its rate, and each product its id. */
export function isComplete({ commissionRules: { commissionType, percentage, flatAmountCents, tiers, products } }: Terms): boolean {
  const hasRate = (rate: { percentage: number | null; flatAmountCents: number | null }) => rate.percentage !== null || rate.flatAmountCents !== null;
  return (
    (commissionType === "flat" ? flatAmountCents : percentage) !== null &&
    tiers.every((tier) => tier.percentage !== null) &&
    products.every((product) => product.productId !== "" && hasRate(product))
  );
}

/** The body of a request that makes the changes from some rules to others. It is empty if nothing changes. */
export function changesOf(from: Terms, to: Terms): Schemas["UpdateProgramRequest"] {
  const { commissionRules, ...rest } = to;
  const changed = differences(from.commissionRules, { ...commissionRules, events: isDefault(commissionRules.events) ? [] : commissionRules.events }, {
    events: isDefault(from.commissionRules.events) ? [] : from.commissionRules.events,
  });
  return { ...differences(from, rest), ...(Object.keys(changed).length > 0 && { commissionRules: changed as Schemas["CommissionRulesInput"] }) };
}

/** The fields of after that differ from before. */
function differences<T extends object>(before: object, after: T, instead: object = {}): Partial<T> {
  const old = { ...before, ...instead } as Record<string, unknown>;
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(old[name]) !== JSON.stringify(value))) as Partial<T>;
}

/** Whether only purchases and renewals earn, at the rate of the programme, as without a list. */
function isDefault(events: Schemas["EventRate"][]): boolean {
  if (events.length === 0) return true;
  const types = events.map(({ eventType }) => eventType).sort();
  return types.join() === "purchase,renewal" && events.every(({ percentage, flatAmountCents }) => percentage === null && flatAmountCents === null);
}

/** How an event earns: not at all, at the rate of the programme, or at its own rate. */
export function eventKind(events: Schemas["EventRate"][], type: (typeof eventTypes)[number]): "none" | "program" | "percentage" | "flat" {
  if (events.length === 0) return type === "purchase" || type === "renewal" ? "program" : "none";
  const rate = events.find(({ eventType }) => eventType === type);
  if (!rate) return "none";
  return rate.percentage !== null ? "percentage" : rate.flatAmountCents !== null ? "flat" : "program";
}

/** The text of an amount or a percentage in its field. */
export function fieldText(value: number | null | undefined, digits: number): string {
  return value === null || value === undefined ? "" : decimal(value, digits);
}

/** The names of all rules with their values in words. */
export function wordsOf({ commissionRules: rules, ...terms }: Terms, currency: string, t: Texts, f: Format): [name: string, text: string][] {
  const { rules: say } = t;
  const money = (cents: number | null) => (cents === null ? say.nothing : f.money(cents, currency));
  const rate = (of: Schemas["CommissionRate"]) => (of.percentage === null && of.flatAmountCents === null ? say.programRate : rateText(of, currency, f));
  const list = (items: string[]) => items.join("; ") || say.nothing;
  const recurring = rules.recurring ?? { enabled: true, maxMonths: null, maxPayments: null };
  return [
    [say.rate, rateText(rules, currency, f)],
    [say.base, rules.netBasis ? say.bases[rules.netBasis] : say.nothing],
    [
      say.events,
      list(
        eventTypes.flatMap((type) => {
          if (eventKind(rules.events, type) === "none") return [];
          const own = rules.events.find(({ eventType }) => eventType === type);
          return [`${t.event[type]}: ${own ? rate(own) : say.programRate}`];
        }),
      ),
    ],
    [say.products, list(rules.products.map((product) => `${product.productId}: ${rate(product)}`))],
    [
      say.tiers,
      list(
        rules.tiers.map(({ minConversions, minRevenueCents, percentage }) =>
          minRevenueCents === null ? say.tierConversions(f.number(minConversions ?? 0), f.percent((percentage ?? 0) * 100)) : say.tierRevenue(money(minRevenueCents), f.percent((percentage ?? 0) * 100)),
        ),
      ),
    ],
    [say.recurring, recurring.enabled === false ? say.no : say.yes],
    [say.later, rules.laterPercentage === null ? say.nothing : f.percent(rules.laterPercentage * 100)],
    [say.months, recurring.maxMonths === null ? say.nothing : f.number(recurring.maxMonths)],
    [say.payments, recurring.maxPayments === null ? say.nothing : f.number(recurring.maxPayments)],
    [say.minimum, money(rules.minOrderCents)],
    [say.cap, money(rules.capCents)],
    [say.window, say.days(terms.attributionWindowDays)],
    [say.model, terms.attributionModel ? say.models[terms.attributionModel] : say.nothing],
    [say.precedence, terms.signalPrecedence ? say.precedences[terms.signalPrecedence] : say.nothing],
    [say.hold, say.days(rules.holdPeriodDays ?? 30)],
    [say.approval, rules.autoApproval === false ? say.approvals.manual : say.approvals.automatic],
    [say.minPayout, money(terms.minPayoutCents)],
    [say.term, say.days(terms.payoutTermDays)],
  ];
}
