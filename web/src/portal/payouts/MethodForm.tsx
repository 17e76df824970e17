import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useLocation } from "wouter";

import { confirmed } from "../../app/account/secrets";
import { unwrap, useApp } from "../../app/app";
import { Choice } from "../../kit/choices";
import { LinkButton, TextField } from "../../kit/controls";
import { Notice } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import { Card, Page } from "../../kit/page";
import { useTexts } from "../texts";
import { looksLikeIban, validIban } from "./iban";
import { Proof } from "./Proof";

const methods = ["paypal", "bank_transfer", "wise", "manual", "store_credit"] as const;
type Method = (typeof methods)[number];

/** How the partner is paid. The password confirms a change, or a code if the account has a second factor. */
export default function MethodForm() {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [method, setMethod] = useState<Method>("paypal");
  const state = useSubmit(
    useCallback(
      async ({ account = "", accountHolder, password, code }) => {
        if (method === "bank_transfer" && looksLikeIban(account) && !validIban(account)) throw new FieldFault("account", t.payouts.ibanWrong);
        const proof = code ? { code } : { password };
        const body = { method, ...(account && { account }), ...(accountHolder && { accountHolder }), ...proof };
        await confirmed(t, code ? ["code"] : ["password"], async () => unwrap(await api.PATCH("/api/v1/partner/payout-method", { body })));
        await queries.invalidateQueries({ queryKey: [mode, "profile"] });
        navigate("/payouts");
      },
      [api, method, mode, navigate, queries, t],
    ),
  );
  const account = { paypal: t.payouts.accountPaypal, wise: t.payouts.accountWise, bank_transfer: t.payouts.accountBank, manual: "", store_credit: "" }[method];
  return (
    <Page title={t.payouts.formTitle} about={t.payouts.formHint}>
      <Card>
        <Form state={state} label={t.save} secondary={<LinkButton href="/payouts">{t.cancel}</LinkButton>}>
          <Choice
            label={t.payouts.formMethod}
            options={methods.map((method) => [method, t.method[method]])}
            value={method}
            onChange={(value) => setMethod(value as Method)}
          />
          {account && (
            <TextField
              key={method}
              name="account"
              type={method === "bank_transfer" ? "text" : "email"}
              label={account}
              autoComplete="off"
              isRequired
            />
          )}
          {method === "bank_transfer" && <TextField name="accountHolder" label={t.payouts.holder} autoComplete="name" isRequired />}
          <Notice>{t.payouts.rule}</Notice>
          <Proof />
        </Form>
      </Card>
    </Page>
  );
}
