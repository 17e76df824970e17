import { useParameter } from "../../app/address";
import { useTexts } from "../../app/texts";
import { Page, Tabs } from "../../kit/page";
import { Privacy } from "./Privacy";
import { Display, Profile } from "./Profile";
import { Email } from "./Email";
import { SecondFactor } from "./SecondFactor";

export default function Settings() {
  const { t } = useTexts();
  const [show] = useParameter("show", "profile");
  return (
    <Page title={t.settings.title}>
      <Tabs
        label={t.settings.title}
        tabs={[
          ["profile", t.settings.profile],
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
      return (
        <>
          <Email />
          <SecondFactor />
        </>
      );
    case "privacy":
      return <Privacy />;
    default:
      return (
        <>
          <Profile />
          <Display />
        </>
      );
  }
}
