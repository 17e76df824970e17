import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";
import { useParams } from "wouter";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button } from "../../kit/controls";
import { Badge, Done, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page } from "../../kit/page";
import { CommissionBadge } from "../commissions/CommissionBadge";
import { useCommission } from "../commissions/CommissionView";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { Calculation } from "./Calculation";
import { ConversionStatus } from "./ConversionStatus";
import { Signals, useConversion } from "./FraudSignals";
import { ReassignDialog } from "./ReassignDialog";
import { RefundDialog } from "./RefundDialog";
import { Outcome, Trace } from "./Trace";

export type Conversion = Schemas["Conversion"];

/** A conversion, and why it is credited or not: each step of the decision with its values. */
export default function ConversionDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { api, mode } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const [dialog, setDialog] = useState<"refund" | "reassign" | null>(null);
  const [done, setDone] = useState("");
  const query = useConversion(id);
  const decision = useQuery({
    queryKey: [mode, "conversions", "decision", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/conversions/{conversionId}/attribution", { params: { path: { conversionId: id } } })),
  });
  const { data } = query;
  const close = (text: string) => {
    setDialog(null);
    setDone(text);
  };
  return (
    <Page
      title={data ? t.conversions.one(data.external_transaction_id) : t.conversions.title}
      actions={
        data && (
          <>
            {can("ReattributeConversion") && <Button onPress={() => setDialog("reassign")}>{t.conversions.reassign}</Button>}
            {can("RefundConversion") && data.amount_cents > data.refunded_amount_cents && <Button onPress={() => setDialog("refund")}>{t.conversions.refund}</Button>}
          </>
        )
      }
    >
      {done && <Done key={done}>{done}</Done>}
      <Loaded query={query}>
        {(conversion) => (
          <>
            <Loaded query={decision}>{(decision) => <Outcome decision={decision} conversion={conversion} />}</Loaded>
            {conversion.commission && <Earned id={conversion.commission.id} />}
            {decision.data && (
              <>
                <Calculation decision={decision.data} conversion={conversion} />
                <Trace decision={decision.data} />
              </>
            )}
            {conversion.fraud && conversion.fraud.signals.length > 0 && <Signals signals={conversion.fraud.signals} score={conversion.fraud_score} />}
            <Details conversion={conversion} />
            {dialog === "refund" && <RefundDialog conversion={conversion} onDone={() => close(t.conversions.refunded)} onClose={() => setDialog(null)} />}
            {dialog === "reassign" && <ReassignDialog conversion={conversion} onDone={() => close(t.conversions.reassigned)} onClose={() => setDialog(null)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** The commission that the conversion earned. */
function Earned({ id }: { id: string }) {
  const { t, f } = useTexts();
  const { data } = useCommission(id);
  if (!data) return null;
  return (
    <Card title={<Link href={`/commissions/${id}`}>{t.commissions.one(f.money(data.amountCents, data.currency))}</Link>} action={<CommissionBadge commission={data} />}>
      <p>
        <Link href={`/programs/${data.programId}/partners/${data.participantId}`}>{data.partnerName}</Link> · {data.programName}
      </p>
    </Card>
  );
}

function Details({ conversion }: { conversion: Conversion }) {
  const { t, f } = useTexts();
  const money = (cents: number) => conversion.currency && f.money(cents, conversion.currency);
  const { event_type: event, source, created_at: created, occurred_at: occurred } = conversion;
  return (
    <Card title={t.conversions.facts} action={<ConversionStatus status={conversion.status} />}>
      <Facts
        rows={[
          [t.conversions.event, event && t.event[event]],
          [t.conversions.amount, money(conversion.amount_cents)],
          [t.conversions.occurred, occurred && f.time(occurred)],
          [t.conversions.time, created && f.time(created)],
          [t.conversions.reportedBy, source && t.conversions.source[source]],
          [t.conversions.customer, conversion.customer_ref],
          [t.conversions.click, conversion.click_id && <span className={kit.code}>{conversion.click_id}</span>],
          [t.conversions.promoCode, conversion.promo_code && <span className={kit.code}>{conversion.promo_code}</span>],
          [t.conversions.subscription, conversion.subscription_id],
          [t.conversions.payment, conversion.recurring_index && f.number(conversion.recurring_index)],
          [t.conversions.subId, conversion.sub_id],
        ]}
      />
      {conversion.refunds.length > 0 && (
        <>
          <h3>{t.conversions.refunds}</h3>
          <ul className={kit.list}>
            {conversion.refunds.map((refund) => (
              <li key={refund.id}>
                <div>
                  <p>
                    {refund.external_refund_id} <Badge>{money(refund.amount_cents)}</Badge>
                  </p>
                  {refund.reason && <p className={kit.text}>{refund.reason}</p>}
                </div>
                {refund.created_at && <time dateTime={refund.created_at}>{f.time(refund.created_at)}</time>}
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}
