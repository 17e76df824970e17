import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Badge } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Table } from "../../kit/page";
import { CopyButton } from "../../kit/sharing";
import { useTexts } from "../texts";
import type { Conversion } from "./ConversionDetail";

export type Decision = Schemas["Decision"];
type Candidate = Decision["candidates"][number];

/** The reason in words. The sentences of the service, which are in English, have its values. */
export function Outcome({ decision, conversion }: { decision: Decision; conversion: Conversion }) {
  const { t } = useTexts();
  const reasons: Record<string, string> = t.conversions.reason;
  const { attributed, reason_code: code, explanation } = decision;
  return (
    <Card
      title={t.conversions.decision}
      action={
        <Badge tone={attributed && conversion.commission ? "good" : attributed ? "warn" : "info"}>
          {attributed ? t.conversions.credited : t.conversions.anyCredit.false}
        </Badge>
      }
    >
      <p>
        <strong>{reasons[code] ?? code}</strong>
      </p>
      <p lang="en">{explanation}</p>
      {attributed && (
        <div className={kit.actions}>
          <CopyButton text={explanation} label={t.conversions.copy} />
          <span className={kit.hint}>{t.conversions.copyHint}</span>
        </div>
      )}
      {decision.supersedes && <Older conversionId={conversion.id} />}
    </Card>
  );
}

/** The decisions that the current one has replaced. */
function Older({ conversionId }: { conversionId: string }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const { data } = useQuery({
    queryKey: [mode, "conversions", "decisions", conversionId],
    queryFn: async () =>
      unwrap(await api.GET("/api/v1/conversions/{conversionId}/attribution/decisions", { params: { path: { conversionId }, query: { page_size: 100 } } })).data,
  });
  const older = (data ?? []).filter((decision) => decision.superseded_by);
  if (older.length === 0) return null;
  return (
    <details>
      <summary>{t.conversions.older}</summary>
      {older.map((decision) => (
        <p key={decision.decision_id}>
          <strong>{t.conversions.olderAt(decision.decided_at ? f.time(decision.decided_at) : "")}</strong> <span lang="en">{decision.explanation}</span>
        </p>
      ))}
    </details>
  );
}

/** The signals in the order in which they were checked, and each check. */
export function Trace({ decision }: { decision: Decision }) {
  const { t, f } = useTexts();
  const checks: Record<string, string> = t.conversions.checks;
  return (
    <>
      {decision.candidates.length > 0 && (
        <Card title={t.conversions.signals}>
          <p className={kit.muted}>{t.conversions.signalsHint}</p>
          <ol className={kit.list}>
            {decision.candidates.map((candidate, index) => (
              <Signal key={index} candidate={candidate} />
            ))}
          </ol>
        </Card>
      )}
      {decision.steps.length > 0 && (
        <Card title={t.conversions.steps}>
          <Table
            caption={t.conversions.steps}
            rows={decision.steps.map((step) => ({ ...step, id: f.number(step.order) }))}
            columns={[
              { name: t.conversions.check, cell: (step) => `${step.id}. ${checks[step.check] ?? step.check}`, lead: true },
              {
                name: t.conversions.result,
                cell: ({ outcome }) => <Badge tone={outcome === "passed" ? "good" : "bad"}>{outcome === "passed" ? t.conversions.passed : t.conversions.failed}</Badge>,
              },
              { name: t.conversions.values, cell: ({ detail }) => <span lang="en">{detail}</span> },
            ]}
          />
        </Card>
      )}
    </>
  );
}

/** A click, a code or a customer that could have credited the sale, with the reason for or against it. */
function Signal({ candidate }: { candidate: Candidate }) {
  const { t, f } = useTexts();
  const signals: Record<string, string> = t.conversions.signal;
  const reasons: Record<string, string> = t.conversions.reason;
  const { type, click_id, promo_code, partner_name, at, expires_at, eligible, rejected_because } = candidate;
  const times = [at && t.conversions.at(f.time(at)), expires_at && t.conversions.until(f.time(expires_at))].filter(Boolean).join(", ");
  return (
    <li>
      <div>
        <p>
          <strong>{signals[type] ?? type}</strong> {partner_name}
        </p>
        <p className={kit.code}>{click_id ?? promo_code}</p>
        {times && <p className={kit.muted}>{times}</p>}
        {!eligible && rejected_because && <p>{reasons[rejected_because] ?? rejected_because}</p>}
      </div>
      {eligible && <Badge tone="good">{t.conversions.counted}</Badge>}
    </li>
  );
}
