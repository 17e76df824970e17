import { ExternalLink } from "../../kit/controls";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { type Offer, rateOf } from "../data";
import { useTexts } from "../texts";
import { rulesOf } from "./rules";

/** What the merchant says about a programme, and its conditions. */
export function Introduction({ program }: { program: Offer }) {
  return (
    <div className={kit.page}>
      {program.description && <p className={kit.text}>{program.description}</p>}
      {program.publicText && <p className={kit.text}>{program.publicText}</p>}
      <Conditions program={program} />
    </div>
  );
}

/** The rate of a programme with its rules, when the money is paid, and the terms. */
export function Conditions({ program }: { program: Offer }) {
  const { t, f } = useTexts();
  const rules = program.commissionRules;
  const sentences = rulesOf(program, t, f);
  const hold = rules?.holdPeriodDays;
  return (
    <Card title={t.programs.facts}>
      <Facts
        rows={[
          [t.programs.rate, rateOf(program, t, f) + (program.participation?.commissionRate ? ` (${t.rate.own})` : "")],
          [
            t.programs.rules,
            sentences.length === 0 ? null : (
              <ul className={kit.rules}>
                {sentences.map((sentence) => (
                  <li key={sentence}>{sentence}</li>
                ))}
              </ul>
            ),
          ],
          [t.programs.window, t.programs.days(program.attributionWindowDays)],
          [t.programs.hold, hold === null || hold === undefined ? null : t.programs.days(hold)],
          [t.programs.approval, rules?.autoApproval === false ? t.programs.manual : t.programs.automatic],
          [t.programs.minimum, program.minPayoutCents > 0 ? f.money(program.minPayoutCents, program.currency) : null],
          [t.programs.term, program.payoutTermDays > 0 ? t.programs.days(program.payoutTermDays) : t.programs.termNone],
          [t.programs.website, program.websiteUrl && <ExternalLink href={program.websiteUrl}>{program.websiteUrl}</ExternalLink>],
          [t.programs.terms, (program.termsUrl || program.termsText) && <TermsOf program={program} />],
        ]}
      />
    </Card>
  );
}

function TermsOf({ program }: { program: Offer }) {
  const { t } = useTexts();
  if (program.termsUrl) return <ExternalLink href={program.termsUrl}>{t.programs.openTerms}</ExternalLink>;
  return (
    <details>
      <summary>{t.programs.openTerms}</summary>
      <p className={kit.text}>{program.termsText}</p>
    </details>
  );
}
