import { Badge } from "../../kit/feedback";
import { useTexts } from "../texts";
import type { Webhook } from "./data";

const tones = { healthy: "good", failing: "bad", disabled: "warn" } as const;

export function WebhookBadge({ webhook: { status } }: { webhook: Pick<Webhook, "status"> }) {
  const { t } = useTexts();
  return status && <Badge tone={tones[status]}>{t.webhooks.statuses[status]}</Badge>;
}

/** What is wrong with an endpoint, in a sentence. It is null if nothing is. */
export function useProblem({ status, disabledReason, consecutiveFailures }: Webhook): string | null {
  const { t, f } = useTexts();
  if (status === "disabled") return t.webhooks.disabled[disabledReason ?? "manual"];
  return status === "failing" ? t.webhooks.failing(f.number(consecutiveFailures), consecutiveFailures === 1) : null;
}
