import { useCallback, useRef, useState } from "react";

import { exponent } from "../../i18n/format";
import { Choice, Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done, Notice } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { type Program, useUpdate } from "./data";
import { Example, type Preview, unchanged, useConcerned } from "./Example";
import { EventFields, ProductFields, RateFields, TierFields } from "./RuleFields";
import { bases, changesOf, fieldText, isComplete, readTerms, type Terms, termsOf, wordsOf } from "./terms";
import { Versions } from "./Versions";

/** The rules of a programme, with a worked example and the earlier versions. */
export function Rules({ program }: { program: Program }) {
  const { t, f } = useTexts();
  const can = useCan();
  const [saves, setSaves] = useState(0);
  const [form, setForm] = useState(0);
  const canChange = can("UpdateProgram") && program.status !== "archived";
  const start = () => setForm(form + 1);
  return (
    <>
      {saves > 0 && <Done key={saves}>{t.saved}</Done>}
      {canChange ? (
        <RulesForm
          key={form}
          current={program}
          onReload={start}
          onSaved={() => {
            setSaves(saves + 1);
            start();
          }}
        />
      ) : (
        <Card title={t.programs.tabs.rules}>
          <Facts rows={wordsOf(termsOf(program), program.currency, t, f)} />
        </Card>
      )}
      <Versions program={program} />
    </>
  );
}

/** The form begins with the rules at the time when it was opened, so what others change meanwhile stays. */
function RulesForm({ current, onReload, onSaved }: { current: Program; onReload: () => void; onSaved: () => void }) {
  const { t } = useTexts();
  const [program] = useState(current);
  const terms = termsOf(program);
  const { currency } = program;
  const rules = terms.commissionRules;
  const digits = exponent(currency);
  const fields = useRef<HTMLDivElement>(null);
  const update = useUpdate(program);
  const [asked, setAsked] = useState<{ terms: Terms; answer: (save: boolean) => void } | null>(null);
  const [preview, setPreview] = useState<Preview | null>(unchanged);
  const [note, setNote] = useState("");
  const state = useSubmit(
    useCallback(
      async (values) => {
        const next = readTerms(values, currency, (name) => new FieldFault(name, t.form.amountWrong));
        const changes = changesOf(termsOf(program), next);
        setNote(Object.keys(changes).length > 0 ? "" : t.rules.unchanged);
        if (Object.keys(changes).length === 0) return;
        const save = await new Promise<boolean>((answer) => setAsked({ terms: next, answer }));
        setAsked(null);
        if (!save) return;
        await update(changes);
        onSaved();
      },
      [currency, onSaved, program, t, update],
    ),
  );
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // The example follows the fields, also those with faults: the service says what is wrong when the form is sent.
  const changed = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const form = fields.current?.closest("form");
      if (form) setPreview(previewOf(form, program));
    }, 400);
  };
  const days = { inputMode: "numeric", maxLength: 4 } as const;
  return (
    <div onChange={changed} onBlur={changed}>
      <Form state={state} label={t.rules.check}>
        {current.rulesVersion !== program.rulesVersion && (
          <Notice
            tone="warn"
            action={
              <Button small onPress={onReload}>
                {t.rules.reload}
              </Button>
            }
          >
            {t.rules.changedMeanwhile}
          </Notice>
        )}
        <div ref={fields} className={kit.page}>
          <Card title={t.rules.headings.rate}>
            <p className={kit.muted}>{t.rules.order}</p>
            <RateFields terms={terms} currency={currency} />
            <Select name="commissionRules.netBasis" label={t.rules.base} hint={t.rules.baseHint} options={bases.map((basis): [string, string] => [basis, t.rules.bases[basis]])} defaultValue={rules.netBasis ?? "net_of_tax"} />
          </Card>
          <Card title={t.rules.headings.events}>
            <p className={kit.muted}>{t.rules.eventsHint}</p>
            <EventFields terms={terms} currency={currency} />
          </Card>
          <Card title={t.rules.headings.products}>
            <p className={kit.muted}>{t.rules.productsHint}</p>
            <ProductFields terms={terms} currency={currency} />
          </Card>
          <Card title={t.rules.headings.tiers}>
            <p className={kit.muted}>{t.rules.tiersHint}</p>
            <TierFields terms={terms} currency={currency} />
          </Card>
          <Card title={t.rules.headings.later}>
            <Choice
              name="commissionRules.recurring.enabled"
              label={t.rules.recurring}
              options={[
                ["true", t.rules.yes, t.rules.recurringHint.yes],
                ["false", t.rules.no, t.rules.recurringHint.no],
              ]}
              defaultValue={String(rules.recurring?.enabled !== false)}
            />
            <TextField name="commissionRules.laterPercentage" inputMode="decimal" label={t.rules.later} hint={t.rules.laterHint} defaultValue={rules.laterPercentage === null ? "" : String(rules.laterPercentage)} />
            <TextField {...days} name="commissionRules.recurring.maxMonths" label={t.rules.months} hint={t.rules.monthsHint} defaultValue={fieldText(rules.recurring?.maxMonths, 0)} />
            <TextField {...days} name="commissionRules.recurring.maxPayments" label={t.rules.payments} hint={t.rules.paymentsHint} defaultValue={fieldText(rules.recurring?.maxPayments, 0)} />
          </Card>
          <Card title={t.rules.headings.limits}>
            <TextField name="commissionRules.minOrderCents" inputMode="decimal" label={`${t.rules.minimum} (${currency})`} hint={t.rules.minimumHint} defaultValue={fieldText(rules.minOrderCents, digits)} />
            <TextField name="commissionRules.capCents" inputMode="decimal" label={`${t.rules.cap} (${currency})`} hint={t.rules.capHint} defaultValue={fieldText(rules.capCents, digits)} />
          </Card>
          <Card title={t.rules.headings.attribution}>
            <TextField {...days} name="attributionWindowDays" label={t.rules.window} hint={t.rules.windowHint} defaultValue={String(terms.attributionWindowDays)} isRequired />
            <Choice
              name="attributionModel"
              label={t.rules.model}
              options={[
                ["last_click", t.rules.models.last_click, t.rules.modelHints.last_click],
                ["first_click", t.rules.models.first_click, t.rules.modelHints.first_click],
              ]}
              defaultValue={terms.attributionModel ?? "last_click"}
            />
            <Choice
              name="signalPrecedence"
              label={t.rules.precedence}
              options={[
                ["click_first", t.rules.precedences.click_first, t.rules.precedenceHints.click_first],
                ["promo_code_first", t.rules.precedences.promo_code_first, t.rules.precedenceHints.promo_code_first],
              ]}
              defaultValue={terms.signalPrecedence ?? "click_first"}
            />
          </Card>
          <Card title={t.rules.headings.payment}>
            <TextField {...days} name="commissionRules.holdPeriodDays" label={t.rules.hold} hint={t.rules.holdHint} defaultValue={fieldText(rules.holdPeriodDays, 0)} isRequired />
            <Choice
              name="commissionRules.autoApproval"
              label={t.rules.approval}
              options={[
                ["true", t.rules.approvals.automatic, t.rules.approvalHints.automatic],
                ["false", t.rules.approvals.manual, t.rules.approvalHints.manual],
              ]}
              defaultValue={String(rules.autoApproval !== false)}
            />
            <TextField name="minPayoutCents" inputMode="decimal" label={`${t.rules.minPayout} (${currency})`} hint={t.rules.minPayoutHint} defaultValue={fieldText(terms.minPayoutCents, digits)} />
            <TextField {...days} name="payoutTermDays" label={t.rules.term} hint={t.rules.termHint} defaultValue={String(terms.payoutTermDays)} />
          </Card>
          <Example program={program} preview={preview} />
        </div>
        {note && <Notice key={note}>{note}</Notice>}
      </Form>
      {asked && <SaveDialog program={program} wanted={asked.terms} onAnswer={asked.answer} />}
    </div>
  );
}

