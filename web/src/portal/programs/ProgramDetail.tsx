import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useParams } from "wouter";

import { useApp } from "../../app/app";
import { useTexts } from "../../app/texts";
import { Done, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Page } from "../../kit/page";
import { useProgram } from "../data";
import { Apply, Taking } from "./Join";
import { Conditions } from "./Conditions";
import { ProgramBadge } from "./Programs";

export default function ProgramDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const [done, setDone] = useState("");
  const query = useProgram(id);
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
            <Taking program={program} onChanged={changed} apply={<Apply program={program} onChanged={changed} />} />
            <Conditions program={program} />
          </>
        )}
      </Loaded>
    </Page>
  );
}
