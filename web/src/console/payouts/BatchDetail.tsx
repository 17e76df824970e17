import { useState } from "react";
import { useParams } from "wouter";

import { unwrap, useApp, useSession } from "../../app/app";
import { Button } from "../../kit/controls";
import { Badge, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page } from "../../kit/page";
import { useCan } from "../can";
import { Confirm, Decided, useDecision } from "../decision";
import { sumsOf } from "../sums";
import { useTexts } from "../texts";
import { BatchBadge } from "./Badges";
import { type Batch, useBatch, useReload } from "./data";
import { Files } from "./Files";
import { PayoutList } from "./PayoutList";
import { Results } from "./Results";

/** The page of a batch, from the draft to the last payout. */
export default function BatchDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { t, f } = useTexts();
  const can = useCan();
  const query = useBatch(id);
  const { data } = query;
  return (
    <Page
      title={data?.createdAt ? t.payouts.batchOf(f.date(data.createdAt)) : t.payouts.batch}
      about={data && `${t.payouts.payoutCount(f.number(data.payoutCount), data.payoutCount === 1)}: ${sumsOf(data.totals, f) || "–"}`}
    >
      <Loaded query={query}>
        {(batch) => {
          const isSent = batch.status === "confirmed" || batch.status === "processing";
          return (
            <>
              <State batch={batch} />
              {isSent && can("ExportPayoutBatch") && <Files batch={batch} />}
              {can("MarkPayoutPaid") && <Results batch={batch} />}
            </>
          );
        }}
      </Loaded>
      <PayoutList batchId={id} />
    </Page>
  );
}

type Action = "confirm" | "process" | "cancel";

/** The steps of the batch: who did each one and when, and the action that comes next. */
function State({ batch }: { batch: Batch }) {
  const { api, session } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const login = useSession(session);
  const state = useDecision(useReload());
  const [dialog, setDialog] = useState<Action | null>(null);
  const { status, byStatus, totals } = batch;
  if (!status || !byStatus) return null;
  const me = login.status === "in" ? login.user.id : "";
  const steps = stepsOf(batch);
  const isAwaiting = status === "awaiting_approval";
  const needsOther = isAwaiting && batch.firstConfirmedBy === me;
  const params = { path: { batchId: batch.id } };
  const calls: Record<Action, () => Promise<string>> = {
    confirm: async () => {
      const next = unwrap(await api.POST("/api/v1/payouts/batches/{batchId}/confirm", { params, body: {} }));
      return next.status === "awaiting_approval" ? t.payouts.confirmedFirst : t.payouts.confirmedNow(sumsOf(next.totals, f));
    },
    process: async () => {
      const next = unwrap(await api.POST("/api/v1/payouts/batches/{batchId}/process", { params, body: {} }));
      return t.payouts.processedNow(sumsOf(next.totals, f));
    },
    cancel: async () => {
      unwrap(await api.POST("/api/v1/payouts/batches/{batchId}/cancel", { params, body: {} }));
      return t.payouts.canceledNow;
    },
  };
  const actions: Partial<Record<Action, boolean>> = {
    confirm: can("ConfirmPayoutBatch") && (status === "draft" || (isAwaiting && !needsOther)),
    process: can("ProcessPayoutBatch") && (status === "confirmed" || status === "processing") && byStatus.pending > 0,
    cancel: can("CancelPayoutBatch") && byStatus.draft + byStatus.pending > 0 && byStatus.processing + byStatus.paid === 0,
  };
  return (
    <Card title={t.payouts.status} action={<BatchBadge status={status} />}>
      <p>{t.payouts.batchHints[status]}</p>
      {needsOther && <p>{t.payouts.needsOther}</p>}
      <Decided state={state} />
      {status !== "canceled" && (
        <ol className={kit.list}>
          {steps.map(({ step, done, note }) => (
            <li key={step} aria-current={!done && steps.find((other) => !other.done)?.step === step ? "step" : undefined}>
              <div>
                <p>
                  <strong>{t.payouts.steps[step].title}</strong> {done && <Badge tone="good">{t.setUp.done}</Badge>}
                </p>
                <p className={kit.muted}>{note.map(({ by, at }) => t.payouts.byAt(by ?? t.payouts.formerMember, f.time(at))).join(" · ") || t.payouts.steps[step].about}</p>
                {step === "paid" && byStatus.paid + byStatus.failed > 0 && (
                  <p className={kit.muted}>{t.payouts.paidOf(f.number(byStatus.paid), f.number(batch.payoutCount - byStatus.canceled), f.number(byStatus.failed), byStatus.failed > 0)}</p>
                )}
              </div>
              {step === "confirm" && actions.confirm && (
                <Button kind="primary" isPending={state.pending} onPress={() => setDialog("confirm")}>
                  {isAwaiting ? t.payouts.confirmSecond : t.payouts.confirm}
                </Button>
              )}
              {step === "process" && actions.process && (
                <Button kind="primary" isPending={state.pending} onPress={() => setDialog("process")}>
                  {t.payouts.process}
                </Button>
              )}
            </li>
          ))}
        </ol>
      )}
      {actions.cancel && (
        <div className={kit.actions}>
          <Button kind="danger" isPending={state.pending} onPress={() => setDialog("cancel")}>
            {t.payouts.cancelBatch}
          </Button>
        </div>
      )}
      {dialog && (
        <Confirm
          title={t.payouts.ask[dialog].title(f.number(open(batch, dialog)), sumsOf(totals, f), open(batch, dialog) === 1)}
          hint={t.payouts.ask[dialog].hint}
          label={t.payouts.ask[dialog].label}
          danger={dialog === "cancel"}
          onConfirm={() => state.run(calls[dialog])}
          onClose={() => setDialog(null)}
        />
      )}
    </Card>
  );
}

/** The number of payouts that an action changes. */
function open({ byStatus }: Batch, action: Action): number {
  if (!byStatus) return 0;
  return { confirm: byStatus.draft, process: byStatus.pending, cancel: byStatus.draft + byStatus.pending }[action];
}

type Step = "draft" | "confirm" | "process" | "paid";

/** The steps with those who did them. */
function stepsOf({ status, byStatus, ...batch }: Batch): { step: Step; done: boolean; note: { by: string | null; at: string }[] }[] {
  const isConfirmed = status !== "draft" && status !== "awaiting_approval";
  const isDone = status === "completed" || status === "partially_failed";
  const isProcessed = isDone || (status === "processing" && byStatus?.pending === 0);
  const note = (by: string | null, at: string | null) => (at ? [{ by, at }] : []);
  return [
    { step: "draft", done: true, note: note(batch.createdByName, batch.createdAt) },
    { step: "confirm", done: isConfirmed, note: [...note(batch.firstConfirmedByName, batch.firstConfirmedAt), ...note(batch.confirmedByName, batch.confirmedAt)] },
    { step: "process", done: isProcessed, note: [] },
    { step: "paid", done: isDone, note: [] },
  ];
}
