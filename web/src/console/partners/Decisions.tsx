import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { TributaryError, unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done, Failure, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { useCan } from "../can";
import { useTexts } from "../texts";
import type { Props } from "./PartnerDetail";

type Action = "approve" | "reject" | "suspend" | "reinstate";

/** What can be decided about a partner now. */
export function Decisions({ participant, program }: Props) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const can = useCan();
  const [asking, setAsking] = useState<"reject" | "suspend" | null>(null);
  const [done, setDone] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [pending, setPending] = useState(false);
  const { status, partnerConsent, partnerName, erasedAt } = participant;
  const params = { path: { programId: program.id, participantId: participant.id } };
  const decide = async (action: Action, reason = "") => {
    setPending(true);
    setError(null);
    setDone("");
    try {
      const body = reason ? { reason } : {};
      unwrap(await api.PATCH(`/api/v1/programs/{programId}/partners/{participantId}/${action}`, { params, body }));
      setDone(t.partners.decided[action]);
    } catch (failure) {
      setError(failure);
    } finally {
      setAsking(null);
      await queries.invalidateQueries({ queryKey: [mode, "partners"] });
      setPending(false);
    }
  };
  const isConflict = error instanceof TributaryError && error.status === 409;
  if (erasedAt) return <p>{t.partners.erased}</p>;
  return (
    <>
      {isConflict && <Notice tone="warn">{t.commissions.conflict}</Notice>}
      {error !== null && <Failure error={error} />}
      {done && <Done key={done}>{done}</Done>}
      <p className={kit.muted}>{partnerConsent ? t.partners.awaited : status && t.partners.meaning[status]}</p>
      <div className={kit.actions}>
        {can("ApproveParticipant") && (status === "pending" || status === "rejected") && !partnerConsent && (
          <Button kind="primary" isPending={pending} onPress={() => void decide("approve")}>
            {t.partners.approve}
          </Button>
        )}
        {can("RejectParticipant") && status === "pending" && (
          <Button kind="danger" onPress={() => setAsking("reject")}>
            {t.partners.reject}
          </Button>
        )}
        {can("SuspendParticipant") && status === "approved" && (
          <Button kind="danger" onPress={() => setAsking("suspend")}>
            {t.partners.suspend}
          </Button>
        )}
        {can("ReinstateParticipant") && status === "suspended" && (
          <Button kind="primary" isPending={pending} onPress={() => void decide("reinstate")}>
            {t.partners.reinstate}
          </Button>
        )}
      </div>
      {asking && <Ask action={asking} name={partnerName} onDecide={(reason) => decide(asking, reason)} onClose={() => setAsking(null)} />}
    </>
  );
}

/** Asks for the reason of a rejection or suspension, and says what it does. */
function Ask({ action, name, onDecide, onClose }: { action: "reject" | "suspend"; name: string; onDecide: (reason: string) => Promise<void>; onClose: () => void }) {
  const { t } = useTexts();
  const state = useSubmit(useCallback(({ reason = "" }) => onDecide(reason), [onDecide]));
  return (
    <Dialog title={t.partners.ask[action](name)} open onClose={onClose}>
      <Form state={state} label={t.partners[action]} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
        <p>{action === "suspend" ? t.partners.suspendHint : t.partners.rejectHint}</p>
        <TextField name="reason" label={`${t.partners.reason} (${t.form.optional})`} lines maxLength={500} />
      </Form>
    </Dialog>
  );
}
