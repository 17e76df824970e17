import { useParameter } from "../../app/address";
import { useTexts } from "../../app/texts";
import { Page, Tabs } from "../../kit/page";
import { Email } from "./Email";
import { Password } from "./Password";
import { Privacy } from "./Privacy";
import { Display, Profile } from "./Profile";
import { SecondFactor } from "./SecondFactor";
import { Sessions } from "./Sessions";

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
          <Password />
          <SecondFactor />
          <Sessions />
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
