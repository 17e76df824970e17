import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { paged, pageOf } from "../../app/data";
import { TextField } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Stat, Stats, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { ExportButton } from "../CsvButton";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";

/** What is owed to partners now, or was at the end of a day. */
export function Balances() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const [asOf, setAsOf] = useParameter("day");
  const [programId] = useParameter("program");
  const filters = { ...(asOf && { asOf, timezone: f.timeZone }), ...(programId && { programId }) };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "payouts", "balances", filters, page],
    queryFn: async () => unwrap(await api.GET("/api/v1/ledger/balances", { params: { query: { ...filters, ...pageOf(page) } } })),
  });
  return (
    <>
      <div className={kit.filters}>
        <TextField type="date" label={t.payouts.asOf} value={asOf} onChange={setAsOf} />
        <ProgramFilter />
      </div>
      <Loaded query={query}>
        {({ data, total, totals, asOf }) =>
          data.length === 0 ? (
            <Card>
              <Empty title={t.payouts.noBalance}>{t.payouts.noBalanceHint}</Empty>
            </Card>
          ) : (
            <>
              {totals.map(({ currency, owedToPartnersCents, owedByPartnersCents, participantCount }) => (
                <Card key={currency} title={t.payouts.inCurrency(currency)}>
                  <Stats>
                    <Stat name={t.payouts.owed} value={f.money(owedToPartnersCents, currency)} />
                    <Stat name={t.payouts.debts} value={f.money(owedByPartnersCents, currency)} />
                    <Stat name={t.payouts.partners} value={f.number(participantCount)} />
                  </Stats>
                </Card>
              ))}
              <Table
                caption={t.payouts.balances}
                stale={query.isPlaceholderData}
                rows={data.map((row) => ({ ...row, id: `${row.participantId} ${row.currency}` }))}
                columns={[
                  { name: t.payouts.partner, cell: (row) => <Link href={`/programs/${row.programId}/partners/${row.participantId}`}>{row.partnerName}</Link>, lead: true },
                  { name: t.filter.program, cell: (row) => row.programName },
                  { name: t.payouts.balance, cell: (row) => f.money(row.balanceCents, row.currency), number: true, sorted: true },
                ]}
              />
              <Pages total={total} />
              {asOf && <p className={kit.muted}>{t.payouts.balancesAt(f.time(asOf))}</p>}
            </>
          )
        }
      </Loaded>
      {can("ExportLedger") && <LedgerExport programId={programId} />}
    </>
  );
}

/** The entries of the ledger in a period, as a file. */
function LedgerExport({ programId }: { programId: string }) {
  const { t, f } = useTexts();
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const query = { ...(from && { dateFrom: from }), ...(to && { dateTo: to }), ...(programId && { programId }), timezone: f.timeZone };
  return (
    <Card title={t.payouts.ledger}>
      <p className={kit.muted}>{t.payouts.ledgerHint}</p>
      <div className={kit.filters}>
        <TextField type="date" label={t.filter.from} value={from} onChange={setFrom} />
        <TextField type="date" label={t.filter.to} value={to} onChange={setTo} />
        <ExportButton address="/api/v1/ledger/export" query={query} />
      </div>
    </Card>
  );
}
