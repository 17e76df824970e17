import { type ReactNode, useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";

import type { Schemas } from "../../app/data";
import { decimal, exponent, minorUnits } from "../../i18n/format";
import { Choice, Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Loaded, Notice } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { useUpdateWorkspace, useWorkspace, type Workspace } from "./data";
import { SettingsPage } from "./SettingsPage";

/** The settings of the workspace. Members who may not change them read them. */
export default function WorkspaceSettings() {
  const { t } = useTexts();
  const can = useCan();
  const query = useWorkspace();
  return (
    <SettingsPage title={t.workspace.title} about={t.workspace.about}>
      <Loaded query={query}>{(workspace) => (can("UpdateWorkspace") ? <Settings workspace={workspace} /> : <Values workspace={workspace} />)}</Loaded>
    </SettingsPage>
  );
}

function Values({ workspace }: { workspace: Workspace }) {
  const { t, f } = useTexts();
  const { name, timezone, currency, requireSecondFactor, booksClosedUntil, retainPayeeYears, testMailRedirect } = workspace;
  const above = workspace.payoutApproval?.secondPersonAboveCents;
  return (
    <Card title={t.workspace.general}>
      <Facts
        rows={[
          [t.form.name, name],
          [t.workspace.timezone, timezone],
          [t.workspace.currency, currency],
          [t.workspace.secondFactor, requireSecondFactor ? t.workspace.required.name : t.workspace.free.name],
          [t.workspace.approval, above === null || above === undefined ? t.workspace.onePerson : t.workspace.twoPersons(f.money(above, currency))],
          [t.workspace.books, booksClosedUntil ? t.workspace.closedUntil(f.time(booksClosedUntil)) : t.workspace.open],
          [t.workspace.retain, t.workspace.years(retainPayeeYears)],
          [t.workspace.testMail, testMailRedirect],
        ]}
      />
    </Card>
  );
}

type Update = Schemas["UpdateWorkspaceRequest"];

/** Settings that are saved together. read returns their new values. */
function Part({ title, hint, read, children }: { title: string; hint?: ReactNode; read: (values: Record<string, string>) => Update; children: ReactNode }) {
  const { t } = useTexts();
  const update = useUpdateWorkspace();
  const [saved, setSaved] = useState(false);
  const state = useSubmit(
    useCallback(
      async (values) => {
        setSaved(false);
        await update(read(values));
        setSaved(true);
      },
      [read, update],
    ),
  );
  return (
    <Card title={title}>
      {hint && <p className={kit.muted}>{hint}</p>}
      <Form state={state} label={t.save}>
        {children}
        {saved && <Notice tone="good">{t.saved}</Notice>}
      </Form>
    </Card>
  );
}

function Settings({ workspace }: { workspace: Workspace }) {
  const { t } = useTexts();
  return (
    <>
      <General workspace={workspace} />
      <Part title={t.workspace.secondFactor} read={({ requireSecondFactor }) => ({ requireSecondFactor: requireSecondFactor === "true" })}>
        <Choice
          name="requireSecondFactor"
          label={t.workspace.secondFactorLabel}
          options={[
            ["false", t.workspace.free.name, t.workspace.free.hint],
            ["true", t.workspace.required.name, t.workspace.required.hint],
          ]}
          defaultValue={String(workspace.requireSecondFactor)}
        />
      </Part>
      <Approval workspace={workspace} />
      <Books workspace={workspace} />
      <Part title={t.workspace.retain} read={({ retainPayeeYears }) => ({ retainPayeeYears: Number(retainPayeeYears) })}>
        <TextField
          name="retainPayeeYears"
          type="number"
          inputMode="numeric"
          label={t.workspace.retainLabel}
          hint={t.workspace.retainHint}
          defaultValue={String(workspace.retainPayeeYears)}
          isRequired
        />
      </Part>
      <Part title={t.workspace.testMail} read={({ testMailRedirect }) => ({ testMailRedirect: testMailRedirect || null })}>
        <TextField
          name="testMailRedirect"
          type="email"
          label={`${t.form.email} (${t.form.optional})`}
          hint={t.workspace.testMailHint}
          defaultValue={workspace.testMailRedirect ?? ""}
        />
      </Part>
      <Card title={t.workspace.elsewhere}>
        <ul className={kit.rules}>
          <li>
            <Link href="/settings/branding">{t.workspace.slugElsewhere}</Link>
          </li>
          <li>
            <Link href="/settings/tracking">{t.workspace.originsElsewhere}</Link>
          </li>
        </ul>
      </Card>
    </>
  );
}

function General({ workspace }: { workspace: Workspace }) {
  const { t } = useTexts();
  const [zones] = useState(() => [...new Set(["UTC", workspace.timezone, ...Intl.supportedValuesOf("timeZone")])].map((zone): [string, string] => [zone, zone.replaceAll("_", " ")]));
  return (
    <Part
      title={t.workspace.general}
      read={({ name = "", timezone = "", currency = "" }) => ({ name, timezone, currency: currency.trim().toUpperCase() })}
    >
      <TextField name="name" label={t.form.name} hint={t.workspace.nameHint} defaultValue={workspace.name} maxLength={100} isRequired />
      <Select name="timezone" label={t.workspace.timezone} hint={t.workspace.timezoneHint} options={zones} defaultValue={workspace.timezone} />
      <TextField name="currency" label={t.workspace.currency} hint={t.workspace.currencyHint} defaultValue={workspace.currency} maxLength={3} isRequired />
    </Part>
  );
}

function Approval({ workspace }: { workspace: Workspace }) {
  const { t } = useTexts();
  const { currency } = workspace;
  const above = workspace.payoutApproval?.secondPersonAboveCents;
  const field = "payoutApproval.secondPersonAboveCents";
  const read = (values: Record<string, string>): Update => {
    const text = values[field] ?? "";
    const secondPersonAboveCents = text.trim() ? minorUnits(text, exponent(currency)) : null;
    if (text.trim() && secondPersonAboveCents === null) throw new FieldFault(field, t.form.amountWrong);
    return { payoutApproval: { secondPersonAboveCents } };
  };
  return (
    <Part title={t.workspace.approval} hint={t.workspace.approvalHint} read={read}>
      <TextField
        name={field}
        inputMode="decimal"
        label={t.workspace.above(currency)}
        hint={t.workspace.aboveHint}
        defaultValue={above === null || above === undefined ? "" : decimal(above, exponent(currency))}
      />
    </Part>
  );
}

/** The closed periods. A period cannot be opened again, so a dialog asks. */
function Books({ workspace }: { workspace: Workspace }) {
  const { t, f } = useTexts();
  const update = useUpdateWorkspace();
  const [asking, setAsking] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ booksClosedUntil = "" }) => {
        await update({ booksClosedUntil });
        setAsking(false);
      },
      [update],
    ),
  );
  return (
    <Card title={t.workspace.books} action={<Button onPress={() => setAsking(true)}>{t.workspace.close}</Button>}>
      <p>{workspace.booksClosedUntil ? t.workspace.closedUntil(f.time(workspace.booksClosedUntil)) : t.workspace.open}</p>
      <p className={kit.muted}>{t.workspace.booksHint}</p>
      <Dialog title={t.workspace.close} open={asking} onClose={() => setAsking(false)}>
        <Form state={state} label={t.workspace.close} kind="danger" secondary={<Button onPress={() => setAsking(false)}>{t.cancel}</Button>}>
          <p>{t.workspace.closeHint}</p>
          <TextField name="booksClosedUntil" type="date" label={t.workspace.lastDay} isRequired autoFocus />
        </Form>
      </Dialog>
    </Card>
  );
}
