import { useParams } from "wouter";

import { Done, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Page } from "../../kit/page";
import { useProgram, useProgramChanges } from "../data";
import { useTexts } from "../texts";
import { Conditions } from "./Conditions";
import { Apply, Taking } from "./Join";
import { ProgramBadge } from "./Programs";

export default function ProgramDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { t } = useTexts();
  const [done, changed] = useProgramChanges();
  const query = useProgram(id);
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
            <Taking program={program} onChanged={changed} apply={<Apply program={program} onChanged={changed} />} />
            <Conditions program={program} />
          </>
        )}
      </Loaded>
    </Page>
  );
}
