import { toneOf } from "../../app/data";
import { Badge } from "../../kit/feedback";
import { useTexts } from "../texts";
import type { Item } from "./decide";

/** The status of a commission, and why a person must decide about it. */
export function CommissionBadge({ commission }: { commission: Pick<Item, "status" | "holdActive" | "needsReview" | "reviewReasons" | "disputeStatus"> }) {
  const { t } = useTexts();
  const { status, holdActive, needsReview, reviewReasons, disputeStatus } = commission;
  const reasons: Record<string, string> = t.commissions.reviewReasons;
  return (
    <>
      {status && <Badge tone={toneOf(status)}>{status === "pending" && holdActive ? t.commissions.hold : t.status.commission[status]}</Badge>}{" "}
      {needsReview &&
        reviewReasons.map((reason) => (
          <Badge key={reason} tone="bad">
            {reasons[reason] ?? reason}
          </Badge>
        ))}{" "}
      {disputeStatus && disputeStatus !== "none" && <Badge tone={disputeStatus === "won" ? "good" : "bad"}>{t.commissions.dispute[disputeStatus]}</Badge>}
    </>
  );
}
