import { ResendVerification } from "../../app/account/ResendVerification";
import type { User } from "../../app/session";
import { Done, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { type PortalProgram, useProgram, useProgramChanges } from "../data";
import { ApplicationForm, Taking } from "../programs/Join";
import { useTexts } from "../texts";
import { LoggedInAs } from "./Account";

/** The application, or the link of a partner who takes part. */
export default function Joining({ program: offer, user }: { program: PortalProgram; user: User }) {
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
          {t.account.unverified}
        </Notice>
      )}
    </div>
  );
}
