import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";
import { useParams } from "wouter";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { type Schemas, toneOf } from "../../app/data";
import { Badge, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page, Stat, Stats, Table, Tabs } from "../../kit/page";
import { useProgram } from "../programs/data";
import { rateText } from "../rate";
import { useTexts } from "../texts";
import { Decisions } from "./Decisions";
import { EditPartner } from "./EditPartner";
import { useGroups } from "./data";
import { Ledger } from "./Ledger";
import { PersonalData } from "./PersonalData";

export type Participant = Schemas["Participant"];

export interface Props {
  participant: Participant;
  program: Schemas["Program"];
}

/** A partner in a programme. */
export default function PartnerDetail() {
  const { program: programId = "", id = "" } = useParams<{ program: string; id: string }>();
  const { api, mode } = useApp();
  const { t } = useTexts();
  const program = useProgram(programId);
  const query = useQuery({
    queryKey: [mode, "partners", programId, "one", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs/{programId}/partners/{participantId}", { params: { path: { programId, participantId: id } } })),
  });
  return (
    <Page title={query.data?.partnerName ?? t.partners.title} about={program.data?.name}>
      <Tabs
        label={t.partners.one}
        tabs={[
          ["overview", t.partners.tabs.overview],
          ["links", t.partners.tabs.links],
          ["ledger", t.partners.tabs.ledger],
          ["data", t.partners.tabs.data],
        ]}
      />
      <Loaded query={program}>{(program) => <Loaded query={query}>{(participant) => <Part participant={participant} program={program} />}</Loaded>}</Loaded>
    </Page>
  );
}

function Part(props: Props) {
  const [show] = useParameter("show", "overview");
  switch (show) {
    case "links":
      return <Links {...props} />;
    case "ledger":
      return <Ledger {...props} />;
    case "data":
      return <PersonalData {...props} />;
    default:
      return <Overview {...props} />;
  }
}

function Overview({ participant, program }: Props) {
  const { t, f } = useTexts();
  const groups = useGroups(program.id).data ?? [];
  const { status, partnerConsent, commissionOverride, groupId, applicationAnswers, tags, note } = participant;
  const time = (time: string | null) => time && f.time(time);
  const money = (cents: number) => f.money(cents, program.currency);
  const labels = new Map(program.applicationQuestions.map(({ key, label }) => [key, label]));
  return (
    <>
      <Card
        title={t.partners.status}
        action={
          <>
            {status && <Badge tone={toneOf(status)}>{t.status.participant[status]}</Badge>} {partnerConsent && <Badge tone="warn">{t.partners.consent[partnerConsent]}</Badge>}
          </>
        }
      >
        <Decisions participant={participant} program={program} />
      </Card>
      <Card title={t.partners.numbers}>
        <Stats>
          <Stat name={t.activity.clicks} value={f.number(participant.clicks)} />
          <Stat name={t.activity.conversions} value={f.number(participant.conversions)} />
          <Stat name={t.overview.revenue} value={money(participant.revenueCents)} />
          <Stat name={t.overview.commissions} value={money(participant.commissionCents)} />
          <Stat name={t.partners.balance} value={money(participant.balanceCents)} />
        </Stats>
        <div className={kit.actions}>
          <Link href={`/commissions?show=ready&participant=${participant.id}`}>{t.partners.commissions}</Link>
          <Link href={`/conversions?participant=${participant.id}`}>{t.partners.conversions}</Link>
          <Link href={`/payouts?show=payouts&participant=${participant.id}`}>{t.partners.payouts}</Link>
        </div>
      </Card>
      <Card title={t.partners.facts} action={<EditPartner participant={participant} program={program} groups={groups} />}>
        <Facts
          rows={[
            [t.form.email, participant.partnerEmail],
            [t.partners.code, <span className={kit.code}>{participant.referralCode}</span>],
            [t.partners.rate, commissionOverride ? rateText(commissionOverride, program.currency, f) : t.partners.programRate],
            [t.partners.group, groups.find(({ id }) => id === groupId)?.name],
            [t.partners.tags, tags.join(", ")],
            [t.partners.note, note && <span className={kit.text}>{note}</span>],
            [t.partners.externalId, participant.externalId],
            [t.partners.applied, time(participant.appliedAt)],
            [t.status.participant.approved, time(participant.approvedAt)],
            [t.status.participant.rejected, time(participant.rejectedAt)],
            [t.partners.reason, participant.rejectionReason ?? participant.suspensionReason],
            [t.status.participant.suspended, time(participant.suspendedAt)],
            [t.partners.terms, participant.termsAcceptedAt && !!participant.termsVersion && t.partners.termsAccepted(f.number(participant.termsVersion ?? 0), f.time(participant.termsAcceptedAt))],
          ]}
        />
      </Card>
      {Object.keys(applicationAnswers).length > 0 && (
        <Card title={t.partners.answers}>
          <Facts rows={Object.entries(applicationAnswers).map(([key, answer]): [string, string] => [labels.get(key) ?? key, answer])} />
        </Card>
      )}
    </>
  );
}

/** The links and promo codes of the partner: the first hundred of each. */
function Links({ participant, program }: Props) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const params = { path: { programId: program.id }, query: { participantId: participant.id, pageSize: 100 } };
  const links = useQuery({
    queryKey: [mode, "programs", program.id, "partner-links", participant.id],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs/{programId}/links", { params })).data,
  });
  const codes = useQuery({
    queryKey: [mode, "programs", program.id, "partner-codes", participant.id],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs/{programId}/promo-codes", { params })).data,
  });
  return (
    <>
      <Card title={t.partners.links}>
        <Loaded query={links}>
          {(links) =>
            links.length === 0 ? (
              <p className={kit.muted}>{t.partners.noLinks}</p>
            ) : (
              <Table
                caption={t.partners.links}
                rows={links}
                columns={[
                  { name: t.partners.code, cell: (row) => <span className={kit.code}>{row.code}</span>, lead: true },
                  { name: t.partners.destination, cell: (row) => row.destinationUrl },
                  { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true },
                  { name: t.activity.conversions, cell: (row) => f.number(row.conversions), number: true },
                ]}
              />
            )
          }
        </Loaded>
      </Card>
      <Card title={t.partners.promoCodes}>
        <Loaded query={codes}>
          {(codes) =>
            codes.length === 0 ? (
              <p className={kit.muted}>{t.partners.noPromoCodes}</p>
            ) : (
              <Table
                caption={t.partners.promoCodes}
                rows={codes}
                columns={[
                  { name: t.partners.code, cell: (row) => <span className={kit.code}>{row.code}</span>, lead: true },
                  { name: t.partners.used, cell: (row) => f.number(row.redemptions), number: true },
                  { name: t.partners.status, cell: (row) => <Badge tone={row.active ? "good" : "info"}>{row.active ? t.partners.active : t.partners.inactive}</Badge> },
                ]}
              />
            )
          }
        </Loaded>
      </Card>
    </>
  );
}