/** What the fields say now: the changed rules and the example. It is null while the rules are not complete. */
function previewOf(form: HTMLFormElement, program: Program): Preview | null {
  const values: Record<string, string> = {};
  for (const [name, value] of new FormData(form)) values[name] = String(value);
  try {
    const terms = readTerms(values, program.currency, (name) => new Error(name));
    if (!isComplete(terms)) return null;
    const rules = changesOf(termsOf(program), terms).commissionRules ?? {};
    return { rules, amount: values["example.amount"] ?? "", payment: values["example.payment"] ?? "", event: values["example.event"] ?? "" };
  } catch {
    return null;
  }
}

/** Names what a save changes, and for whom. */
function SaveDialog({ program, wanted, onAnswer }: { program: Program; wanted: Terms; onAnswer: (save: boolean) => void }) {
  const { t, f } = useTexts();
  const concerned = useConcerned(program);
  const before = new Map(wordsOf(termsOf(program), program.currency, t, f));
  const changes = wordsOf(wanted, program.currency, t, f).filter(([name, text]) => before.get(name) !== text);
  return (
    <Dialog title={t.rules.saveTitle} open onClose={() => onAnswer(false)}>
      <Facts rows={changes.map(([name, text]) => [name, t.rules.change(before.get(name) ?? "", text)])} />
      <p>{t.rules.saveEffect(f.number(program.rulesVersion))}</p>
      {concerned && concerned.groupRate + concerned.ownRate > 0 && <p>{t.rules.others(f.number(concerned.programRate), f.number(concerned.groupRate), f.number(concerned.ownRate))}</p>}
      <div className={kit.actions}>
        <Button kind="primary" onPress={() => onAnswer(true)}>
          {t.save}
        </Button>
        <Button onPress={() => onAnswer(false)}>{t.cancel}</Button>
      </div>
    </Dialog>
  );
}
