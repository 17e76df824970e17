import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { LinkButton } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, Tabs, usePage } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { useTexts } from "../texts";
import { BatchBadge } from "./Badges";
import { Balances } from "./Balances";
import type { Batch } from "./data";
import { PayoutList } from "./PayoutList";

/** What partners are paid: the batches, the payouts in them, and what is owed. */
export default function Payouts() {
  const { t } = useTexts();
  const can = useCan();
  const [show] = useParameter("show", "batches");
  return (
    <Page
      title={t.payouts.title}
      about={t.payouts.about}
      actions={
        <LinkButton kind="primary" href="/payouts/new">
          {can("CreatePayoutBatch") ? t.payouts.create : t.payouts.preview}
        </LinkButton>
      }
    >
      <Tabs
        label={t.payouts.title}
        keep={["program"]}
        tabs={[
          ["batches", t.payouts.batches],
          ["payouts", t.payouts.payouts],
          ["balances", t.payouts.balances],
        ]}
      />
      {show === "payouts" ? <PayoutList /> : show === "balances" ? <Balances /> : <Batches />}
    </Page>
  );
}

const batchStatuses = ["draft", "awaiting_approval", "confirmed", "processing", "completed", "partially_failed", "canceled"] as const;

function Batches() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const [chosen, setStatus] = useParameter("status");
  const status = batchStatuses.find((status) => status === chosen);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "payouts", "batches", status, page],
    queryFn: async () => listOf(await api.GET("/api/v1/payouts/batches", { params: { query: { ...(status && { status }), ...pageOf(page) } } })),
    refetchInterval: liveInterval,
  });
  return (
    <>
      <div className={kit.filters}>
        <Select
          label={t.payouts.status}
          options={[["", t.filter.all], ...batchStatuses.map((status): [string, string] => [status, t.payouts.batchStatuses[status]])]}
          value={status ?? ""}
          onChange={(key) => setStatus(String(key))}
        />
      </div>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {status ? (
                <Empty title={t.payouts.noBatchFiltered} action={<LinkButton href="/payouts">{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.payouts.noBatch} action={<LinkButton href="/payouts/new">{t.payouts.preview}</LinkButton>}>
                  {t.payouts.noBatchHint}
                </Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.payouts.batches}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  { name: t.payouts.created, cell: (row) => <Link href={`/payouts/batches/${row.id}`}>{row.createdAt && f.time(row.createdAt)}</Link>, lead: true, sorted: true },
                  { name: t.payouts.by, cell: (row) => row.createdByName ?? t.payouts.formerMember },
                  { name: t.payouts.payouts, cell: (row) => f.number(row.payoutCount), number: true },
                  { name: t.payouts.amount, cell: (row) => <Totals batch={row} />, number: true },
                  { name: t.payouts.results, cell: (row) => <Results batch={row} /> },
                  { name: t.payouts.status, cell: (row) => <BatchBadge status={row.status} /> },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

/** The totals of a batch, each currency in a line. */
function Totals({ batch: { totals } }: { batch: Batch }) {
  const { f } = useTexts();
  return (
    <div>
      {totals.map(({ currency, amountCents }) => (
        <p key={currency}>{f.money(amountCents, currency)}</p>
      ))}
    </div>
  );
}

/** How many payouts of a batch have each status, those that exist. */
function Results({ batch: { byStatus } }: { batch: Batch }) {
  const { t, f } = useTexts();
  return (["paid", "failed", "canceled"] as const)
    .filter((status) => byStatus?.[status])
    .map((status) => t.payouts.count(t.status.payout[status], f.number(byStatus?.[status] ?? 0)))
    .join(", ");
}
