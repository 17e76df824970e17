import { useParameter } from "../../app/address";
import { Page, Tabs } from "../../kit/page";
import { useTexts } from "../texts";
import { Breakdown } from "./Breakdown";
import { Cohorts } from "./Cohorts";
import { Development } from "./Development";
import { Funnel } from "./Funnel";

const tabs = { development: Development, breakdown: Breakdown, funnel: Funnel, cohorts: Cohorts };
type Tab = keyof typeof tabs;

/** The numbers about clicks, conversions, revenue and commissions in all their forms. */
export default function Analytics() {
  const { t } = useTexts();
  const [show] = useParameter("show", "development");
  const Part = tabs[show in tabs ? (show as Tab) : "development"];
  return (
    <Page title={t.analytics.title} about={t.analytics.about}>
      <Tabs label={t.analytics.title} keep={["program", "days"]} tabs={(Object.keys(tabs) as Tab[]).map((tab): [string, string] => [tab, t.analytics.tabs[tab]])} />
      <Part />
    </Page>
  );
}
