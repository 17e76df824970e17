import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";
import { useLocation } from "wouter";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { paged, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, Checkbox, LinkButton, TextField } from "../../kit/controls";
import { Empty, Failure, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page, Pages, pageSize, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { usePrograms } from "../data";
import { useTexts } from "../texts";
import { useReload } from "./data";
import { type Part, partsOf } from "./parts";

type Line = Schemas["PayoutPreviewLine"];

/** The choice of what to pay, as the API names it. */
function useScope() {
  const [programs] = useParameter("programs");
  const [cutoff] = useParameter("cutoff");
  const programIds = programs.split(",").filter(Boolean);
  return { ...(programIds.length > 0 && { programIds }), ...(cutoff && { cutoff }) };
}

/** What a new batch would pay, and what it would leave out and why. */
export default function NewBatch() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const scope = useScope();
  const [chosen, setPart] = useParameter("show", "payable");
  const part: Part = chosen === "excluded" ? "excluded" : "payable";
  const query = useQuery({
    ...paged,
    queryKey: [mode, "payouts", "preview", scope, part, page],
    queryFn: async () => {
      const preview = async (page: number) => unwrap(await api.POST("/api/v1/payouts/preview", { body: { ...scope, page, pageSize } }));
      return partsOf(preview, part, page, pageSize);
    },
  });
  return (
    <Page title={t.payouts.newTitle} about={t.payouts.newAbout} actions={<LinkButton href="/payouts">{t.payouts.batches}</LinkButton>}>
      <Scope />
      <Loaded query={query}>
        {({ lines, payable, excluded, totals }) => (
          <>
            <Card title={t.payouts.payable} action={can("CreatePayoutBatch") && payable > 0 && <Create scope={scope} />}>
              {payable === 0 ? (
                <Empty title={t.payouts.nothingPayable} action={<LinkButton href="/commissions?show=ready">{t.payouts.toCommissions}</LinkButton>}>
                  {t.payouts.nothingPayableHint}
                </Empty>
              ) : (
                <Facts
                  amounts
                  rows={totals.map(({ currency, amountCents, payoutCount }) => [
                    t.payouts.totalOf(currency, f.number(payoutCount), payoutCount === 1),
                    <strong>{f.money(amountCents, currency)}</strong>,
                  ])}
                />
              )}
              {excluded > 0 && part === "payable" && (
                <Notice
                  tone="warn"
                  action={
                    <Button small onPress={() => setPart("excluded")}>
                      {t.payouts.showExcluded}
                    </Button>
                  }
                >
                  {t.payouts.excludedCount(f.number(excluded), excluded === 1)}
                </Notice>
              )}
            </Card>
            {payable + excluded > 0 && (
              <div className={kit.filters}>
                <Select
                  label={t.payouts.list}
                  options={[
                    ["payable", t.payouts.count(t.payouts.payable, f.number(payable))],
                    ["excluded", t.payouts.count(t.payouts.excluded, f.number(excluded))],
                  ]}
                  value={part}
                  onChange={(key) => setPart(String(key))}
                />
              </div>
            )}
            {lines.length > 0 && <Lines part={part} lines={lines} stale={query.isPlaceholderData} />}
            <Pages total={part === "payable" ? payable : excluded} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** The programmes and the day. */
function Scope() {
  const { t } = useTexts();
  const programs = (usePrograms().data ?? []).filter(({ status }) => status !== "draft");
  const [chosen, setChosen] = useParameter("programs");
  const [cutoff, setCutoff] = useParameter("cutoff");
  const ids = chosen.split(",").filter(Boolean);
  return (
    <Card title={t.payouts.scope}>
      {programs.length > 1 && (
        <div role="group" aria-label={t.payouts.programs} className={kit.filters}>
          <Checkbox isSelected={ids.length === 0} onChange={() => setChosen("")}>
            {t.payouts.allPrograms}
          </Checkbox>
          {programs.map(({ id, name }) => (
            <Checkbox key={id} isSelected={ids.includes(id)} onChange={(on) => setChosen((on ? [...ids, id] : ids.filter((other) => other !== id)).join(","))}>
              {name}
            </Checkbox>
          ))}
        </div>
      )}
      <div className={kit.filters}>
        <TextField type="date" label={t.payouts.cutoff} hint={t.payouts.cutoffHint} value={cutoff} onChange={setCutoff} />
      </div>
    </Card>
  );
}

function Create({ scope }: { scope: ReturnType<typeof useScope> }) {
  const { api } = useApp();
  const { t } = useTexts();
  const [, navigate] = useLocation();
  const reload = useReload();
  const create = useMutation({
    mutationFn: async () => {
      const { id } = unwrap(await api.POST("/api/v1/payouts/batches", { body: scope, params: { header: { "Idempotency-Key": crypto.randomUUID() } } }));
      await reload();
      navigate(`/payouts/batches/${id}`);
    },
  });
  return (
    <>
      <Button kind="primary" isPending={create.isPending} onPress={() => create.mutate()}>
        {t.payouts.createBatch}
      </Button>
      {create.isError && <Failure error={create.error} />}
    </>
  );
}

function Lines({ part, lines, stale }: { part: Part; lines: Line[]; stale: boolean }) {
  const { t, f } = useTexts();
  return (
    <Table
      caption={t.payouts[part]}
      stale={stale}
      rows={lines.map((line) => ({ ...line, id: `${line.participantId} ${line.currency}` }))}
      columns={[
        { name: t.payouts.partner, cell: (row) => <Link href={`/programs/${row.programId}/partners/${row.participantId}`}>{row.partnerName}</Link>, lead: true },
        { name: t.filter.program, cell: (row) => row.programName },
        { name: t.payouts.method, cell: (row) => (row.method ? t.method[row.method] : t.payouts.noMethod) },
        ...(part === "payable"
          ? [
              { name: t.payouts.commissions, cell: (row: Line) => t.payouts.count(f.money(row.commissionCents, row.currency), f.number(row.commissionCount)), number: true },
              { name: t.payouts.adjustments, cell: (row: Line) => f.money(row.adjustmentCents, row.currency), number: true },
            ]
          : [{ name: t.payouts.why, cell: (row: Line) => <Reason line={row} /> }]),
        { name: t.payouts.amount, cell: (row) => f.money(row.amountCents, row.currency), number: true },
      ]}
    />
  );
}

/** Why a partner gets no payout, and what helps. */
function Reason({ line: { excludedBecause, programId } }: { line: Line }) {
  const { t } = useTexts();
  if (!excludedBecause) return null;
  return (
    <div>
      <p>
        <strong>{t.payouts.exclusions[excludedBecause].reason}</strong>
      </p>
      <p className={kit.muted}>{t.payouts.exclusions[excludedBecause].fix}</p>
      {excludedBecause === "below_minimum" && <Link href={`/programs/${programId}?show=rules`}>{t.payouts.toRules}</Link>}
    </div>
  );
}
