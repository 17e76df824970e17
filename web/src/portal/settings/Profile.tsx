import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { type Language, languages, useTexts } from "../../app/texts";
import { setTheme, type Theme, theme } from "../../app/theme";
import { Choice, Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { Failure, Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { type Schemas, useProfile } from "../data";
import { countries } from "./countries";

/** What merchants see of the partner. */
export function Profile() {
  const { t } = useTexts();
  const profile = useProfile();
  return (
    <Card title={t.settings.profile}>
      <p className={kit.muted}>{t.settings.profileHint}</p>
      <Loaded query={profile}>{(profile) => <ProfileForm profile={profile} />}</Loaded>
    </Card>
  );
}

function ProfileForm({ profile }: { profile: Schemas["PartnerProfile"] }) {
  const { api, mode, session } = useApp();
  const { t, language } = useTexts();
  const queries = useQueryClient();
  const [saved, setSaved] = useState(false);
  const options = useMemo((): [string, string][] => [["", t.settings.noCountry], ...countries(language)], [language, t]);
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
        label={`${t.settings.company} (${t.form.optional})`}
        defaultValue={profile.companyName ?? ""}
        autoComplete="organization"
        maxLength={200}
      />
      <TextField
        name="websiteUrl"
        type="url"
        label={`${t.settings.website} (${t.form.optional})`}
        placeholder="https://"
        defaultValue={profile.websiteUrl ?? ""}
        autoComplete="url"
        maxLength={2048}
      />
      <Select name="country" label={t.settings.country} options={options} defaultValue={profile.country ?? ""} autoComplete="country" />
    </Form>
  );
}

/** The language, which is part of the account too, and the appearance of the pages in this browser. */
export function Display() {
  const { api, mode, session } = useApp();
  const { t, language, setLanguage } = useTexts();
  const queries = useQueryClient();
  const [chosen, setChosen] = useState(theme);
  const save = useMutation({
    mutationFn: async (locale: Language) => unwrap(await api.PATCH("/api/v1/partner/profile", { body: { locale } })),
    onSuccess: (changed) => {
      queries.setQueryData([mode, "profile"], changed);
      session.change({ locale: changed.locale });
    },
  });
  const choose = (value: string) => {
    setTheme(value as Theme);
    setChosen(value as Theme);
  };
  return (
    <Card title={t.settings.display}>
      {save.isError && <Failure error={save.error} retry={() => save.mutate(language)} />}
      <Choice
        label={t.nav.language}
        options={Object.entries(languages)}
        value={language}
        onChange={(code) => {
          setLanguage(code as Language);
          save.mutate(code as Language);
        }}
      />
      <Choice
        label={t.nav.appearance}
        options={[
          ["system", t.nav.system],
          ["light", t.nav.light],
          ["dark", t.nav.dark],
        ]}
        value={chosen}
        onChange={choose}
      />
    </Card>
  );
}
