import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Done, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { BulkBar, Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { ProgramFilter } from "../ProgramFilter";
import { sumsOf } from "../sums";
import { useTexts } from "../texts";
import { PayoutBadge } from "./Badges";
import { isOpen, type Payout, statuses } from "./data";
import { MarkDialog } from "./MarkDialog";

/** The filters in the address, as the API names them. */
function useFilters() {
  const { f } = useTexts();
  const [chosen] = useParameter("status");
  const [programId] = useParameter("program");
  const [participantId] = useParameter("participant");
  const [dateFrom] = useParameter("from");
  const [dateTo] = useParameter("to");
  const status = statuses.find((status) => status === chosen);
  return {
    ...(status && { status }),
    ...(programId && { programId }),
    ...(participantId && { participantId }),
    ...(dateFrom && { dateFrom, timezone: f.timeZone }),
    ...(dateTo && { dateTo, timezone: f.timeZone }),
  };
}

/** The payouts of a batch, or of all batches. Those that wait for their result can be selected and marked. */
export function PayoutList({ batchId }: { batchId?: string }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const filters = useFilters();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [messages, setMessages] = useState<ReadonlyMap<string, string>>(new Map());
  const [done, setDone] = useState("");
  const query = useQuery({
    ...paged,
    queryKey: [mode, "payouts", "list", batchId, filters, page],
    queryFn: async () => listOf(await api.GET("/api/v1/payouts", { params: { query: { ...(batchId && { batchId }), ...filters, ...pageOf(page) } } })),
    refetchInterval: liveInterval,
  });
  return (
    <>
      <Filters inBatch={batchId !== undefined} />
      {done && <Done key={done}>{done}</Done>}
      <Loaded query={query}>
        {({ data, total, capped }) => {
          if (data.length === 0) {
            return (
              <Card>
                {Object.keys(filters).length > 0 ? (
                  <Empty title={t.payouts.noneFiltered} action={<LinkButton href={batchId ? `/payouts/batches/${batchId}` : "/payouts?show=payouts"}>{t.filter.clear}</LinkButton>} />
                ) : (
                  <Empty title={t.payouts.none} action={<LinkButton href="/payouts/new">{t.payouts.preview}</LinkButton>}>
                    {t.payouts.noneHint}
                  </Empty>
                )}
              </Card>
            );
          }
          const open = can("BulkMarkPayoutsPaid") ? data.filter(isOpen) : [];
          return (
            <>
              <Table
                caption={t.payouts.payouts}
                stale={query.isPlaceholderData}
                rows={data}
                {...(open.length > 0 && {
                  selection: { ids: selected, onChange: setSelected, name: (row: Payout) => `${row.partnerName}, ${f.money(row.amountCents, row.currency)}`, isSelectable: isOpen },
                })}
                columns={[
                  {
                    name: t.payouts.partner,
                    cell: (row) => (
                      <>
                        <Link href={`/payouts/${row.id}`}>{row.partnerName}</Link>
                        {messages.has(row.id) && <p className={kit.fault}>{messages.get(row.id)}</p>}
                      </>
                    ),
                    lead: true,
                  },
                  { name: t.filter.program, cell: (row) => row.programName },
                  { name: t.payouts.method, cell: (row) => row.method && t.method[row.method] },
                  ...(batchId ? [] : [{ name: t.payouts.created, cell: (row: Payout) => row.createdAt && f.time(row.createdAt), sorted: true }]),
                  { name: t.payouts.amount, cell: (row) => f.money(row.amountCents, row.currency), number: true },
                  { name: t.payouts.reference, cell: (row) => row.reference ?? row.failureReason ?? "–" },
                  { name: t.payouts.status, cell: (row) => <PayoutBadge status={row.status} /> },
                ]}
              />
              {open.length > 0 && (
                <Bulk
                  rows={open}
                  selected={selected}
                  onSelect={setSelected}
                  onDone={(refused, text) => {
                    setDone(text);
                    setMessages(refused);
                    setSelected(new Set(refused.keys()));
                  }}
                />
              )}
              <Pages total={total} capped={capped} />
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function Filters({ inBatch }: { inBatch: boolean }) {
  const { t } = useTexts();
  const [status, setStatus] = useParameter("status");
  const [from, setFrom] = useParameter("from");
  const [to, setTo] = useParameter("to");
  return (
    <div className={kit.filters}>
      <Select
        label={t.payouts.status}
        options={[["", t.filter.all], ...statuses.map((status): [string, string] => [status, t.status.payout[status]])]}
        value={status}
        onChange={(key) => setStatus(String(key))}
      />
      <ProgramFilter />
      {!inBatch && (
        <>
          <TextField type="date" label={t.filter.from} value={from} onChange={setFrom} />
          <TextField type="date" label={t.filter.to} value={to} onChange={setTo} />
        </>
      )}
    </div>
  );
}

/** What can be done with the selected payouts, and their sums. */
function Bulk({
  rows,
  selected,
  onSelect,
  onDone,
}: {
  rows: Payout[];
  selected: ReadonlySet<string>;
  onSelect: (ids: ReadonlySet<string>) => void;
  onDone: (refused: ReadonlyMap<string, string>, text: string) => void;
}) {
  const { t, f } = useTexts();
  const [dialog, setDialog] = useState<"paid" | "failed" | null>(null);
  const chosen = rows.filter(({ id }) => selected.has(id));
  const sums = sumsOf(chosen, f);
  return (
    <>
      <BulkBar
        ids={rows.map(({ id }) => id)}
        selected={selected}
        onSelect={onSelect}
        label={chosen.length > 0 ? t.payouts.selected(f.number(chosen.length), sums) : t.payouts.selectAll}
      >
        <Button kind="primary" isDisabled={chosen.length === 0} onPress={() => setDialog("paid")}>
          {t.payouts.markPaid}
        </Button>
        <Button kind="danger" isDisabled={chosen.length === 0} onPress={() => setDialog("failed")}>
          {t.payouts.markFailed}
        </Button>
      </BulkBar>
      {dialog && (
        <MarkDialog
          outcome={dialog}
          count={chosen.length}
          sums={sums}
          load={() => Promise.resolve(chosen)}
          onClose={() => setDialog(null)}
          onDone={onDone}
        />
      )}
    </>
  );
}
