import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";

import { unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useCan } from "../can";
import { FraudSignals } from "../conversions/FraudSignals";
import { liveInterval } from "../data";
import { Decided, useDecision } from "../decision";
import { useTexts } from "../texts";
import { CommissionBadge } from "./CommissionBadge";
import { type Commission, useReload } from "./decide";
import { RejectDialog } from "./RejectDialog";

/** A commission. Without an id, nothing is loaded. */
export function useCommission(id: string) {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "commissions", "one", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/commissions/{commissionId}", { params: { path: { commissionId: id } } })),
    enabled: id !== "",
    refetchInterval: liveInterval,
  });
}

/** A commission: what can be decided, why it has its amount, and what happened to it. */
export function CommissionView({ commission }: { commission: Commission }) {
  return (
    <>
      <Decisions commission={commission} />
      <Reason commission={commission} />
      <FraudSignals conversionId={commission.conversionId} />
      <Details commission={commission} />
      <History commission={commission} />
    </>
  );
}

/** The status, and the decisions that are possible now. */
function Decisions({ commission }: { commission: Commission }) {
  const { api } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const decision = useDecision(useReload());
  const { pending } = decision;
  const [dialog, setDialog] = useState<"reject" | "early" | null>(null);
  const { id, status, needsReview, holdActive, reviewReasons } = commission;
  const path = { commissionId: id };
  const decide = (call: () => Promise<unknown>, text: string) =>
    decision.run(async () => {
      await call().finally(() => setDialog(null));
      return text;
    });
  const isOpen = status === "pending" || status === "approved";
  const hints: Record<string, string> = t.commissions.reviewHints;
  return (
    <Card title={t.commissions.status} action={<CommissionBadge commission={commission} />}>
      <Decided state={decision} />
      {needsReview && reviewReasons.map((reason) => <p key={reason}>{hints[reason] ?? reason}</p>)}
      <div className={kit.actions}>
        {can("ApproveCommission") && status === "pending" && !holdActive && (
          <Button
            kind="primary"
            isPending={pending}
            onPress={() => void decide(async () => unwrap(await api.PATCH("/api/v1/commissions/{commissionId}/approve", { params: { path }, body: {} })), t.status.commission.approved)}
          >
            {t.commissions.approve}
          </Button>
        )}
        {can("ApproveCommissionEarly") && status === "pending" && holdActive && !needsReview && <Button onPress={() => setDialog("early")}>{t.commissions.early}</Button>}
        {can("ClearCommissionReview") && isOpen && needsReview && (
          <Button
            isPending={pending}
            onPress={() =>
              void decide(async () => unwrap(await api.PATCH("/api/v1/commissions/{commissionId}/clear-review", { params: { path }, body: {} })), t.commissions.cleared)
            }
          >
            {t.commissions.clear}
          </Button>
        )}
        {can("RejectCommission") && isOpen && (
          <Button kind="danger" onPress={() => setDialog("reject")}>
            {t.commissions.reject}
          </Button>
        )}
      </div>
      {dialog === "reject" && (
        <Rejection
          commission={commission}
          onReject={(code, reason) =>
            decide(async () => {
              const body = { code, ...(reason && { reason }) };
              unwrap(await api.PATCH("/api/v1/commissions/{commissionId}/reject", { params: { path }, body }));
            }, t.status.commission.rejected)
          }
          onClose={() => setDialog(null)}
        />
      )}
      {dialog === "early" && (
        <EarlyApproval
          onApprove={(reason) =>
            decide(
              async () => unwrap(await api.PATCH("/api/v1/commissions/{commissionId}/approve-override", { params: { path }, body: { reason } })),
              t.status.commission.approved,
            )
          }
          onClose={() => setDialog(null)}
        />
      )}
    </Card>
  );
}

function Rejection({ commission, ...props }: { commission: Commission } & Omit<Parameters<typeof RejectDialog>[0], "title">) {
  const { t, f } = useTexts();
  return <RejectDialog title={t.commissions.rejectTitle(f.number(1), f.money(commission.amountCents, commission.currency))} {...props} />;
}

