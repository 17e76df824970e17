import { useCallback, useState } from "react";

import type { Format } from "../../i18n/format";
import { Button } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Facts } from "../../kit/page";
import { sumsOf } from "../sums";
import { useTexts } from "../texts";
import { type Mark, type Payout, useMarks, useReload } from "./data";
import { Progress } from "./Progress";
import type { Result } from "./result";

/** Shows what a result file would change and which rows have faults, and applies the others after a confirmation. */
export function ResultDialog({
  name,
  results,
  open,
  onDone,
  onClose,
}: {
  name: string;
  /** The rows of the file. Null if it is no result file. */
  results: Result[] | null;
  /** The payouts of the batch that wait for a result. */
  open: Payout[];
  onDone: (refused: ReadonlyMap<string, string>, text: string) => void;
  onClose: () => void;
}) {
  const { t, f } = useTexts();
  const mark = useMarks();
  const reload = useReload();
  const [done, setDone] = useState<number | null>(null);
  const good = (results ?? []).filter(({ fault }) => fault === null);
  const state = useSubmit(
    useCallback(async () => {
      setDone(0);
      try {
        const refused = await mark(good.flatMap(markOf), setDone);
        onDone(refused, t.payouts.applied(f.number(good.length - refused.size), f.number(refused.size), refused.size > 0));
        onClose();
      } finally {
        setDone(null);
        await reload();
      }
    }, [f, good, mark, onClose, onDone, reload, t]),
  );
  const close = () => !state.pending && onClose();
  const bad = (results ?? []).filter(({ fault }) => fault !== null);
  const found = new Set((results ?? []).map(({ payout }) => payout?.id));
  const missing = open.filter(({ id }) => !found.has(id)).length;
  return (
    <Dialog title={t.payouts.fileTitle(name)} open onClose={close}>
      {!results ? (
        <Notice tone="bad">{t.payouts.noResultFile}</Notice>
      ) : (
        <>
          <Facts
            rows={[
              [t.status.payout.paid, sum(good, "paid", f)],
              [t.status.payout.failed, sum(good, "failed", f)],
              [t.payouts.notApplied, bad.length > 0 && f.number(bad.length)],
              [t.payouts.missing, missing > 0 && f.number(missing)],
            ]}
          />
          {bad.length > 0 && (
            <div className={kit.scroll} tabIndex={0} role="region" aria-label={t.payouts.notApplied}>
              <ul className={kit.rules}>
                {bad.map(({ line, key, payout, fault, status }) => (
                  <li key={line}>
                    {t.payouts.line(f.number(line), payout?.partnerName ?? key)} {fault && t.payouts.faults[fault](status, payout ? f.money(payout.amountCents, payout.currency) : "", payout?.status ? t.status.payout[payout.status] : "")}
                  </li>
                ))}
              </ul>
            </div>
          )}
        </>
      )}
      {good.length === 0 ? (
        <div className={kit.actions}>
          <Button onPress={onClose}>{t.close}</Button>
        </div>
      ) : (
        <Form
          state={state}
          label={t.payouts.apply(f.number(good.length), good.length === 1)}
          secondary={
            <Button onPress={close} isDisabled={state.pending}>
              {t.cancel}
            </Button>
          }
        >
          <p>{t.payouts.applyHint}</p>
          {done !== null && <Progress done={done} count={good.length} />}
        </Form>
      )}
    </Dialog>
  );
}

function markOf({ payout, outcome, reference, reason }: Result): Mark[] {
  if (!payout || !outcome) return [];
  return [outcome === "paid" ? { payoutId: payout.id, reference } : { payoutId: payout.id, reason }];
}

/** The number and the sums of the payouts with a result. */
function sum(results: Result[], outcome: "paid" | "failed", f: Format): string {
  const payouts = results.filter((result) => result.outcome === outcome).flatMap(({ payout }) => payout ?? []);
  return payouts.length > 0 ? `${f.number(payouts.length)}, ${sumsOf(payouts, f)}` : f.number(0);
}
