import { useParams } from "wouter";

import { useParameter } from "../../app/address";
import { LinkButton } from "../../kit/controls";
import { Loaded } from "../../kit/feedback";
import { Page, Tabs } from "../../kit/page";
import { useTexts } from "../texts";
import { Announcements } from "./Announcements";
import { type Program, useProgram } from "./data";
import { FraudPolicy } from "./FraudPolicy";
import { Groups } from "./Groups";
import { Links } from "./Links";
import { ProgramOverview } from "./ProgramOverview";
import { PromoCodes } from "./PromoCodes";
import { PublicPage } from "./PublicPage";
import { Rules } from "./Rules";

const tabs = ["overview", "rules", "groups", "links", "codes", "page", "announcements", "fraud"] as const;

/** A programme with all its parts. */
export default function ProgramDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { t } = useTexts();
  const query = useProgram(id);
  return (
    <Page
      title={query.data?.name ?? t.programs.title}
      about={query.data?.description}
      actions={<LinkButton href={`/partners?program=${id}`}>{t.programs.partners}</LinkButton>}
    >
      <Tabs label={t.programs.parts} tabs={tabs.map((tab): [string, string] => [tab, t.programs.tabs[tab]])} />
      <Loaded query={query}>{(program) => <Part program={program} />}</Loaded>
    </Page>
  );
}

function Part({ program }: { program: Program }) {
  const [show] = useParameter("show", "overview");
  switch (show) {
    case "rules":
      return <Rules program={program} />;
    case "groups":
      return <Groups program={program} />;
    case "links":
      return <Links program={program} />;
    case "codes":
      return <PromoCodes program={program} />;
    case "page":
      return <PublicPage program={program} />;
    case "announcements":
      return <Announcements program={program} />;
    case "fraud":
      return <FraudPolicy program={program} />;
    default:
      return <ProgramOverview program={program} />;
  }
}
