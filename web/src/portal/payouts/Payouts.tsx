import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useApp } from "../../app/app";
import { listOf, paged, pageOf, toneOf } from "../../app/data";
import { LinkButton } from "../../kit/controls";
import { Badge, Empty, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, usePage } from "../../kit/page";
import { useProfile } from "../data";
import { useTexts } from "../texts";
import { Proposals } from "./Proposals";

export default function Payouts() {
  const { t } = useTexts();
  return (
    <Page title={t.payouts.title} about={t.payouts.about}>
      <Proposals />
      <Method />
      <List />
    </Page>
  );
}

function Method() {
  const { t, f } = useTexts();
  const profile = useProfile();
  return (
    <Loaded query={profile}>
      {({ payoutMethod }) => (
        <Card
          title={t.payouts.method}
          action={
            <LinkButton small kind={payoutMethod ? "secondary" : "primary"} href="/payouts/method">
              {payoutMethod ? t.payouts.change : t.payouts.set}
            </LinkButton>
          }
        >
          {payoutMethod?.method ? (
            <p>
              {t.method[payoutMethod.method]} <span className={kit.muted}>{payoutMethod.accountHint}</span>
            </p>
          ) : (
            <p className={kit.muted}>{t.home.methodMissing}</p>
          )}
          {payoutMethod?.heldUntil && new Date(payoutMethod.heldUntil) > new Date() && (
            <Notice tone="warn">{t.payouts.held(f.time(payoutMethod.heldUntil))}</Notice>
          )}
        </Card>
      )}
    </Loaded>
  );
}

function List() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const query = useQuery({
    ...paged,
    queryKey: [mode, "payouts", page],
    queryFn: async () => listOf(await api.GET("/api/v1/partner/payouts", { params: { query: pageOf(page) } })),
  });
  return (
    <Loaded query={query}>
      {({ data, total, capped }) =>
        data.length === 0 ? (
          <Card>
            <Empty title={t.payouts.none}>{t.payouts.noneHint}</Empty>
          </Card>
        ) : (
          <>
            <Table
              caption={t.payouts.title}
              stale={query.isPlaceholderData}
              rows={data}
              columns={[
                {
                  name: t.payouts.date,
                  cell: (row) => <Link href={`/payouts/${row.id}`}>{f.date(row.paidAt ?? row.initiatedAt ?? row.createdAt ?? "")}</Link>,
                  lead: true,
                },
                { name: t.payouts.program, cell: (row) => row.programName },
                { name: t.payouts.commissions, cell: (row) => f.number(row.commissionCount), number: true },
                { name: t.payouts.amount, cell: (row) => f.money(row.amountCents, row.currency), number: true },
                { name: t.payouts.status, cell: (row) => row.status && <Badge tone={toneOf(row.status)}>{t.status.payout[row.status]}</Badge> },
                { name: t.payouts.reference, cell: (row) => row.reference ?? row.failureReason ?? "–" },
              ]}
            />
            <Pages total={total} capped={capped} />
          </>
        )
      }
    </Loaded>
  );
}
