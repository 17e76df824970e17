import { toneOf } from "../../app/data";
import { Badge } from "../../kit/feedback";
import type { Commission } from "../data";
import { useTexts } from "../texts";

/** The status of a commission. A pending one is on hold or waits for the merchant's review. */
export function CommissionBadge({ commission }: { commission: Commission }) {
  const { t } = useTexts();
  const { status, holdActive } = commission;
  if (!status) return null;
  const text = status === "pending" ? (holdActive ? t.home.hold : t.home.review) : t.status.commission[status];
  return <Badge tone={toneOf(status)}>{text}</Badge>;
}