function EarlyApproval({ onApprove, onClose }: { onApprove: (reason: string) => Promise<void>; onClose: () => void }) {
  const { t } = useTexts();
  const state = useSubmit(useCallback(({ reason = "" }) => onApprove(reason), [onApprove]));
  return (
    <FormDialog title={t.commissions.earlyTitle} state={state} label={t.commissions.early} onClose={onClose}>
      <p>{t.commissions.earlyHint}</p>
      <TextField name="reason" label={t.commissions.earlyReason} lines isRequired minLength={1} maxLength={500} />
    </FormDialog>
  );
}

/** Why the partner earned the commission, and how the amount comes about. */
function Reason({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const { attribution, ruleSnapshot, rateBps, currency, saleCurrency, originalAmountCents, reversedAmountCents, baseAmountCents, saleAmountCents, fxRate, fxDate } = commission;
  const sources: Record<string, string> = t.commissions.rule.source;
  const amount = f.money(originalAmountCents, currency);
  return (
    <Card title={t.commissions.why}>
      <p>
        {rateBps === null ? t.commissions.rule.flat(amount) : t.commissions.rule.calculation(f.percent(rateBps), f.money(baseAmountCents, saleCurrency), amount)}
        {rateBps !== null && baseAmountCents !== saleAmountCents && ` ${t.commissions.rule.base(f.money(baseAmountCents, saleCurrency), f.money(saleAmountCents, saleCurrency))}`}
        {fxRate && fxDate && ` ${t.commissions.rule.fx(fxRate, f.date(fxDate))}`}
        {reversedAmountCents > 0 && ` ${t.commissions.rule.reversed(f.money(reversedAmountCents, currency))}`}
      </p>
      {ruleSnapshot && (
        <p>
          {sources[ruleSnapshot.source] ?? ruleSnapshot.source}. {t.commissions.rule.version(f.number(ruleSnapshot.version))}.
        </p>
      )}
      {attribution && (
        <p className={kit.muted} lang="en">
          {attribution.explanation}
        </p>
      )}
    </Card>
  );
}

function Details({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const { programId, participantId, partnerName, payoutId, holdUntil } = commission;
  return (
    <Card title={t.commissions.facts}>
      <Facts
        rows={[
          [t.commissions.partner, <Link href={`/programs/${programId}/partners/${participantId}`}>{partnerName}</Link>],
          [t.form.email, commission.partnerEmail],
          [t.filter.program, commission.programName],
          [t.commissions.order, commission.externalTransactionId],
          [t.commissions.sale, f.money(commission.saleAmountCents, commission.saleCurrency)],
          [t.commissions.customer, commission.customerRef],
          [t.commissions.created, commission.createdAt && f.time(commission.createdAt)],
          [t.commissions.holdUntil, holdUntil && f.time(holdUntil)],
          [t.commissions.code, commission.rejectionCode && t.commissions.codes[commission.rejectionCode]],
          [t.commissions.text, commission.rejectionReason],
          [t.commissions.earlyReason, commission.overrideReason],
          [t.commissions.payout, payoutId && <Link href={`/payouts/${payoutId}`}>{t.commissions.toPayout}</Link>],
        ]}
      />
    </Card>
  );
}

function History({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  return (
    <Card title={t.commissions.history}>
      <ul className={kit.list}>
        {commission.history.map(({ at, actor, actorName, from, to, reason }, index) => {
          const name = actorName ?? (actor === "system" ? t.commissions.system : t.commissions.formerMember);
          const after = to ? t.status.commission[to] : "";
          return (
            <li key={index}>
              <div>
                <p>{from ? t.commissions.changed(name, t.status.commission[from], after) : t.commissions.first(name, after)}</p>
                {reason && <p className={kit.text}>{reason}</p>}
              </div>
              {at && <time dateTime={at}>{f.time(at)}</time>}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}
