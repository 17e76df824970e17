import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";
import { useParams } from "wouter";

import { Refusal, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button, LinkButton } from "../../kit/controls";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page, Table } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { Confirm, Decided, useDecision } from "../decision";
import { useTexts } from "../texts";
import { PayoutBadge } from "./Badges";
import { isOpen, useReload } from "./data";
import { MarkDialog } from "./MarkDialog";

type Payout = Schemas["PayoutDetail"];

/** The page of a payout. */
export default function PayoutDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "payouts", "one", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/payouts/{payoutId}", { params: { path: { payoutId: id } } })),
    refetchInterval: liveInterval,
  });
  const { data } = query;
  return (
    <Page
      title={data ? t.payouts.one(f.money(data.amountCents, data.currency), data.partnerName) : t.payouts.title}
      about={data?.programName}
      actions={data && <LinkButton href={`/payouts/batches/${data.batchId}`}>{t.payouts.toBatch}</LinkButton>}
    >
      <Loaded query={query}>
        {(payout) => (
          <>
            <State payout={payout} />
            <Details payout={payout} />
            <Amount payout={payout} />
            <Commissions payout={payout} />
            <History payout={payout} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

type Action = "paid" | "failed" | "retry" | "cancel";

/** The status in words, and what can be done now. */
function State({ payout }: { payout: Payout }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const reload = useReload();
  const state = useDecision(reload);
  const [dialog, setDialog] = useState<Action | null>(null);
  const { id, status, amountCents, currency, partnerName, failureReason } = payout;
  if (!status) return null;
  const close = () => setDialog(null);
  const amount = f.money(amountCents, currency);
  const params = { path: { payoutId: id } };
  const canMark = isOpen(payout) && can("MarkPayoutPaid");
  const canCancel = can("CancelPayout") && (status === "draft" || status === "pending" || status === "failed");
  return (
    <Card title={t.payouts.status} action={<PayoutBadge status={status} />}>
      <p>{t.payouts.hints[status]}</p>
      {failureReason && <Facts rows={[[t.payouts.failure, failureReason]]} />}
      <Decided state={state} />
      <div className={kit.actions}>
        {canMark && (
          <Button kind="primary" onPress={() => setDialog("paid")}>
            {t.payouts.markPaid}
          </Button>
        )}
        {canMark && (
          <Button kind="danger" onPress={() => setDialog("failed")}>
            {t.payouts.markFailed}
          </Button>
        )}
        {status === "failed" && can("RetryPayout") && (
          <Button kind="primary" isPending={state.pending} onPress={() => setDialog("retry")}>
            {t.payouts.retry}
          </Button>
        )}
        {canCancel && (
          <Button kind="danger" isPending={state.pending} onPress={() => setDialog("cancel")}>
            {t.payouts.cancelPayout}
          </Button>
        )}
      </div>
      {(dialog === "paid" || dialog === "failed") && (
        <MarkDialog
          outcome={dialog}
          count={1}
          sums={`${partnerName}, ${amount}`}
          load={() => Promise.resolve([payout])}
          onDone={(refused, text) => {
            const fault = refused.get(id);
            void state.run(() => (fault === undefined ? Promise.resolve(text) : Promise.reject(new Refusal(fault))));
          }}
          onClose={close}
        />
      )}
      {dialog === "retry" && (
        <Confirm
          title={t.payouts.retryTitle(amount, partnerName)}
          hint={t.payouts.retryHint}
          label={t.payouts.retry}
          onConfirm={() =>
            state.run(async () => {
              const next = unwrap(await api.PATCH("/api/v1/payouts/{payoutId}/retry", { params, body: {} }));
              return t.payouts.retried(f.money(next.amountCents, next.currency));
            })
          }
          onClose={close}
        />
      )}
      {dialog === "cancel" && (
        <Confirm
          title={t.payouts.cancelTitle(amount, partnerName)}
          hint={t.payouts.cancelHint}
          label={t.payouts.cancelPayout}
          danger
          onConfirm={() =>
            state.run(async () => {
              unwrap(await api.PATCH("/api/v1/payouts/{payoutId}/cancel", { params, body: {} }));
              return t.payouts.canceledOne;
            })
          }
          onClose={close}
        />
      )}
    </Card>
  );
}

function Details({ payout }: { payout: Payout }) {
  const { t, f } = useTexts();
  const { method, accountHint, periodStart, periodEnd, programId, participantId } = payout;
  return (
    <Card title={t.payouts.facts}>
      <Facts
        rows={[
          [t.payouts.partner, <Link href={`/programs/${programId}/partners/${participantId}`}>{payout.partnerName}</Link>],
          [t.filter.program, <Link href={`/programs/${programId}`}>{payout.programName}</Link>],
          [t.payouts.method, method ? t.method[method] : t.payouts.noMethod],
          [t.payouts.account, accountHint],
          [t.payouts.transfer, payout.reference],
          [t.payouts.period, periodStart && periodEnd && t.payouts.range(f.date(periodStart), f.date(periodEnd))],
          [t.payouts.number, <span className={kit.code}>{payout.id}</span>],
        ]}
      />
    </Card>
  );
}

/** How the amount comes about. */
function Amount({ payout }: { payout: Payout }) {
  const { t, f } = useTexts();
  const { amountCents, adjustmentCents, commissionCount, currency } = payout;
  return (
    <Card title={t.payouts.amount}>
      <Facts
        amounts
        rows={[
          [t.payouts.count(t.payouts.commissions, f.number(commissionCount)), f.money(amountCents - adjustmentCents, currency)],
          [t.payouts.adjustments, adjustmentCents !== 0 && f.money(adjustmentCents, currency)],
          [t.payouts.total, <strong>{f.money(amountCents, currency)}</strong>],
        ]}
      />
      {adjustmentCents !== 0 && <p className={kit.muted}>{t.payouts.adjustmentsHint}</p>}
    </Card>
  );
}

function Commissions({ payout: { commissions, commissionCount, currency } }: { payout: Payout }) {
  const { t, f } = useTexts();
  if (commissions.length === 0) return null;
  return (
    <>
      <Table
        caption={t.payouts.commissions}
        rows={commissions.map((commission) => ({ ...commission, id: commission.commissionId }))}
        columns={[
          { name: t.payouts.order, cell: (row) => <Link href={`/commissions/${row.id}`}>{row.externalTransactionId}</Link>, lead: true },
          { name: t.payouts.approved, cell: (row) => row.approvedAt && f.time(row.approvedAt) },
          { name: t.payouts.amount, cell: (row) => f.money(row.amountCents, currency), number: true },
        ]}
      />
      {commissionCount > commissions.length && <p className={kit.muted}>{t.payouts.first(f.number(commissions.length), f.number(commissionCount))}</p>}
    </>
  );
}

/** The times that the payout keeps. */
function History({ payout: { status, createdAt, initiatedAt, paidAt, updatedAt } }: { payout: Payout }) {
  const { t, f } = useTexts();
  const isEnded = status === "failed" || status === "canceled";
  return (
    <Card title={t.payouts.history}>
      <Facts
        rows={[
          [t.payouts.created, createdAt && f.time(createdAt)],
          [t.payouts.confirmed, initiatedAt && f.time(initiatedAt)],
          [t.status.payout.paid, paidAt && f.time(paidAt)],
          [isEnded ? t.status.payout[status] : t.payouts.changed, !paidAt && updatedAt !== createdAt && updatedAt && f.time(updatedAt)],
        ]}
      />
    </Card>
  );
}
