import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";
import { useParams } from "wouter";

import { unwrap, useApp } from "../../app/app";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page } from "../../kit/page";
import type { Commission } from "../data";
import { useTexts } from "../texts";
import { calculationOf } from "./calculation";
import { CommissionBadge } from "./CommissionBadge";
import { Explanation } from "./Explanation";

/** A commission: what it is, why it has its amount, and what happens next. */
export default function CommissionDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "commissions", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/commissions/{commissionId}", { params: { path: { commissionId: id } } })),
  });
  const commission = query.data;
  return (
    <Page title={commission ? t.commissions.one(f.money(commission.amountCents, commission.currency)) : t.commissions.title} about={commission?.programName}>
      <Loaded query={query}>
        {(commission) => (
          <>
            <Next commission={commission} />
            <Reason commission={commission} />
            <Origin commission={commission} />
            <Course commission={commission} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** The status in words, and what happens next. */
function Next({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const { status, holdActive, holdUntil, rejectionCode, payoutId } = commission;
  return (
    <Card title={t.commissions.status} action={<CommissionBadge commission={commission} />}>
      {status === "pending" && <p>{holdActive && holdUntil ? t.commissions.next.hold(f.time(holdUntil)) : t.commissions.next.review}</p>}
      {status === "approved" && <p>{t.commissions.next.approved}</p>}
      {status === "paid" && <p>{t.commissions.next.paid}</p>}
      {status === "rejected" && (
        <p>
          {t.commissions.rejection[rejectionCode ?? "other"]} {t.commissions.next.rejected}
        </p>
      )}
      {status === "refunded" && <p>{t.commissions.next.refunded}</p>}
      {payoutId && (
        <p>
          <Link href={`/payouts/${payoutId}`}>{t.commissions.toPayout}</Link>
        </p>
      )}
    </Card>
  );
}

/** How the amount comes about. */
function Reason({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const { rateBps, amountCents, originalAmountCents, reversedAmountCents, baseAmountCents, saleAmountCents, currency, saleCurrency } = commission;
  return (
    <Card title={t.commissions.why}>
      <p>
        <Calculation commission={commission} />
        {rateBps !== null && baseAmountCents !== saleAmountCents && ` ${t.commissions.base(f.money(baseAmountCents, saleCurrency), f.money(saleAmountCents, saleCurrency))}`}
      </p>
      {reversedAmountCents > 0 && (
        <p>
          {t.commissions.reversed(f.money(reversedAmountCents, currency), f.money(originalAmountCents, currency), f.money(amountCents, currency))}
        </p>
      )}
      <Explanation text={commission.explanation} />
    </Card>
  );
}

function Calculation({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const { rateBps, baseAmountCents, saleCurrency, originalAmountCents, currency } = commission;
  const amount = f.money(originalAmountCents, currency);
  const calculation = calculationOf(commission);
  if (rateBps === null || !calculation) return t.commissions.flat(amount);
  return t.commissions.calculation[calculation](f.percent(rateBps), f.money(baseAmountCents, saleCurrency), amount);
}

/** The sale, and what led to it. */
function Origin({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const { linkCode, promoCode, recurringIndex } = commission;
  return (
    <Card title={t.commissions.sale}>
      <Facts
        rows={[
          [t.commissions.saleAmount, f.money(commission.saleAmountCents, commission.saleCurrency)],
          [t.commissions.event, commission.eventType && t.event[commission.eventType]],
          [t.commissions.payment, recurringIndex && f.number(recurringIndex)],
          [t.commissions.program, <Link href={`/programs/${commission.programId}`}>{commission.programName}</Link>],
          [t.commissions.link, linkCode && <span className={kit.code}>{linkCode}</span>],
          [t.commissions.code, promoCode && <span className={kit.code}>{promoCode}</span>],
          [t.links.subId, commission.subId],
          [t.commissions.cameFrom, !linkCode && !promoCode && t.commissions.assigned],
        ]}
      />
    </Card>
  );
}

/** The steps of the commission with their times. */
function Course({ commission }: { commission: Commission }) {
  const { t, f } = useTexts();
  const time = (time: string | null) => time && f.time(time);
  return (
    <Card title={t.commissions.course}>
      <Facts
        rows={[
          [t.commissions.created, time(commission.createdAt)],
          [t.commissions.holdUntil, time(commission.holdUntil)],
          [t.status.commission.approved, time(commission.approvedAt)],
          [t.status.commission.rejected, time(commission.rejectedAt)],
          [t.status.commission.paid, time(commission.paidAt)],
          [t.status.commission.refunded, time(commission.refundedAt)],
        ]}
      />
    </Card>
  );
}
