import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";
import { useParams } from "wouter";

import { unwrap, useApp, useSession } from "../../app/app";
import { type Schemas, toneOf } from "../../app/data";
import { Button, LinkButton } from "../../kit/controls";
import { Badge, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page, Table } from "../../kit/page";
import { saveFile } from "../../kit/sharing";
import { useTexts } from "../texts";
import { statementCsv } from "./statement";

type Payout = Schemas["PartnerPayoutDetail"];

/** A payout with its commissions. Printed, the page is the statement of the payout. */
export default function PayoutDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "payouts", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/payouts/{payoutId}", { params: { path: { payoutId: id } } })),
  });
  const payout = query.data;
  const date = payout?.paidAt ?? payout?.initiatedAt ?? payout?.createdAt;
  return (
    <Page
      title={date ? t.payouts.one(f.date(date)) : t.payouts.title}
      about={payout && `${payout.programName}, ${t.programs.by(payout.merchantName)}`}
      actions={
        payout && (
          <>
            <Button onPress={() => print()}>{t.payouts.print}</Button>
            {payout.commissions.length > 0 && (
              <Button onPress={() => saveFile(new Blob([statementCsv(payout)], { type: "text/csv" }), `payout-${payout.id}.csv`)}>{t.commissions.csv}</Button>
            )}
          </>
        )
      }
    >
      <Loaded query={query}>
        {(payout) => (
          <>
            <State payout={payout} />
            <Statement payout={payout} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** The status in words, and what the partner can do. */
function State({ payout }: { payout: Payout }) {
  const { t } = useTexts();
  const { status, failureReason } = payout;
  if (!status) return null;
  return (
    <Card title={t.payouts.status} action={<Badge tone={toneOf(status)}>{t.status.payout[status]}</Badge>}>
      <p>{t.payouts.state[status]}</p>
      {status === "failed" && (
        <>
          {failureReason && (
            <p>
              {t.payouts.failure}: {failureReason}
            </p>
          )}
          <p>
            <LinkButton href="/payouts/method">{t.payouts.check}</LinkButton>
          </p>
        </>
      )}
    </Card>
  );
}

function Statement({ payout }: { payout: Payout }) {
  const { session } = useApp();
  const { t, f } = useTexts();
  const login = useSession(session);
  const { amountCents, adjustmentCents, commissionCount, commissions, currency, method, accountHint, periodStart, periodEnd } = payout;
  return (
    <>
      <Card title={t.payouts.statement}>
        <Facts
          rows={[
            [t.payouts.amount, <strong>{f.money(amountCents, currency)}</strong>],
            [t.payouts.recipient, login.status === "in" && `${login.user.name}, ${login.user.email}`],
            [t.programs.merchant, payout.merchantName],
            [t.payouts.program, <Link href={`/programs/${payout.programId}`}>{payout.programName}</Link>],
            [t.payouts.method, method && `${t.method[method]}${accountHint ? `, ${accountHint}` : ""}`],
            [t.payouts.reference, payout.reference],
            [t.payouts.period, periodStart && periodEnd && t.payouts.range(f.date(periodStart), f.date(periodEnd))],
            [t.payouts.confirmed, payout.initiatedAt && f.time(payout.initiatedAt)],
            [t.status.payout.paid, payout.paidAt && f.time(payout.paidAt)],
            [t.payouts.number, <span className={kit.code}>{payout.id}</span>],
          ]}
        />
      </Card>
      {commissions.length > 0 && (
        <Table
          caption={t.payouts.commissions}
          rows={commissions.map((commission) => ({ ...commission, id: commission.commissionId }))}
          columns={[
            {
              name: t.payouts.earned,
              cell: (row) => <Link href={`/commissions/${row.id}`}>{row.createdAt && f.time(row.createdAt)}</Link>,
              lead: true,
            },
            { name: t.commissions.event, cell: (row) => row.eventType && t.event[row.eventType] },
            { name: t.payouts.approved, cell: (row) => row.approvedAt && f.date(row.approvedAt) },
            { name: t.commissions.amount, cell: (row) => f.money(row.amountCents, currency), number: true },
          ]}
        />
      )}
      {commissionCount > commissions.length && <p className={kit.muted}>{t.payouts.first(f.number(commissions.length), f.number(commissionCount))}</p>}
      <Card>
        <Facts
          amounts
          rows={[
            [`${t.payouts.commissions} (${f.number(commissionCount)})`, f.money(amountCents - adjustmentCents, currency)],
            [t.payouts.adjustments, adjustmentCents !== 0 && f.money(adjustmentCents, currency)],
            [t.payouts.total, <strong>{f.money(amountCents, currency)}</strong>],
          ]}
        />
      </Card>
    </>
  );
}
