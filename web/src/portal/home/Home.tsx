import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { ResendVerification } from "../../app/account/ResendVerification";
import { Activity } from "../../app/Activity";
import { unwrap, useApp, useSession } from "../../app/app";
import { type Schemas, toneOf } from "../../app/data";
import type { Format } from "../../i18n/format";
import { LinkButton } from "../../kit/controls";
import { Badge, Empty, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Stat, Stats } from "../../kit/page";
import { type Program, rateOf, useProfile, usePrograms } from "../data";
import { type Texts, useTexts } from "../texts";

type Balance = Schemas["PartnerBalance"];

export default function Home() {
  const { session } = useApp();
  const { t } = useTexts();
  const state = useSession(session);
  const programs = usePrograms();
  return (
    <Page title={t.home.welcome(state.status === "in" ? state.user.name : "")}>
      <Reminders />
      <Balances programs={programs.data ?? []} />
      <Loaded query={programs}>{(programs) => (programs.length > 0 ? <Joined programs={programs} /> : <NoProgram />)}</Loaded>
    </Page>
  );
}

function NoProgram() {
  const { t } = useTexts();
  return (
    <Card>
      <Empty
        title={t.home.noPrograms}
        action={
          <LinkButton kind="primary" href="/programs?show=public">
            {t.home.find}
          </LinkButton>
        }
      >
        {t.home.noProgramsHint}
      </Empty>
    </Card>
  );
}

/** What keeps the partner from being paid. */
function Reminders() {
  const { session } = useApp();
  const { t, f } = useTexts();
  const state = useSession(session);
  const profile = useProfile();
  const waiting = useBalances().data?.filter(({ payableCents }) => payableCents > 0) ?? [];
  return (
    <>
      {state.status === "in" && !state.user.emailVerified && (
        <Notice tone="warn" action={<ResendVerification />}>
          {t.account.unverified}
        </Notice>
      )}
      {profile.data && !profile.data.payoutMethod && (
        <Notice
          tone="warn"
          action={
            <LinkButton small href="/payouts/method">
              {t.home.setMethod}
            </LinkButton>
          }
        >
          {waiting.length > 0 && <strong>{t.home.waiting(waiting.map(({ payableCents, currency }) => f.money(payableCents, currency)).join(", "))} </strong>}
          {t.home.methodMissing}
        </Notice>
      )}
    </>
  );
}

function useBalances() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "balances"],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/balances")).balances,
  });
}

function Balances({ programs }: { programs: Program[] }) {
  const { t, f } = useTexts();
  const query = useBalances();
  return (
    <Card title={t.home.balances}>
      <Loaded query={query}>
        {(balances) =>
          balances.length === 0 ? (
            <Empty title={t.home.nothing} action={<LinkButton href="/links">{t.home.shareLink}</LinkButton>}>
              {t.home.nothingHint}
            </Empty>
          ) : (
            balances.map((balance) => (
              <Stats key={balance.currency}>
                <Stat name={t.home.payable} value={f.money(balance.payableCents, balance.currency)} note={payableNote(balance, programs, t, f)} />
                {balance.inPayoutCents !== 0 && <Stat name={t.home.inPayout} value={f.money(balance.inPayoutCents, balance.currency)} />}
                <Stat name={t.home.hold} value={f.money(balance.holdCents, balance.currency)} />
                <Stat name={t.home.review} value={f.money(balance.reviewCents, balance.currency)} />
                <Stat name={t.home.paid} value={f.money(balance.paidCents, balance.currency)} />
              </Stats>
            ))
          )
        }
      </Loaded>
    </Card>
  );
}

/** Says why an amount is not paid: it is a debt, or below the smallest payout of the programmes. */
function payableNote({ payableCents, currency }: Balance, programs: Program[], t: Texts, f: Format): string | null {
  if (payableCents < 0) return t.home.debt;
  const minimum = Math.min(...programs.filter((program) => program.currency === currency).map((program) => program.minPayoutCents));
  return Number.isFinite(minimum) && payableCents < minimum ? t.home.minimum(f.money(minimum, currency)) : null;
}

function Joined({ programs }: { programs: Program[] }) {
  const { t, f } = useTexts();
  return (
    <>
      <Recent />
      <Card title={t.home.programs} action={<Link href="/programs">{t.home.all}</Link>}>
        <ul className={kit.list}>
          {programs.slice(0, 5).map((program) => (
            <li key={program.id}>
              <span>
                <Link href={`/programs/${program.id}`}>{program.name}</Link>
                <br />
                <span className={kit.muted}>{rateOf(program, t, f)}</span>
              </span>
              {program.participation?.status && (
                <Badge tone={toneOf(program.participation.status)}>{t.status.participant[program.participation.status]}</Badge>
              )}
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

/** The numbers of the last 30 days, and their course. */
function Recent() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "activity", f.timeZone],
    queryFn: async () => {
      const params = { query: { timezone: f.timeZone } };
      const [summary, series] = await Promise.all([
        api.GET("/api/v1/partner/analytics/summary", { params }),
        api.GET("/api/v1/partner/analytics/timeseries", { params }),
      ]);
      return { summary: unwrap(summary), points: (unwrap(series) as Schemas["AnalyticsTimeseries"]).points };
    },
  });
  return (
    <Activity title={t.home.activity} query={query} amount={{ field: "commissionCents", name: t.home.earnings }}>
      {(summary) => (
        <Stats>
          <Stat name={t.activity.clicks} value={f.number(summary.metrics?.clicks ?? 0)} />
          <Stat name={t.activity.conversions} value={f.number(summary.metrics?.conversions ?? 0)} />
          {amountsOf(summary).map(({ currency, commissionCents }) => (
            <Stat key={currency} name={t.home.earnings} value={f.money(commissionCents, currency)} />
          ))}
        </Stats>
      )}
    </Activity>
  );
}

/** The earnings of a period in each currency. They are never added. */
function amountsOf(summary: Schemas["AnalyticsSummary"]) {
  if (summary.byCurrency.length > 0) return summary.byCurrency;
  return [{ currency: summary.currency, commissionCents: summary.metrics?.commissionCents ?? 0 }];
}
