import type { Schemas } from "../../app/data";
import { Badge } from "../../kit/feedback";
import { useTexts } from "../texts";

/** Whether a conversion was refunded or disputed. */
export function ConversionStatus({ status }: { status: Schemas["ConversionListItem"]["status"] }) {
  const { t } = useTexts();
  if (!status) return null;
  return <Badge tone={status === "recorded" ? "good" : status === "partially_refunded" ? "warn" : "bad"}>{t.conversions.status[status]}</Badge>;
}
