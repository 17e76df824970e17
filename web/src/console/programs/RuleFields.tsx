import { useState } from "react";

import { exponent } from "../../i18n/format";
import { Choice, Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";
import { eventKind, eventTypes, fieldText, type Terms } from "./terms";

interface Props {
  terms: Terms;
  currency: string;
}

/** The rate of the programme: a percentage or an amount. */
export function RateFields({ terms: { commissionRules: rules }, currency }: Props) {
  const { t } = useTexts();
  const [kind, setKind] = useState(rules.commissionType ?? "percentage");
  return (
    <>
      <Choice
        name="commissionRules.commissionType"
        label={t.rules.rate}
        options={[
          ["percentage", t.rules.percentage, t.rules.percentageHint],
          ["flat", t.rules.flat, t.rules.flatHint],
        ]}
        value={kind}
        onChange={(value) => setKind(value as typeof kind)}
      />
      <RateField path="commissionRules" kind={kind} percentage={rules.percentage} flatAmountCents={rules.flatAmountCents} currency={currency} />
    </>
  );
}

function RateField({ path, kind, percentage, flatAmountCents, currency }: { path: string; kind: string; percentage: number | null; flatAmountCents: number | null; currency: string }) {
  const { t } = useTexts();
  if (kind === "percentage") {
    return <TextField key="percentage" name={`${path}.percentage`} inputMode="decimal" label={t.rules.percent} defaultValue={percentage === null ? "" : String(percentage)} isRequired />;
  }
  if (kind === "flat") {
    return (
      <TextField key="flat" name={`${path}.flatAmountCents`} inputMode="decimal" label={t.rules.amountIn(currency)} defaultValue={fieldText(flatAmountCents, exponent(currency))} isRequired />
    );
  }
  return null;
}

/** Which events earn, each at the rate of the programme or at its own. */
export function EventFields({ terms, currency }: Props) {
  return (
    <div className={kit.form}>
      {eventTypes.map((type) => (
        <EventField key={type} type={type} events={terms.commissionRules.events} currency={currency} />
      ))}
    </div>
  );
}

function EventField({ type, events, currency }: { type: (typeof eventTypes)[number]; events: Terms["commissionRules"]["events"]; currency: string }) {
  const { t } = useTexts();
  const [kind, setKind] = useState<string>(eventKind(events, type));
  const rate = events.find(({ eventType }) => eventType === type);
  return (
    <div className={kit.filters}>
      <Select
        name={`event.${type}.kind`}
        label={t.event[type]}
        options={[
          ["none", t.rules.earnsNothing],
          ["program", t.rules.programRate],
          ["percentage", t.rules.percentage],
          ["flat", t.rules.flat],
        ]}
        value={kind}
        onChange={(key) => setKind(String(key))}
      />
      <RateField path={`event.${type}`} kind={kind} percentage={rate?.percentage ?? null} flatAmountCents={rate?.flatAmountCents ?? null} currency={currency} />
    </div>
  );
}

/** Returns the rows of a list of a form, and functions that add and remove one. */
function useRows<T>(initial: T[], empty: T) {
  const [rows, setRows] = useState(() => initial.map((value, key) => ({ key, value })));
  const add = () => setRows([...rows, { key: Math.max(-1, ...rows.map(({ key }) => key)) + 1, value: empty }]);
  const remove = (key: number) => setRows(rows.filter((row) => row.key !== key));
  return { rows, add, remove };
}

/** The rates of single products. */
export function ProductFields({ terms, currency }: Props) {
  const { t } = useTexts();
  const { rows, add, remove } = useRows(terms.commissionRules.products, { productId: "", percentage: null, flatAmountCents: null });
  return (
    <div className={kit.form}>
      {rows.map(({ key, value }, index) => (
        <ProductRow key={key} path={`commissionRules.products[${index}]`} product={value} currency={currency} onRemove={() => remove(key)} />
      ))}
      <span>
        <Button small onPress={add}>
          {t.rules.addProduct}
        </Button>
      </span>
    </div>
  );
}

function ProductRow({ path, product, currency, onRemove }: { path: string; product: Terms["commissionRules"]["products"][number]; currency: string; onRemove: () => void }) {
  const { t } = useTexts();
  const [kind, setKind] = useState(product.flatAmountCents === null ? "percentage" : "flat");
  return (
    <div className={kit.filters}>
      <TextField name={`${path}.productId`} label={t.rules.product} defaultValue={product.productId} maxLength={255} isRequired />
      <Select
        name={`${path}.kind`}
        label={t.rules.rate}
        options={[
          ["percentage", t.rules.percentage],
          ["flat", t.rules.perUnit],
        ]}
        value={kind}
        onChange={(key) => setKind(String(key))}
      />
      <RateField path={path} kind={kind} percentage={product.percentage} flatAmountCents={product.flatAmountCents} currency={currency} />
      <Button onPress={onRemove} aria-label={`${t.links.remove}: ${t.rules.product} ${product.productId}`}>
        {t.links.remove}
      </Button>
    </div>
  );
}

/** The rates for partners who have brought enough. All tiers have thresholds of one kind. */
export function TierFields({ terms, currency }: Props) {
  const { t, f } = useTexts();
  const { tiers } = terms.commissionRules;
  const { rows, add, remove } = useRows(tiers, { minConversions: null, minRevenueCents: null, percentage: null });
  const [by, setBy] = useState(tiers[0] && tiers[0].minRevenueCents !== null ? "revenue" : "conversions");
  const isRevenue = by === "revenue";
  return (
    <div className={kit.form}>
      {rows.length > 0 && (
        <Select
          name="tiersBy"
          label={t.rules.tiersBy}
          options={[
            ["conversions", t.rules.byConversions],
            ["revenue", t.rules.byRevenue(currency)],
          ]}
          value={by}
          onChange={(key) => setBy(String(key))}
        />
      )}
      {rows.map(({ key, value }, index) => {
        const path = `commissionRules.tiers[${index}]`;
        return (
          <div key={key} className={kit.filters}>
            <TextField
              key={by}
              name={`${path}.${isRevenue ? "minRevenueCents" : "minConversions"}`}
              inputMode="decimal"
              label={isRevenue ? t.rules.byRevenue(currency) : t.rules.byConversions}
              defaultValue={isRevenue ? fieldText(value.minRevenueCents, exponent(currency)) : fieldText(value.minConversions, 0)}
              isRequired
            />
            <TextField name={`${path}.percentage`} inputMode="decimal" label={t.rules.percent} defaultValue={value.percentage === null ? "" : String(value.percentage)} isRequired />
            <Button onPress={() => remove(key)} aria-label={`${t.links.remove}: ${t.rules.tier(f.number(index + 1))}`}>
              {t.links.remove}
            </Button>
          </div>
        );
      })}
      <span>
        <Button small onPress={add}>
          {t.rules.addTier}
        </Button>
      </span>
    </div>
  );
}
