import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useAddressWith, useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button, LinkButton, SearchField, TextField } from "../../kit/controls";
import { Done, Empty, Failure, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { BulkBar, Card, Page, Pages, Table, Tabs, usePage, useSort } from "../../kit/page";
import type { Outcome } from "../bulk";
import { useCan } from "../can";
import { ExportButton } from "../CsvButton";
import { liveInterval } from "../data";
import { ProgramFilter } from "../ProgramFilter";
import { sumsOf } from "../sums";
import { useTexts } from "../texts";
import { CommissionBadge } from "./CommissionBadge";
import { type Item, useBulk, useReload } from "./decide";
import { CommissionPanel } from "./CommissionPanel";
import { RejectDialog } from "./RejectDialog";

/** The tabs of the page, with their filters. */
const tabs = {
  review: { needsReview: true },
  hold: { holdActive: true, needsReview: false },
  ready: { holdActive: false, needsReview: false },
  approved: { status: "approved" },
  paid: { status: "paid" },
  rejected: { status: "rejected" },
  refunded: { status: "refunded" },
} as const;
type Tab = keyof typeof tabs;

/** The fields by which the list can be sorted. */
const sorts = ["createdAt", "amountCents", "partnerName"] as const;

/** The filters in the address, as the API names them. */
function useFilters() {
  const { f } = useTexts();
  const [programId] = useParameter("program");
  const [participantId] = useParameter("participant");
  const [search] = useParameter("search");
  const [dateFrom] = useParameter("from");
  const [dateTo] = useParameter("to");
  return {
    ...(programId && { programId }),
    ...(participantId && { participantId }),
    ...(search && { search }),
    ...(dateFrom && { dateFrom, timezone: f.timeZone }),
    ...(dateTo && { dateTo, timezone: f.timeZone }),
  };
}

/** The review queue: commissions by what must be done with them. */
export default function Commissions() {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const filters = useFilters();
  const [show] = useParameter("show", "review");
  const tab = show in tabs ? (show as Tab) : "review";
  const stats = useQuery({
    ...paged,
    queryKey: [mode, "commissions", "stats", filters],
    queryFn: async () => unwrap(await api.GET("/api/v1/commissions/stats", { params: { query: filters } })),
    refetchInterval: liveInterval,
  });
  return (
    <Page
      title={t.commissions.title}
      about={t.commissions.about}
      actions={
        can("ExportCommissions") && <ExportButton address="/api/v1/commissions/export" query={{ ...filters, ...tabs[tab] }} />
      }
    >
      <Counted stats={stats.data} />
      <Filters />
      <Queue key={tab} tab={tab} filters={filters} />
    </Page>
  );
}

/** The tabs with the numbers of commissions. */
function Counted({ stats }: { stats: Schemas["CommissionStats"] | undefined }) {
  const { t, f } = useTexts();
  const counts: Partial<Record<Tab, number>> = { review: stats?.needsReviewCount, hold: stats?.onHoldCount, ready: stats?.readyCount };
  const count = (tab: Tab) => counts[tab] ?? (stats?.byStatus as Record<string, { count: number } | null> | null | undefined)?.[tab]?.count;
  return (
    <Tabs
      label={t.commissions.title}
      keep={["program", "participant", "search", "from", "to"]}
      tabs={(Object.keys(tabs) as Tab[]).map((tab): [string, string] => {
        const number = count(tab);
        return [tab, number === undefined ? t.commissions.tabs[tab] : t.commissions.tab(t.commissions.tabs[tab], f.number(number))];
      })}
    />
  );
}

function Filters() {
  const { t } = useTexts();
  const [from, setFrom] = useParameter("from");
  const [to, setTo] = useParameter("to");
  return (
    <div className={kit.filters}>
      <SearchField label={t.filter.search} />
      <ProgramFilter />
      <TextField type="date" label={t.filter.from} value={from} onChange={setFrom} />
      <TextField type="date" label={t.filter.to} value={to} onChange={setTo} />
    </div>
  );
}

function Queue({ tab, filters }: { tab: Tab; filters: ReturnType<typeof useFilters> }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const sort = useSort(sorts);
  const [open, setOpen] = useParameter("open");
  const addressOf = useAddressWith("open");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [messages, setMessages] = useState<Outcome["failed"]>(new Map());
  const [done, setDone] = useState("");
  const canDecide = can("BulkApproveCommissions") && (tab === "review" || tab === "hold" || tab === "ready" || tab === "approved");
  const query = useQuery({
    ...paged,
    queryKey: [mode, "commissions", tab, filters, sort, page],
    queryFn: async () => listOf(await api.GET("/api/v1/commissions", { params: { query: { ...filters, ...tabs[tab], ...sort, ...pageOf(page) } } })),
    refetchInterval: liveInterval,
  });
  return (
    <>
      {done && <Done key={done}>{done}</Done>}
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {Object.keys(filters).length > 0 ? (
                <Empty title={t.commissions.noneFiltered} action={<LinkButton href={`/commissions?show=${tab}`}>{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.commissions.none}>{t.commissions.noneHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.commissions.title}
                stale={query.isPlaceholderData}
                rows={data}
                {...(canDecide && { selection: { ids: selected, onChange: setSelected, name: (row: Item) => `${row.partnerName}, ${row.externalTransactionId}` } })}
                columns={[
                  {
                    name: t.commissions.partner,
                    cell: (row) => (
                      <>
                        <Link href={addressOf(row.id)}>{row.partnerName}</Link>
                        {messages.has(row.id) && <p className={kit.fault}>{messages.get(row.id)}</p>}
                      </>
                    ),
                    lead: true,
                    sortBy: "partnerName",
                  },
                  { name: t.filter.program, cell: (row) => row.programName },
                  { name: t.commissions.order, cell: (row) => row.externalTransactionId },
                  { name: t.commissions.created, cell: (row) => row.createdAt && f.time(row.createdAt), sortBy: "createdAt" },
                  { name: t.commissions.sale, cell: (row) => f.money(row.saleAmountCents, row.saleCurrency), number: true },
                  { name: t.commissions.amount, cell: (row) => f.money(row.amountCents, row.currency), number: true, sortBy: "amountCents" },
                  { name: t.commissions.status, cell: (row) => <CommissionBadge commission={row} /> },
                ]}
              />
              {canDecide && (
                <Decide
                  tab={tab}
                  rows={data}
                  selected={selected}
                  onSelect={setSelected}
                  onDone={({ failed }, text) => {
                    setMessages(failed);
                    setSelected(new Set(failed.keys()));
                    setDone(text);
                  }}
                />
              )}
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open && <CommissionPanel id={open} onClose={() => setOpen("")} />}
    </>
  );
}

/** Approves or rejects the selected commissions. Those that could not be changed stay selected. */
function Decide({
  tab,
  rows,
  selected,
  onSelect,
  onDone,
}: {
  tab: Tab;
  rows: Item[];
  selected: ReadonlySet<string>;
  onSelect: (ids: ReadonlySet<string>) => void;
  onDone: (outcome: Outcome, text: string) => void;
}) {
  const { t, f } = useTexts();
  const bulk = useBulk();
  const reload = useReload();
  const [rejecting, setRejecting] = useState(false);
  const chosen = rows.filter(({ id }) => selected.has(id));
  const sums = sumsOf(chosen, f);
  const finish = async (outcome: Outcome, text: (count: string) => string) => {
    const { changed, failed } = outcome;
    const done = [changed.length > 0 && text(f.number(changed.length)), failed.size > 0 && t.commissions.failed(f.number(failed.size))].filter(Boolean).join(" ");
    onDone(outcome, done);
    await reload();
  };
  const approve = useMutation({
    mutationFn: async () => finish(await bulk.approve(chosen.map(({ id }) => id)), t.commissions.approved),
  });
  return (
    <>
      {approve.isError && <Failure error={approve.error} retry={() => approve.mutate()} />}
      <BulkBar
        ids={rows.map(({ id }) => id)}
        selected={selected}
        onSelect={onSelect}
        label={chosen.length > 0 ? t.commissions.selected(f.number(chosen.length), sums) : t.commissions.selectAll}
      >
        {(tab === "review" || tab === "ready") && (
          <Button kind="primary" isDisabled={chosen.length === 0} isPending={approve.isPending} onPress={() => approve.mutate()}>
            {t.commissions.approve}
          </Button>
        )}
        <Button kind="danger" isDisabled={chosen.length === 0} onPress={() => setRejecting(true)}>
          {t.commissions.reject}
        </Button>
      </BulkBar>
      {rejecting && (
        <RejectDialog
          title={t.commissions.rejectTitle(f.number(chosen.length), sums)}
          onClose={() => setRejecting(false)}
          onReject={async (code, reason) => {
            const outcome = await bulk.reject(chosen.map(({ id }) => id), code, reason);
            setRejecting(false);
            await finish(outcome, t.commissions.rejected);
          }}
        />
      )}
    </>
  );
}
