import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";
import { useLocation } from "wouter";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { type Schemas, toneOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { Badge, Empty, Loaded, type Tone } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page, Tabs } from "../../kit/page";
import { type Program, usePrograms } from "../data";
import { useTexts } from "../texts";
import { Explanation } from "./Explanation";

type Match = Schemas["PartnerConversionMatch"];

/** The most sales of an answer. */
const maxMatches = 100;

const tones: Record<NonNullable<Match["result"]>, Tone> = { credited: "good", no_commission: "warn", not_credited: "bad" };

/** The answer to the question why a sale is missing. What is searched is in the address. */
export default function Lookup() {
  const { t } = useTexts();
  const programs = usePrograms();
  const [show] = useParameter("show", "order");
  return (
    <Page title={t.commissions.lookup} about={t.commissions.lookupHint}>
      <Tabs
        label={t.commissions.lookup}
        tabs={[
          ["order", t.commissions.byOrder],
          ["day", t.commissions.byDay],
        ]}
      />
      {show === "day" ? <Loaded query={programs}>{(programs) => <ByDay programs={programs} />}</Loaded> : <ByOrder />}
    </Page>
  );
}

function ByOrder() {
  const { t } = useTexts();
  const [order] = useParameter("order");
  const state = useSearchForm(useCallback(({ order = "" }) => ({ order: order.trim() }), []));
  return (
    <>
      <Card>
        <Form key={order} state={state} label={t.commissions.search}>
          <TextField name="order" label={t.commissions.order} hint={t.commissions.orderHint} defaultValue={order} maxLength={255} autoComplete="off" isRequired />
        </Form>
      </Card>
      {order && <Answer query={{ externalTransactionId: order }} />}
    </>
  );
}

function ByDay({ programs }: { programs: Program[] }) {
  const { t, f } = useTexts();
  const [chosen] = useParameter("program");
  const [date] = useParameter("date");
  const [program, setProgram] = useState(chosen || (programs[0]?.id ?? ""));
  const state = useSearchForm(useCallback(({ date = "" }) => ({ show: "day", program, date }), [program]));
  if (programs.length === 0) {
    return (
      <Card>
        <Empty title={t.home.noPrograms}>{t.home.noProgramsHint}</Empty>
      </Card>
    );
  }
  return (
    <>
      <Card>
        <Form key={date} state={state} label={t.commissions.search}>
          <Select
            label={t.commissions.program}
            options={programs.map(({ id, name }): [string, string] => [id, name])}
            value={program}
            onChange={(key) => setProgram(String(key))}
          />
          <TextField name="date" type="date" label={t.commissions.day} hint={t.commissions.dayHint} defaultValue={date} isRequired />
        </Form>
      </Card>
      {chosen && date && <Answer query={{ programId: chosen, date, timezone: f.timeZone }} />}
    </>
  );
}

/** Returns the state of a form that puts what is searched into the address. */
function useSearchForm(parametersOf: (values: Record<string, string>) => Record<string, string>) {
  const { mode } = useApp();
  const { t } = useTexts();
  const [path, navigate] = useLocation();
  const queries = useQueryClient();
  return useSubmit(
    useCallback(
      async (values) => {
        const parameters = parametersOf(values);
        for (const [field, value] of Object.entries(parameters)) {
          if (!value) throw new FieldFault(field, t.commissions.required);
        }
        navigate(`${path}?${new URLSearchParams(parameters)}`);
        await queries.invalidateQueries({ queryKey: [mode, "lookup"] });
      },
      [mode, navigate, parametersOf, path, queries, t],
    ),
  );
}

function Answer({ query: searched }: { query: { externalTransactionId?: string; programId?: string; date?: string; timezone?: string } }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const query = useQuery({
    queryKey: [mode, "lookup", searched],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/conversions/lookup", { params: { query: searched } })),
  });
  return (
    <div className={kit.page} aria-live="polite">
      <Loaded query={query}>
        {({ data, explanation }) => (
          <>
            {data.length === 0 && (
              <Card>
                <Empty title={t.commissions.noSale}>{t.commissions.noSaleHint}</Empty>
                <Explanation text={explanation} />
              </Card>
            )}
            {data.map((match, index) => (
              <Sale key={index} match={match} />
            ))}
            {data.length === maxMatches && <p className={kit.muted}>{t.commissions.newestSales(maxMatches)}</p>}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Sale({ match }: { match: Match }) {
  const { t, f } = useTexts();
  const { result, reason, commissionId, commissionStatus } = match;
  if (!result) return null;
  return (
    <Card title={t.commissions.result[result]} action={<Badge tone={tones[result]}>{t.commissions.resultShort[result]}</Badge>}>
      {reason && <p>{t.commissions.lookupReason[reason]}</p>}
      <Facts
        rows={[
          [t.commissions.saleAt, match.occurredAt && f.time(match.occurredAt)],
          [t.commissions.event, match.eventType && t.event[match.eventType]],
          [t.commissions.program, <Link href={`/programs/${match.programId}`}>{match.programName}</Link>],
          [
            t.commissions.amount,
            commissionId && commissionStatus && (
              <>
                <Link href={`/commissions/${commissionId}`}>{t.commissions.toCommission}</Link>{" "}
                <Badge tone={toneOf(commissionStatus)}>{t.status.commission[commissionStatus]}</Badge>
              </>
            ),
          ],
        ]}
      />
      <Explanation text={match.explanation} />
    </Card>
  );
}
