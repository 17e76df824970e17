import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { type Schemas, useInstance } from "../../app/data";
import { languages } from "../../app/texts";
import { Choice } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useCan } from "../can";
import { useWorkspace } from "../settings/data";
import { SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";
import { Logo } from "./Logo";
import { Preview } from "./Preview";

export type Branding = Schemas["Branding"];

/** How the workspace presents itself to partners. */
export default function BrandingSettings() {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const query = useQuery({ queryKey: [mode, "branding"], queryFn: async () => unwrap(await api.GET("/api/v1/workspace/branding")) });
  return (
    <SettingsPage title={t.branding.title} about={t.branding.about}>
      <Loaded query={query}>
        {(branding) =>
          can("PutBranding") ? (
            <>
              <Settings branding={branding} />
              <Logo branding={branding} />
            </>
          ) : (
            <Values branding={branding} />
          )
        }
      </Loaded>
    </SettingsPage>
  );
}

function Values({ branding }: { branding: Branding }) {
  const { t } = useTexts();
  const name = useName(branding.portalName);
  const { slug, accentColor, supportEmail, websiteUrl, termsUrl, privacyUrl, locale } = branding;
  return (
    <Card title={t.branding.presentation}>
      <Facts
        rows={[
          [t.branding.name, name],
          [t.branding.slug, slug],
          [t.branding.colour, accentColor],
          [t.branding.support, supportEmail],
          [t.branding.website, websiteUrl],
          [t.branding.terms, termsUrl],
          [t.branding.privacy, privacyUrl],
          [t.branding.locale, locale && languages[locale]],
        ]}
      />
      <Preview name={name} colour={accentColor ?? ""} logoUrl={branding.logoUrl} />
    </Card>
  );
}

/** The name that partners see. */
function useName(portalName: string | null): string {
  const workspace = useWorkspace();
  return portalName || workspace.data?.name || "";
}

/** The names of the fields that an empty text sets to their default. */
const optional = ["portalName", "accentColor", "supportEmail", "websiteUrl", "termsUrl", "privacyUrl"] as const;

function Settings({ branding }: { branding: Branding }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const portal = `${useInstance()?.portalUrl ?? `${location.origin}/portal`}${mode === "test" ? "/test" : ""}`;
  const [portalName, setPortalName] = useState(branding.portalName ?? "");
  const [slug, setSlug] = useState(branding.slug);
  const [colour, setColour] = useState(branding.accentColor ?? "");
  const [saved, setSaved] = useState(false);
  const name = useName(portalName);
  const state = useSubmit(
    useCallback(
      async (values) => {
        setSaved(false);
        const body = {
          ...Object.fromEntries(optional.map((field) => [field, values[field]?.trim() || null])),
          slug: values.slug ?? "",
          locale: values.locale === "de" ? ("de" as const) : ("en" as const),
        };
        queries.setQueryData([mode, "branding"], unwrap(await api.PUT("/api/v1/workspace/branding", { body })));
        setSaved(true);
      },
      [api, mode, queries],
    ),
  );
  return (
    <Card title={t.branding.presentation}>
      <Form state={state} label={t.save}>
        <TextField
          name="portalName"
          label={`${t.branding.name} (${t.form.optional})`}
          hint={t.branding.nameHint}
          value={portalName}
          onChange={setPortalName}
          maxLength={100}
        />
        <TextField name="slug" label={t.branding.slug} hint={t.branding.slugHint(`${portal}/${slug}`)} value={slug} onChange={setSlug} maxLength={40} isRequired />
        {slug !== branding.slug && <Notice tone="warn">{t.branding.slugChanges}</Notice>}
        <div className={kit.swatch}>
          <TextField name="accentColor" label={`${t.branding.colour} (${t.form.optional})`} hint={t.branding.colourHint} value={colour} onChange={setColour} maxLength={7} />
          <input
            type="color"
            aria-label={t.branding.pick}
            value={/^#[0-9a-f]{6}$/i.test(colour) ? colour : "#888888"}
            onChange={({ target }) => setColour(target.value)}
          />
        </div>
        <Preview name={name} colour={colour} logoUrl={branding.logoUrl} />
        <TextField name="supportEmail" type="email" label={`${t.branding.support} (${t.form.optional})`} hint={t.branding.supportHint} defaultValue={branding.supportEmail ?? ""} />
        {(["website", "terms", "privacy"] as const).map((link) => (
          <TextField
            key={link}
            name={`${link}Url`}
            type="url"
            label={`${t.branding[link]} (${t.form.optional})`}
            hint={t.branding.linkHints[link]}
            placeholder="https://"
            defaultValue={branding[`${link}Url`] ?? ""}
            maxLength={2048}
          />
        ))}
        <Choice
          name="locale"
          label={t.branding.locale}
          options={[
            ["en", languages.en],
            ["de", languages.de],
          ]}
          defaultValue={branding.locale ?? "en"}
        />
        {saved && <Notice tone="good">{t.saved}</Notice>}
      </Form>
    </Card>
  );
}
