import { useParameter } from "../../app/address";
import { Tabs } from "../../kit/page";
import { SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";
import { Reporting } from "./Reporting";
import { Script } from "./Script";
import { Stripe } from "./Stripe";

/** How clicks and conversions reach the service. */
export default function Tracking() {
  const { t } = useTexts();
  const [show] = useParameter("show", "script");
  return (
    <SettingsPage title={t.tracking.title} about={t.tracking.about}>
      <Tabs
        label={t.tracking.title}
        tabs={[
          ["script", t.tracking.tabs.script],
          ["conversions", t.tracking.tabs.conversions],
          ["stripe", t.tracking.tabs.stripe],
        ]}
      />
      {show === "conversions" ? <Reporting /> : show === "stripe" ? <Stripe /> : <Script />}
    </SettingsPage>
  );
}
