import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { useCan } from "../can";
import { Decided, useDecision } from "../decision";
import { useTexts } from "../texts";
import { useReload } from "./data";
import type { Props } from "./PartnerDetail";

type Action = "approve" | "reject" | "suspend" | "reinstate";

/** What can be decided about a partner now. */
export function Decisions({ participant, program }: Props) {
  const { api } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const [asking, setAsking] = useState<"reject" | "suspend" | null>(null);
  const decision = useDecision(useReload());
  const { pending } = decision;
  const { status, partnerConsent, partnerName, erasedAt } = participant;
  const params = { path: { programId: program.id, participantId: participant.id } };
  const decide = (action: Action, reason = "") =>
    decision.run(async () => {
      const body = reason ? { reason } : {};
      const result = await api.PATCH(`/api/v1/programs/{programId}/partners/{participantId}/${action}`, { params, body }).finally(() => setAsking(null));
      unwrap(result);
      return t.partners.decided[action];
    });
  if (erasedAt) return <p>{t.partners.erased}</p>;
  return (
    <>
      <Decided state={decision} />
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
