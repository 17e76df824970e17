import { Select } from "../../kit/choices";
import kit from "../../kit/kit.module.css";
import { type Column, Facts } from "../../kit/page";
import { useTexts } from "../texts";
import { type Measure, measures, measureText, type Numbers } from "./measures";

/** The choice of a measure. */
export function MeasureSelect({ label, value, options = measures, onChange }: { label: string; value: Measure; options?: readonly Measure[]; onChange: (measure: Measure) => void }) {
  const { t } = useTexts();
  return (
    <Select
      label={label}
      options={options.map((measure): [string, string] => [measure, t.analytics.measures[measure].name])}
      value={value}
      onChange={(key) => onChange(key as Measure)}
    />
  );
}

/** Returns the columns of a table for measures. */
export function useMeasureColumns(shown: readonly Measure[], currency: string): (Column<Numbers> & { sortBy: Measure })[] {
  const { t, f } = useTexts();
  return shown.map((measure) => ({
    name: t.analytics.measures[measure].name,
    cell: (row) => measureText(measure, row[measure], currency, t, f),
    number: true,
    sortBy: measure,
  }));
}

/** What the measures of a table mean. */
export function Meanings({ shown }: { shown: readonly Measure[] }) {
  const { t } = useTexts();
  return (
    <details>
      <summary>{t.analytics.meanings}</summary>
      <Facts rows={shown.map((measure): [string, string] => [t.analytics.measures[measure].name, t.analytics.measures[measure].about])} />
    </details>
  );
}

/** Says in which currencies there are amounts that the page does not show. */
export function OtherCurrencies({ currency, others }: { currency: string; others: string[] }) {
  const { t } = useTexts();
  return others.length > 0 && <p className={kit.muted}>{t.analytics.otherCurrencies(currency, others.join(", "))}</p>;
}
