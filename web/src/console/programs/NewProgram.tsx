import { useCallback, useState } from "react";
import { useLocation } from "wouter";

import { unwrap, useApp, useSession } from "../../app/app";
import { exponent, minorUnits } from "../../i18n/format";
import { Choice } from "../../kit/choices";
import { LinkButton, TextField } from "../../kit/controls";
import { Notice } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import { Card, Page } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { useReload } from "./data";

/** The form of a new programme. It asks for little; everything else has a default that can be changed later. */
export default function NewProgram() {
  const { api, session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const standard = login.status === "in" ? login.workspace?.currency : undefined;
  const [, navigate] = useLocation();
  const can = useCan();
  const reload = useReload();
  const [kind, setKind] = useState<"percentage" | "flat">("percentage");
  const state = useSubmit(
    useCallback(
      async ({ name = "", websiteUrl, currency, rate = "" }) => {
        const cents = minorUnits(rate, kind === "flat" ? exponent((currency || standard || "").toUpperCase()) : 2);
        if (cents === null) throw new FieldFault("rate", t.form.amountWrong);
        const commissionRules = kind === "flat" ? { commissionType: kind, flatAmountCents: cents } : { commissionType: kind, percentage: cents / 100 };
        const body = { name, commissionRules, ...(websiteUrl && { websiteUrl }), ...(currency && { currency: currency.toUpperCase() }) };
        const { id } = unwrap(await api.POST("/api/v1/programs", { body }));
        await reload();
        navigate(`/programs/${id}`);
      },
      [api, kind, navigate, reload, standard, t],
    ),
  );
  if (!can("CreateProgram")) {
    return (
      <Page title={t.programs.create}>
        <Notice>{t.programs.createForbidden}</Notice>
      </Page>
    );
  }
  return (
    <Page title={t.programs.create} about={t.programs.createHint}>
      <Card>
        <Form state={state} label={t.programs.create} secondary={<LinkButton href="/programs">{t.cancel}</LinkButton>}>
          <TextField name="name" label={t.form.name} hint={t.programs.nameHint} maxLength={100} isRequired />
          <TextField name="websiteUrl" type="url" label={t.programs.website} hint={t.programs.websiteHint} placeholder="https://" maxLength={2048} />
          <TextField name="currency" label={`${t.programs.currency} (${t.form.optional})`} hint={t.programs.currencyDefault} maxLength={3} />
          <Choice
            label={t.rules.rate}
            options={[
              ["percentage", t.rules.percentage],
              ["flat", t.rules.flat],
            ]}
            value={kind}
            onChange={(value) => setKind(value as typeof kind)}
          />
          <TextField
            name="rate"
            inputMode="decimal"
            label={kind === "flat" ? t.rules.amount : t.rules.percent}
            hint={t.programs.defaultsHint}
            defaultValue={kind === "percentage" ? "20" : ""}
            key={kind}
            isRequired
          />
        </Form>
      </Card>
    </Page>
  );
}
