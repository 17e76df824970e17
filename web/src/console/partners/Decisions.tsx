import { useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Button } from "../../kit/controls";
import kit from "../../kit/kit.module.css";
import { useCan } from "../can";
import { Decided, useDecision } from "../decision";
import { useTexts } from "../texts";
import { AskReason } from "./AskReason";
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
      {asking && (
        <AskReason
          title={t.partners.ask[asking](partnerName)}
          hint={asking === "suspend" ? t.partners.suspendHint : t.partners.rejectHint}
          label={t.partners[asking]}
          onDecide={(reason) => decide(asking, reason)}
          onClose={() => setAsking(null)}
        />
      )}
    </>
  );
}
