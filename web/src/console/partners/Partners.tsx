import { useParameter } from "../../app/address";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { LinkButton } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Tabs } from "../../kit/page";
import { useCan } from "../can";
import { usePrograms } from "../data";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";
import { AddButtons } from "./AddDialog";
import { Applications } from "./Applications";
import { Invitations } from "./Invitations";
import { List } from "./List";

export type Program = Schemas["Program"];

/** The partners of all programmes or of one, the applications, and the open invitations. */
export default function Partners() {
  const { t } = useTexts();
  const can = useCan();
  const programs = usePrograms();
  const [wanted] = useParameter("program");
  const [show] = useParameter("show", "partners");
  return (
    <Page
      title={t.partners.title}
      about={t.partners.about}
      actions={programs.data && programs.data.length > 0 && can("InviteParticipant") && <AddButtons programs={programs.data} programId={wanted} />}
    >
      <Loaded query={programs}>
        {(programs) => {
          const [first] = programs;
          if (!first) {
            return (
              <Card>
                <Empty title={t.partners.noProgram} action={<LinkButton href="/programs/new">{t.partners.createProgram}</LinkButton>}>
                  {t.partners.noProgramHint}
                </Empty>
              </Card>
            );
          }
          const programId = wanted || (programs.length === 1 ? first.id : "");
          return (
            <>
              <Tabs
                label={t.partners.title}
                keep={["program"]}
                tabs={[
                  ["partners", t.partners.tabs.partners],
                  ["applications", t.partners.tabs.applications],
                  ["invitations", t.partners.tabs.invitations],
                ]}
              />
              {show === "applications" ? (
                <>
                  {programs.length > 1 && (
                    <div className={kit.filters}>
                      <ProgramFilter />
                    </div>
                  )}
                  <Applications key={programId} programId={programId} />
                </>
              ) : show === "invitations" ? (
                <>
                  <ProgramSelect programs={programs} programId={programId || first.id} />
                  <Invitations programId={programId || first.id} />
                </>
              ) : (
                <List key={programId} programId={programId} />
              )}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

/** The choice of the one programme whose records a list has. */
function ProgramSelect({ programs, programId }: { programs: Program[]; programId: string }) {
  const { t } = useTexts();
  const [, setProgram] = useParameter("program");
  if (programs.length < 2) return null;
  return (
    <div className={kit.filters}>
      <Select label={t.filter.program} options={programs.map(({ id, name }): [string, string] => [id, name])} value={programId} onChange={(key) => setProgram(String(key))} />
    </div>
  );
}
