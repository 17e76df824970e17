import { useCallback, useState } from "react";

import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import { useTexts } from "../texts";
import { instantOf } from "../time";
import { type Payout, useMarks, useReload } from "./data";
import { Progress } from "./Progress";

/** Asks for the reference or the reason, and marks payouts as paid or failed. */
export function MarkDialog({
  outcome,
  count,
  sums,
  load,
  onDone,
  onClose,
}: {
  outcome: "paid" | "failed";
  count: number;
  sums: string;
  /** Returns the payouts. */
  load: () => Promise<Pick<Payout, "id">[]>;
  /** Gets the messages of the payouts that were not changed, and the text of the result. */
  onDone: (refused: ReadonlyMap<string, string>, text: string) => void;
  onClose: () => void;
}) {
  const { t, f } = useTexts();
  const mark = useMarks();
  const reload = useReload();
  const [done, setDone] = useState<number | null>(null);
  const isPaid = outcome === "paid";
  const today = f.isoDay(new Date());
  const state = useSubmit(
    useCallback(
      async ({ reference = "", reason = "", day = "" }) => {
        if (isPaid && !reference.trim()) throw new FieldFault("reference", t.payouts.needsReference);
        if (!isPaid && !reason.trim()) throw new FieldFault("reason", t.payouts.needsReason);
        const paidAt = day && day < today ? { paidAt: instantOf(`${day}T23:59:59`, f.timeZone).toISOString() } : {};
        setDone(0);
        try {
          const payouts = await load();
          const refused = await mark(payouts.map(({ id }) => ({ payoutId: id, ...(isPaid ? { reference, ...paidAt } : { reason }) })), setDone);
          onDone(refused, t.payouts.marked(t.status.payout[outcome], f.number(payouts.length - refused.size), f.number(refused.size), refused.size > 0));
          onClose();
        } finally {
          setDone(null);
          await reload();
        }
      },
      [f, isPaid, load, mark, onClose, onDone, outcome, reload, t, today],
    ),
  );
  const close = () => !state.pending && onClose();
  return (
    <Dialog title={(isPaid ? t.payouts.markPaidTitle : t.payouts.markFailedTitle)(f.number(count), sums, count === 1)} open onClose={close}>
      <Form
        state={state}
        label={isPaid ? t.payouts.markPaid : t.payouts.markFailed}
        kind={isPaid ? "primary" : "danger"}
        secondary={
          <Button onPress={close} isDisabled={state.pending}>
            {t.cancel}
          </Button>
        }
      >
        <p>{isPaid ? t.payouts.markPaidHint : t.payouts.markFailedHint}</p>
        {isPaid ? (
          <>
            <TextField name="reference" label={t.payouts.transfer} hint={t.payouts.transferHint} maxLength={200} autoFocus isRequired />
            <TextField name="day" type="date" label={t.payouts.paidOn} hint={t.payouts.paidOnHint} defaultValue={today} />
          </>
        ) : (
          <TextField name="reason" label={t.payouts.failure} hint={t.payouts.failureHint} maxLength={500} lines autoFocus isRequired />
        )}
        {done !== null && count > 1 && <Progress done={done} count={count} />}
      </Form>
    </Dialog>
  );
}
