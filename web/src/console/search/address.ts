import type { Schemas } from "../../app/data";

/** The page of a record that the search has found. */
export function addressOf({ kind, id, title, programId }: Schemas["SearchHit"]): string {
  const text = encodeURIComponent(title);
  switch (kind) {
    case "partner":
      return `/programs/${programId}/partners/${id}`;
    case "program":
      return `/programs/${id}`;
    case "promo_code":
      return `/programs/${programId}?show=codes&search=${text}`;
    case "link":
      return `/programs/${programId}?show=links&search=${text}`;
    case "commission":
      return `/commissions/${id}`;
    case "conversion":
      return `/conversions/${id}`;
    case "payout":
      return `/payouts/${id}`;
    case "payout_batch":
      return `/payouts/batches/${id}`;
    default:
      return `/webhooks/${id}`;
  }
}
