import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useParams } from "wouter";

import { unwrap, useApp } from "../../app/app";
import { useTexts } from "../../app/texts";
import { ExternalLink, LinkButton } from "../../kit/controls";
import { Done, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page } from "../../kit/page";
import { type Program, rateOf } from "../data";
import { OwnLink } from "../links/OwnLink";
import { Apply, Invitation } from "./Join";
import { ProgramBadge } from "./Programs";
import { rulesOf } from "./rules";

export default function ProgramDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const [done, setDone] = useState("");
  const query = useQuery({
    queryKey: [mode, "programs", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/programs/{programId}", { params: { path: { programId: id } } })),
  });
  const changed = useCallback(
    async (text: string) => {
      await queries.invalidateQueries({ queryKey: [mode, "programs"] });
      setDone(text);
    },
    [mode, queries],
  );
  return (
    <Page title={query.data?.name ?? t.programs.title} about={query.data && t.programs.by(query.data.merchantName)}>
      {done && <Done key={done}>{done}</Done>}
      <Loaded query={query}>
        {(program) => (
          <>
            <p className={kit.actions}>
              <ProgramBadge program={program} />
            </p>
            {program.description && <p className={kit.text}>{program.description}</p>}
            <Taking program={program} onChanged={changed} />
            <Terms program={program} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** What the partner can do in the programme, and the link if the partner takes part. */
function Taking({ program, onChanged }: { program: Program; onChanged: (text: string) => Promise<void> }) {
  const { t } = useTexts();
  const { participation } = program;
  if (!participation) {
    if (program.status !== "active") return <Notice>{t.programs.closed}</Notice>;
    return program.isPublic ? <Apply program={program} onChanged={onChanged} /> : <Notice>{t.programs.byInvitation}</Notice>;
  }
  if (participation.partnerConsent) return <Invitation program={program} declined={participation.partnerConsent === "declined"} onChanged={onChanged} />;
  if (participation.status === "rejected" || participation.status === "suspended") {
    return <Notice tone="bad">{t.programs.stopped[participation.status]}</Notice>;
  }
  return (
    <OwnLink
      program={program}
      title={t.programs.yourLink}
      action={
        <LinkButton small href={`/links?program=${program.id}`}>
          {t.programs.toLink}
        </LinkButton>
      }
      showQr
    />
  );
}

/** The rate with its rules, and when the money is paid. */
function Terms({ program }: { program: Program }) {
  const { t, f } = useTexts();
  const rules = program.commissionRules;
  const sentences = rulesOf(program, t, f);
  const hold = rules?.holdPeriodDays;
  return (
    <Card title={t.programs.facts}>
      <Facts
        rows={[
          [t.programs.rate, rateOf(program, t, f) + (program.participation?.commissionRate ? ` (${t.rate.own})` : "")],
          [
            t.programs.rules,
            sentences.length === 0 ? null : (
              <ul className={kit.rules}>
                {sentences.map((sentence) => (
                  <li key={sentence}>{sentence}</li>
                ))}
              </ul>
            ),
          ],
          [t.programs.window, t.programs.days(program.attributionWindowDays)],
          [t.programs.hold, hold === null || hold === undefined ? null : t.programs.days(hold)],
          [t.programs.approval, rules?.autoApproval === false ? t.programs.manual : t.programs.automatic],
          [t.programs.minimum, program.minPayoutCents > 0 ? f.money(program.minPayoutCents, program.currency) : null],
          [t.programs.term, program.payoutTermDays > 0 ? t.programs.days(program.payoutTermDays) : t.programs.termNone],
          [t.programs.website, program.websiteUrl && <ExternalLink href={program.websiteUrl}>{program.websiteUrl}</ExternalLink>],
          [t.programs.terms, program.termsUrl && <ExternalLink href={program.termsUrl}>{t.programs.openTerms}</ExternalLink>],
        ]}
      />
    </Card>
  );
}
