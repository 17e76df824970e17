import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";

import { Display } from "../../app/account/Display";
import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import type { Language } from "../../app/texts";
import { Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { useProfile } from "../data";
import { useTexts } from "../texts";
import { countries } from "./countries";

/** What merchants see of the partner. */
export function Profile() {
  const { t } = useTexts();
  const profile = useProfile();
  return (
    <Card title={t.profile.title}>
      <p className={kit.muted}>{t.profile.hint}</p>
      <Loaded query={profile}>{(profile) => <ProfileForm profile={profile} />}</Loaded>
    </Card>
  );
}

function ProfileForm({ profile }: { profile: Schemas["PartnerProfile"] }) {
  const { api, mode, session } = useApp();
  const { t, language } = useTexts();
  const queries = useQueryClient();
  const [saved, setSaved] = useState(false);
  const options = useMemo((): [string, string][] => [["", t.profile.noCountry], ...countries(language)], [language, t]);
  const state = useSubmit(
    useCallback(
      async ({ name = "", companyName, websiteUrl, country }) => {
        setSaved(false);
        const body = { name, companyName: companyName || null, websiteUrl: websiteUrl || null, country: country || null };
        const changed = unwrap(await api.PATCH("/api/v1/partner/profile", { body }));
        queries.setQueryData([mode, "profile"], changed);
        session.change({ name: changed.name });
        setSaved(true);
      },
      [api, mode, queries, session],
    ),
  );
  return (
    <Form state={state} label={t.save}>
      {saved && <Notice tone="good">{t.saved}</Notice>}
      <TextField name="name" label={t.form.name} defaultValue={profile.name} autoComplete="name" maxLength={100} isRequired />
      <TextField
        name="companyName"
        label={`${t.profile.company} (${t.form.optional})`}
        defaultValue={profile.companyName ?? ""}
        autoComplete="organization"
        maxLength={200}
      />
      <TextField
        name="websiteUrl"
        type="url"
        label={`${t.profile.website} (${t.form.optional})`}
        placeholder="https://"
        defaultValue={profile.websiteUrl ?? ""}
        autoComplete="url"
        maxLength={2048}
      />
      <Select name="country" label={t.profile.country} options={options} defaultValue={profile.country ?? ""} autoComplete="country" />
    </Form>
  );
}

/** The language of the partner's account, and the appearance of the pages. */
export function PartnerDisplay() {
  const { api, mode, session } = useApp();
  const queries = useQueryClient();
  const saveLanguage = async (locale: Language) => {
    const changed = unwrap(await api.PATCH("/api/v1/partner/profile", { body: { locale } }));
    queries.setQueryData([mode, "profile"], changed);
    session.change({ locale: changed.locale });
  };
  return <Display saveLanguage={saveLanguage} />;
}
