import { Privacy } from "../../app/account/Privacy";
import { Security } from "../../app/account/Security";
import { useParameter } from "../../app/address";
import { Page, Tabs } from "../../kit/page";
import { useTexts } from "../texts";
import { PartnerDisplay, Profile } from "./Profile";

export default function Settings() {
  const { t } = useTexts();
  const [show] = useParameter("show", "profile");
  return (
    <Page title={t.settings.title}>
      <Tabs
        label={t.settings.title}
        tabs={[
          ["profile", t.profile.title],
          ["security", t.settings.security],
          ["privacy", t.settings.privacy],
        ]}
      />
      <Part show={show} />
    </Page>
  );
}

function Part({ show }: { show: string }) {
  switch (show) {
    case "security":
      return <Security />;
    case "privacy":
      return <Privacy />;
    default:
      return (
        <>
          <Profile />
          <PartnerDisplay />
        </>
      );
  }
}
