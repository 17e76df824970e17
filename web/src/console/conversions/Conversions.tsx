import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged } from "../../app/data";
import { Select } from "../../kit/choices";
import { LinkButton, SearchField, TextField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, pageSize, Table, usePage } from "../../kit/page";
import { liveInterval } from "../data";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";
import { ConversionStatus } from "./ConversionStatus";

/** The filters in the address, as the API names them. */
function useFilters() {
  const { f } = useTexts();
  const [order] = useParameter("order");
  const [attributed] = useParameter("credited");
  const [flagged] = useParameter("flagged");
  const [program] = useParameter("program");
  const [participant] = useParameter("participant");
  const [from] = useParameter("from");
  const [to] = useParameter("to");
  return {
    ...(order && { external_transaction_id: order }),
    ...(attributed && { attributed: attributed === "true" }),
    ...(flagged && { flagged: flagged === "true" }),
    ...(program && { program_id: program }),
    ...(participant && { participant_id: participant }),
    ...(from && { date_from: from, timezone: f.timeZone }),
    ...(to && { date_to: to, timezone: f.timeZone }),
  };
}

/** What was reported, newest first. */
export default function Conversions() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const filters = useFilters();
  const query = useQuery({
    ...paged,
    queryKey: [mode, "conversions", filters, page],
    queryFn: async () => listOf(await api.GET("/api/v1/conversions", { params: { query: { ...filters, page, page_size: pageSize } } })),
    refetchInterval: liveInterval,
  });
  return (
    <Page title={t.conversions.title} about={t.conversions.about}>
      <Filters />
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {Object.keys(filters).length > 0 ? (
                <Empty title={t.conversions.noneFiltered} action={<LinkButton href="/conversions">{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.conversions.none}>{t.conversions.noneHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.conversions.title}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  { name: t.conversions.order, cell: (row) => <Link href={`/conversions/${row.id}`}>{row.external_transaction_id}</Link>, lead: true },
                  { name: t.conversions.time, cell: (row) => row.created_at && f.time(row.created_at), sorted: true },
                  { name: t.conversions.event, cell: (row) => row.event_type && t.event[row.event_type] },
                  { name: t.conversions.partner, cell: (row) => row.partner_name ?? <span className={kit.muted}>{t.conversions.noPartner}</span> },
                  { name: t.conversions.amount, cell: (row) => row.currency && f.money(row.amount_cents, row.currency), number: true },
                  { name: t.conversions.commission, cell: ({ commission }) => commission && f.money(commission.amount_cents, commission.currency), number: true },
                  {
                    name: t.commissions.status,
                    cell: (row) => (
                      <>
                        <ConversionStatus status={row.status} /> {row.fraud?.flagged && <Badge tone="bad">{t.conversions.flagged}</Badge>}
                      </>
                    ),
                  },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

function Filters() {
  const { t } = useTexts();
  const [credited, setCredited] = useParameter("credited");
  const [flagged, setFlagged] = useParameter("flagged");
  const [from, setFrom] = useParameter("from");
  const [to, setTo] = useParameter("to");
  return (
    <div className={kit.filters}>
      <SearchField parameter="order" label={t.conversions.order} />
      <Select
        label={t.conversions.credited}
        options={[
          ["", t.filter.all],
          ["true", t.conversions.anyCredit.true],
          ["false", t.conversions.anyCredit.false],
        ]}
        value={credited}
        onChange={(key) => setCredited(String(key))}
      />
      <Select
        label={t.conversions.fraudFilter}
        options={[
          ["", t.filter.all],
          ["true", t.conversions.flagged],
          ["false", t.conversions.notFlagged],
        ]}
        value={flagged}
        onChange={(key) => setFlagged(String(key))}
      />
      <ProgramFilter />
      <TextField type="date" label={t.filter.from} value={from} onChange={setFrom} />
      <TextField type="date" label={t.filter.to} value={to} onChange={setTo} />
    </div>
  );
}
