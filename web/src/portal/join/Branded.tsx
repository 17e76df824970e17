import type { ReactNode } from "react";

import { Frame } from "../../app/account/Frame";
import css from "../../app/account/frame.module.css";
import type { Mode } from "../../app/app";
import shell from "../../app/shell.module.css";
import { type Language, languages } from "../../app/texts";
import { Button, ExternalLink } from "../../kit/controls";
import { Skeleton } from "../../kit/feedback";
import { Page } from "../../kit/page";
import type { Branding } from "../data";
import { useTexts } from "../texts";
import { logoOf, useBranding } from "./branding";

/** A page of a merchant: with the logo, the colour and the links of the merchant, and in the merchant's language. */
export function Branded({
  branding,
  mode,
  title,
  about,
  actions,
  children,
}: {
  branding: Branding;
  mode: Mode | null;
  title: string;
  about: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const { t } = useTexts();
  const ready = useBranding(branding);
  const logo = logoOf(branding);
  if (!ready) return <Waiting />;
  return (
    <div className={css.branded}>
      <header>
        {mode === "test" && <div className={shell.test}>{t.nav.test}</div>}
        <div className={css.logo}>{logo ? <img src={logo} alt={branding.name} /> : <span className={shell.brand}>{branding.name}</span>}</div>
      </header>
      <main>
        <Page title={title} site={branding.name} about={about} actions={actions}>
          {children}
        </Page>
      </main>
      <Foot branding={branding} />
    </div>
  );
}

/** The page while it is being loaded, as it is until its scripts are loaded. */
export function Waiting() {
  const { t } = useTexts();
  return (
    <Frame title={t.app.name}>
      <Skeleton />
    </Frame>
  );
}

/** The merchant's links, and the other languages of the page. */
function Foot({ branding }: { branding: Branding }) {
  const { t, language, setLanguage } = useTexts();
  const { websiteUrl, termsUrl, privacyUrl, supportEmail } = branding;
  const others = (Object.entries(languages) as [Language, string][]).filter(([code]) => code !== language);
  return (
    <footer>
      {websiteUrl && <ExternalLink href={websiteUrl}>{t.join.website}</ExternalLink>}
      {termsUrl && <ExternalLink href={termsUrl}>{t.join.merchantTerms}</ExternalLink>}
      {privacyUrl && <ExternalLink href={privacyUrl}>{t.join.privacy}</ExternalLink>}
      {supportEmail && <a href={`mailto:${supportEmail}`}>{t.join.support(supportEmail)}</a>}
      {others.map(([code, name]) => (
        <Button key={code} kind="plain" small onPress={() => setLanguage(code)}>
          <span lang={code}>{name}</span>
        </Button>
      ))}
    </footer>
  );
}
