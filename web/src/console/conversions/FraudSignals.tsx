import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Badge } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { useTexts } from "../texts";

export function useConversion(id: string) {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "conversions", "one", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/conversions/{conversionId}", { params: { path: { conversionId: id } } })),
  });
}

/** What the fraud rules found about a conversion. It is absent if they found nothing. */
export function FraudSignals({ conversionId }: { conversionId: string }) {
  const { data } = useConversion(conversionId);
  if (!data?.fraud || data.fraud.signals.length === 0) return null;
  return <Signals signals={data.fraud.signals} score={data.fraud_score} />;
}

export function Signals({ signals, score }: { signals: Schemas["FraudSignal"][]; score: number }) {
  const { t, f } = useTexts();
  const rules: Record<string, string> = t.fraudRules;
  return (
    <Card title={t.conversions.fraud} action={<Badge tone={score >= 50 ? "bad" : "warn"}>{t.conversions.score(f.number(score))}</Badge>}>
      <ul className={kit.list}>
        {signals.map(({ rule, score, evidence }) => (
          <li key={rule}>
            <div>
              <p>
                <strong>{rules[rule] ?? rule}</strong>
              </p>
              <p className={kit.muted} lang="en">
                {evidence}
              </p>
            </div>
            <span>{t.conversions.points(f.number(score))}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
