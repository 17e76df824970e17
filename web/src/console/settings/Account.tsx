import { useCallback, useState } from "react";

import { Display } from "../../app/account/Display";
import { Privacy } from "../../app/account/Privacy";
import { Security } from "../../app/account/Security";
import { useParameter } from "../../app/address";
import { unwrap, useApp, useSession } from "../../app/app";
import type { Language } from "../../app/texts";
import { TextField } from "../../kit/controls";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { Card, Facts, Page, Tabs } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";

/** The account of the member: name, language, login, and personal data. */
export default function Account() {
  const { t } = useTexts();
  const can = useCan();
  const [show] = useParameter("show", "profile");
  const tabs: [string, string][] = [
    ["profile", t.profile.title],
    ["security", t.settings.security],
  ];
  if (can("ExportMerchantAccount")) tabs.push(["privacy", t.settings.privacy]);
  return (
    <Page title={t.profile.account}>
      <Tabs label={t.profile.account} tabs={tabs} />
      {show === "security" ? <Security /> : show === "privacy" ? <Privacy canErase={can("EraseMerchantAccount")} /> : <Profile />}
    </Page>
  );
}

function Profile() {
  const { api, session } = useApp();
  const saveLanguage = async (locale: Language) => {
    unwrap(await api.PATCH("/api/v1/auth/merchant/account", { body: { locale } }));
    session.change({ locale });
  };
  return (
    <>
      <Name />
      <Display saveLanguage={saveLanguage} />
    </>
  );
}

function Name() {
  const { api, session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const [saved, setSaved] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ name = "" }) => {
        setSaved(false);
        const user = unwrap(await api.PATCH("/api/v1/auth/merchant/account", { body: { name } }));
        session.change({ name: user.name });
        setSaved(true);
      },
      [api, session],
    ),
  );
  if (login.status !== "in") return null;
  const { user, workspace } = login;
  return (
    <Card title={t.profile.title}>
      <Facts
        rows={[
          [t.profile.workspace, workspace?.name],
          [t.profile.role, user.role && t.roles[user.role]],
        ]}
      />
      <Form state={state} label={t.save}>
        {saved && <Notice tone="good">{t.saved}</Notice>}
        <TextField name="name" label={t.form.name} defaultValue={user.name} autoComplete="name" maxLength={100} isRequired />
      </Form>
    </Card>
  );
}
