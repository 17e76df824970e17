import { useTexts } from "../../app/texts";
import { Page } from "../../kit/page";

export default function Home() {
  const { t } = useTexts();
  return <Page title={t.nav.home} />;
}
