import { useState } from "react";

import { TributaryError } from "../app/app";
import { Button } from "../kit/controls";
import { Dialog } from "../kit/dialog";
import { Done, Failure, Notice } from "../kit/feedback";
import kit from "../kit/kit.module.css";
import { useTexts } from "./texts";

/**
 * Returns what an action on a record needs: run makes the call, loads the record again, and keeps
 * the text of the result or the error for Decided.
 */
export function useDecision(reload: () => Promise<void>) {
  const [pending, setPending] = useState(false);
  const [done, setDone] = useState("");
  const [error, setError] = useState<unknown>(null);
  const run = async (call: () => Promise<string>) => {
    setPending(true);
    setError(null);
    setDone("");
    try {
      setDone(await call());
    } catch (failure) {
      setError(failure);
    }
    await reload();
    setPending(false);
  };
  return { run, pending, done, error };
}

/** The result of the last action. If somebody else has changed the record before, the page shows its new state. */
export function Decided({ state: { done, error } }: { state: ReturnType<typeof useDecision> }) {
  const { t } = useTexts();
  return (
    <>
      {error instanceof TributaryError && error.status === 409 && <Notice tone="warn">{t.conflict}</Notice>}
      {error !== null && <Failure error={error} />}
      {done && <Done key={done}>{done}</Done>}
    </>
  );
}

/** Asks before an action: names the record and the effect. */
export function Confirm({
  title,
  hint,
  label,
  danger = false,
  onConfirm,
  onClose,
}: {
  title: string;
  hint: string;
  /** The text of the button. */
  label: string;
  danger?: boolean;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}) {
  const { t } = useTexts();
  const [pending, setPending] = useState(false);
  const confirm = async () => {
    setPending(true);
    await onConfirm();
    onClose();
  };
  return (
    <Dialog title={title} open onClose={onClose}>
      <p>{hint}</p>
      <div className={kit.actions}>
        <Button kind={danger ? "danger" : "primary"} isPending={pending} autoFocus onPress={() => void confirm()}>
          {label}
        </Button>
        <Button onPress={onClose}>{t.cancel}</Button>
      </div>
    </Dialog>
  );
}
