import { useParams } from "wouter";

import { LinkButton } from "../../kit/controls";
import { Loaded } from "../../kit/feedback";
import { Page } from "../../kit/page";
import { useTexts } from "../texts";
import { CommissionView, useCommission } from "./CommissionView";

/** The page of a commission. */
export default function CommissionDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { t, f } = useTexts();
  const query = useCommission(id);
  const { data } = query;
  return (
    <Page
      title={data ? t.commissions.one(f.money(data.amountCents, data.currency)) : t.commissions.title}
      about={data && `${data.partnerName} · ${data.programName}`}
      actions={data && <LinkButton href={`/conversions/${data.conversionId}`}>{t.commissions.conversion}</LinkButton>}
    >
      <Loaded query={query}>{(commission) => <CommissionView commission={commission} />}</Loaded>
    </Page>
  );
}
