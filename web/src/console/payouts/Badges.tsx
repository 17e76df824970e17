import { toneOf } from "../../app/data";
import { Badge } from "../../kit/feedback";
import { useTexts } from "../texts";
import type { Batch, Payout } from "./data";

export function PayoutBadge({ status }: Pick<Payout, "status">) {
  const { t } = useTexts();
  return status && <Badge tone={toneOf(status)}>{t.status.payout[status]}</Badge>;
}

const tones = {
  draft: "warn",
  awaiting_approval: "warn",
  confirmed: "info",
  processing: "warn",
  completed: "good",
  partially_failed: "bad",
  canceled: "info",
} as const;

export function BatchBadge({ status }: Pick<Batch, "status">) {
  const { t } = useTexts();
  return status && <Badge tone={tones[status]}>{t.payouts.batchStatuses[status]}</Badge>;
}
