import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Badge, Done, Empty, Loaded } from "../../kit/feedback";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { BulkBar, Card, Page, Pages, Table, Tabs, usePage } from "../../kit/page";
import { type Outcome, outcomeOf } from "../bulk";
import { useCan } from "../can";
import { liveInterval, useReloadOf } from "../data";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";

type FraudEvent = Schemas["FraudEvent"];

const statuses = ["open", "confirmed", "dismissed"] as const;

/** The conversions that the fraud rules found suspicious, and the decisions about them. */
export default function Fraud() {
  const { t } = useTexts();
  const [show] = useParameter("show", "open");
  const status = statuses.find((status) => status === show) ?? "open";
  return (
    <Page title={t.fraud.title} about={t.fraud.about}>
      <Tabs label={t.fraud.title} keep={["program"]} tabs={statuses.map((status): [string, string] => [status, t.fraud.tabs[status]])} />
      <div className={kit.filters}>
        <ProgramFilter />
      </div>
      <Events key={status} status={status} />
    </Page>
  );
}

function Events({ status }: { status: (typeof statuses)[number] }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const [programId] = useParameter("program");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [messages, setMessages] = useState<Outcome["failed"]>(new Map());
  const [done, setDone] = useState("");
  const canDecide = status === "open" && can("BulkResolveFraudEvents");
  const rules: Record<string, string> = t.fraudRules;
  const query = useQuery({
    ...paged,
    queryKey: [mode, "fraud", status, programId, page],
    queryFn: async () => listOf(await api.GET("/api/v1/fraud/events", { params: { query: { status, ...(programId && { programId }), ...pageOf(page) } } })),
    refetchInterval: liveInterval,
  });
  return (
    <>
      {done && <Done key={done}>{done}</Done>}
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              <Empty title={t.fraud.none} action={programId && <LinkButton href={`/fraud?show=${status}`}>{t.filter.clear}</LinkButton>}>
                {t.fraud.noneHint}
              </Empty>
            </Card>
          ) : (
            <>
              <Table
                caption={t.fraud.title}
                stale={query.isPlaceholderData}
                rows={data}
                {...(canDecide && {
                  selection: { ids: selected, onChange: setSelected, name: (row: FraudEvent) => `${row.partnerName}, ${row.externalTransactionId}` },
                })}
                columns={[
                  {
                    name: t.fraud.order,
                    cell: (row) => (
                      <>
                        <Link href={`/conversions/${row.conversionId}`}>{row.externalTransactionId}</Link>
                        {messages.has(row.id) && <p className={kit.fault}>{messages.get(row.id)}</p>}
                      </>
                    ),
                    lead: true,
                  },
                  { name: t.fraud.created, cell: (row) => row.createdAt && f.time(row.createdAt), sorted: true },
                  { name: t.fraud.partner, cell: (row) => <Link href={`/programs/${row.programId}/partners/${row.participantId}`}>{row.partnerName}</Link> },
                  { name: t.fraud.found, cell: (row) => row.signals.map(({ rule }) => rules[rule] ?? rule).join(". ") },
                  { name: t.fraud.score, cell: (row) => <Badge tone="bad">{f.number(row.score)}</Badge>, number: true },
                  status === "open"
                    ? { name: t.fraud.effect, cell: (row) => row.action && t.fraud.action[row.action] }
                    : {
                        name: t.fraud.resolvedAt,
                        cell: (row) => (
                          <>
                            {row.resolvedAt && f.time(row.resolvedAt)}
                            {row.note && <p className={kit.text}>{row.note}</p>}
                          </>
                        ),
                      },
                ]}
              />
              {canDecide && (
                <Decide
                  rows={data}
                  selected={selected}
                  onSelect={setSelected}
                  onDone={({ changed, failed }) => {
                    setMessages(failed);
                    setSelected(new Set(failed.keys()));
                    setDone(
                      [changed.length > 0 && t.fraud.done(f.number(changed.length)), failed.size > 0 && t.fraud.failed(f.number(failed.size))].filter(Boolean).join(" "),
                    );
                  }}
                />
              )}
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Decide({
  rows,
  selected,
  onSelect,
  onDone,
}: {
  rows: FraudEvent[];
  selected: ReadonlySet<string>;
  onSelect: (ids: ReadonlySet<string>) => void;
  onDone: (outcome: Outcome) => void;
}) {
  const { t, f } = useTexts();
  const [outcome, setOutcome] = useState<"confirmed" | "dismissed" | null>(null);
  const chosen = rows.filter(({ id }) => selected.has(id)).map(({ id }) => id);
  return (
    <BulkBar
      ids={rows.map(({ id }) => id)}
      selected={selected}
      onSelect={onSelect}
      label={chosen.length > 0 ? t.fraud.selected(f.number(chosen.length)) : t.commissions.selectAll}
    >
      <Button isDisabled={chosen.length === 0} onPress={() => setOutcome("dismissed")}>
        {t.fraud.dismiss}
      </Button>
      <Button kind="danger" isDisabled={chosen.length === 0} onPress={() => setOutcome("confirmed")}>
        {t.fraud.confirm}
      </Button>
      {outcome && <DecideDialog ids={chosen} outcome={outcome} onDone={onDone} onClose={() => setOutcome(null)} />}
    </BulkBar>
  );
}

/** Says what the decision does, and makes it. */
function DecideDialog({ ids, outcome, onDone, onClose }: { ids: string[]; outcome: "confirmed" | "dismissed"; onDone: (outcome: Outcome) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReloadOf("fraud", "commissions", "conversions", "to-do");
  const isFraud = outcome === "confirmed";
  const state = useSubmit(
    useCallback(
      async ({ note = "" }) => {
        const body = { eventIds: ids, outcome, ...(note && { note }) };
        const result = outcomeOf(await api.POST("/api/v1/fraud/events/bulk-resolve", { body }), ({ eventId }) => eventId);
        await reload();
        onClose();
        onDone(result);
      },
      [api, ids, onClose, onDone, outcome, reload],
    ),
  );
  const count = f.number(ids.length);
  return (
    <FormDialog
      title={isFraud ? t.fraud.confirmTitle(count) : t.fraud.dismissTitle(count)}
      state={state}
      label={isFraud ? t.fraud.confirm : t.fraud.dismiss}
      kind={isFraud ? "danger" : "primary"}
      onClose={onClose}
    >
      <p>{isFraud ? t.fraud.confirmHint : t.fraud.dismissHint}</p>
      <TextField name="note" label={`${t.fraud.note} (${t.form.optional})`} hint={t.fraud.noteHint} lines maxLength={500} />
    </FormDialog>
  );
}
