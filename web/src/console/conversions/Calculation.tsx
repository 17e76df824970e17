import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { useTexts } from "../texts";
import type { Conversion } from "./ConversionDetail";
import { linesOf } from "./lines";
import type { Decision } from "./Trace";

/** The calculation as a sum that ends in the commission. */
export function Calculation({ decision, conversion }: { decision: Decision; conversion: Conversion }) {
  const { t, f } = useTexts();
  const lines = linesOf(decision, conversion, t, f);
  const sources: Record<string, string> = t.commissions.rule.source;
  const source = decision.calculation?.source ?? "";
  return (
    <Card title={t.conversions.calculation}>
      {lines.length === 0 ? (
        <p>{t.conversions.noCommission}</p>
      ) : (
        <>
          <dl className={`${kit.facts} ${kit.amounts}`}>
            {lines.map(({ name, amount, isSum }, index) => [
              <dt key={`${index}-name`}>{isSum ? <strong>{name}</strong> : name}</dt>,
              <dd key={index}>{isSum ? <strong>{amount}</strong> : amount}</dd>,
            ])}
          </dl>
          <p className={kit.muted}>{sources[source] ?? source}</p>
        </>
      )}
    </Card>
  );
}
