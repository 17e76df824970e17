import { useQuery } from "@tanstack/react-query";

import { TributaryError, unwrap, useApp } from "../../app/app";
import { paged, type Schemas } from "../../app/data";
import { decimal, exponent, minorUnits } from "../../i18n/format";
import { Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { Failure } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Table } from "../../kit/page";
import { useTexts } from "../texts";
import type { Program } from "./data";
import { eventTypes } from "./terms";

/** The changed rules and the example, as they are in the form. */
export interface Preview {
  rules: Schemas["CommissionRulesInput"];
  amount: string;
  payment: string;
  event: string;
}

/** The example without changes of the rules. */
export const unchanged: Preview = { rules: {}, amount: "", payment: "", event: "" };

/** The amount of the example that nobody has changed: 100 in the currency of the programme. */
function hundred(currency: string): number {
  return 100 * 10 ** exponent(currency);
}

function usePreview(program: Program, preview: Preview) {
  const { api, mode } = useApp();
  const { currency } = program;
  const amountCents = minorUnits(preview.amount, exponent(currency)) ?? hundred(currency);
  const paymentNumber = minorUnits(preview.payment, 0) || 1;
  const eventType = eventTypes.find((type) => type === preview.event) ?? "purchase";
  const body = { commissionRules: preview.rules, example: { amountCents, paymentNumber, eventType } };
  return useQuery({
    ...paged,
    queryKey: [mode, "programs", program.id, "preview", program.rulesVersion, body],
    queryFn: async () => unwrap(await api.POST("/api/v1/programs/{programId}/rules/preview", { params: { path: { programId: program.id } }, body })),
  });
}

/** How many partners have the rate of the programme, and how many have another one. */
export function useConcerned(program: Program): Schemas["ParticipantRates"] | null {
  return usePreview(program, unchanged).data?.participants ?? null;
}

/** A worked example: what a sale earns today, and what it earns with the rules in the form. */
export function Example({ program, preview }: { program: Program; preview: Preview | null }) {
  const { t } = useTexts();
  const { currency } = program;
  const query = usePreview(program, preview ?? unchanged);
  const isWrong = !preview || (query.error instanceof TributaryError && query.error.status === 400);
  return (
    <Card title={t.rules.example}>
      <p className={kit.muted}>{t.rules.exampleHint}</p>
      <div className={kit.filters}>
        <TextField name="example.amount" inputMode="decimal" label={`${t.rules.exampleAmount} (${currency})`} defaultValue={decimal(hundred(currency), exponent(currency))} />
        <TextField name="example.payment" inputMode="numeric" label={t.rules.examplePayment} defaultValue="1" />
        <Select name="example.event" label={t.rules.exampleEvent} options={eventTypes.map((type): [string, string] => [type, t.event[type]])} defaultValue="purchase" />
      </div>
      {isWrong && <p>{t.rules.exampleWaits}</p>}
      {query.isError && !isWrong && <Failure error={query.error} retry={() => void query.refetch()} />}
      {query.data && !isWrong && <Result program={program} preview={query.data} />}
    </Card>
  );
}

function Result({ program, preview: { current, changed } }: { program: Program; preview: Schemas["ProgramRulesPreview"] }) {
  const { t, f } = useTexts();
  const sources: Record<string, string> = t.commissions.rule.source;
  const reasons: Record<string, string> = t.conversions.reason;
  const row = (id: string, name: string, of: Schemas["PreviewedCommission"] | null) => {
    const sum = of?.calculation;
    const rate = !sum ? "" : sum.rateBps !== null ? f.percent(sum.rateBps) : f.money(sum.flatAmountCents ?? 0, program.currency);
    const capped = sum?.cappedAtOrderCap ? t.conversions.line.capOrder : sum?.cappedAtBase ? t.conversions.line.capBase : "";
    return {
      id,
      name,
      base: sum ? f.money(sum.baseAmountCents, sum.baseCurrency || program.currency) : "–",
      rate: rate || "–",
      why: sum ? [sources[sum.source] ?? sum.source, capped].filter(Boolean).join(". ") : (reasons[of?.reasonCode ?? ""] ?? of?.reasonCode ?? ""),
      amount: f.money(sum?.amountCents ?? 0, sum?.currency ?? program.currency),
    };
  };
  return (
    <Table
      caption={t.rules.example}
      rows={[row("current", t.rules.today, current), row("changed", t.rules.withChanges, changed)]}
      columns={[
        { name: t.rules.versions, cell: (row) => row.name, lead: true },
        { name: t.conversions.line.base, cell: (row) => row.base, number: true },
        { name: t.rules.rate, cell: (row) => row.rate, number: true },
        { name: t.rules.why, cell: (row) => row.why },
        { name: t.conversions.commission, cell: (row) => row.amount, number: true },
      ]}
    />
  );
}
