import { useQuery } from "@tanstack/react-query";
import { useParams } from "wouter";

import { TributaryError, useApp, useSession } from "../../app/app";
import { get } from "../../app/request";
import type { User } from "../../app/session";
import { useTexts } from "../../app/texts";
import { LinkButton } from "../../kit/controls";
import { Done, Failure, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { Frame } from "../account/Frame";
import css from "../account/frame.module.css";
import { ResendVerification } from "../account/ResendVerification";
import { paged, type PortalProgram, useProgram, useProgramChanges } from "../data";
import { Introduction } from "../programs/Conditions";
import { ApplicationForm, Taking } from "../programs/Join";
import { Account, LoggedInAs } from "./Account";
import { Branded, Waiting } from "./Branded";

/** The public page of a programme, on which anybody can apply. */
export default function ProgramPage() {
  const { workspace = "", program: slug = "" } = useParams<{ workspace: string; program: string }>();
  const { mode, session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const query = useQuery({
    ...paged, // the page stays when the visitor logs in
    queryKey: [mode, "portal", workspace, slug],
    queryFn: () => get<PortalProgram>(`/api/v1/portal/programs/${encodeURIComponent(workspace)}/${encodeURIComponent(slug)}?mode=${mode}`),
  });
  const { data: program, error } = query;
  if (!program) {
    if (!error) return <Waiting />;
    const isMissing = error instanceof TributaryError && error.status === 404;
    return (
      <Frame title={isMissing ? t.errors.missing : t.product} about={isMissing && t.join.missing}>
        {!isMissing && <Failure error={error} retry={() => void query.refetch()} />}
        <LinkButton href="/">{t.errors.home}</LinkButton>
      </Frame>
    );
  }
  const { branding } = program;
  if (!branding) return null;
  return (
    <Branded
      branding={branding}
      mode={mode}
      title={program.name}
      about={t.programs.by(branding.name)}
      actions={login.status === "in" && <LinkButton href="/">{t.account.toHome}</LinkButton>}
    >
      <div className={css.columns}>
        <Introduction program={program} />
        {login.status === "in" ? <Joining program={program} user={login.user} /> : <Visiting program={program} />}
      </div>
    </Branded>
  );
}

/** The first step of an application: an account. */
function Visiting({ program }: { program: PortalProgram }) {
  const { t } = useTexts();
  const byInvitation = program.registrationNeedsInvitation;
  return (
    <Card title={t.join.title}>
      <p>{program.autoApprovePartners ? t.join.atOnce : t.join.reviewed}</p>
      {byInvitation && <Notice>{t.join.needsInvitation}</Notice>}
      <Account isNew canRegister={!byInvitation} />
    </Card>
  );
}

/** The application, or the link of a partner who takes part. */
function Joining({ program: offer, user }: { program: PortalProgram; user: User }) {
  const { t } = useTexts();
  const [done, changed] = useProgramChanges();
  const query = useProgram(offer.id);
  return (
    <div className={kit.page}>
      {done && <Done key={done}>{done}</Done>}
      <LoggedInAs email={user.email} />
      <Loaded query={query}>
        {(program) => (
          <Taking
            program={program}
            onChanged={changed}
            apply={
              <Card title={t.programs.applyTitle(program.name)}>
                <p>{offer.autoApprovePartners ? t.join.atOnce : t.join.reviewed}</p>
                <ApplicationForm program={offer} onChanged={changed} />
              </Card>
            }
          />
        )}
      </Loaded>
      {!user.emailVerified && (
        <Notice tone="warn" action={<ResendVerification />}>
          {t.home.unverified}
        </Notice>
      )}
    </div>
  );
}
