import { useParameter } from "../../app/address";
import { Select } from "../../kit/choices";
import { LinkButton } from "../../kit/controls";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useTexts } from "../texts";
import { Code } from "./Code";
import { curlCommand, goProgram, typescriptProgram } from "./snippets";

/** How the server of the merchant reports a conversion. */
export function Reporting() {
  const { t } = useTexts();
  const [language, setLanguage] = useParameter("code", "curl");
  const code = language === "typescript" ? typescriptProgram(location.origin) : language === "go" ? goProgram() : curlCommand(location.origin);
  return (
    <Card title={t.tracking.report} action={<LinkButton href="/settings/api-keys">{t.tracking.toKeys}</LinkButton>}>
      <p>{t.tracking.reportHint}</p>
      <div className={kit.filters}>
        <Select
          label={t.tracking.language}
          options={[
            ["curl", t.tracking.languages.curl],
            ["typescript", t.tracking.languages.typescript],
            ["go", t.tracking.languages.go],
          ]}
          value={language}
          onChange={(key) => setLanguage(String(key))}
        />
      </div>
      <Code label={t.tracking.report} code={code} />
      {language !== "curl" && <p className={kit.muted}>{t.tracking.clientHint}</p>}
      <h3>{t.tracking.fields}</h3>
      <Facts rows={(Object.keys(t.tracking.field) as (keyof typeof t.tracking.field)[]).map((name) => [name, t.tracking.field[name]])} />
    </Card>
  );
}
