import { Link } from "react-aria-components/Link";

import { Dialog } from "../../kit/dialog";
import { Loaded } from "../../kit/feedback";
import { useTexts } from "../texts";
import { CommissionView, useCommission } from "./CommissionView";

/** A commission at the side of the list. */
export function CommissionPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const { t, f } = useTexts();
  const query = useCommission(id);
  const title = query.data ? t.commissions.one(f.money(query.data.amountCents, query.data.currency)) : t.commissions.title;
  return (
    <Dialog title={title} open side onClose={onClose}>
      <Loaded query={query}>
        {(commission) => (
          <>
            <CommissionView commission={commission} />
            <Link href={`/conversions/${commission.conversionId}`}>{t.commissions.conversion}</Link>
          </>
        )}
      </Loaded>
    </Dialog>
  );
}
