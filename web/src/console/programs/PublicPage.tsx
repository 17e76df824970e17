import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { useInstance } from "../../app/data";
import { Choice } from "../../kit/choices";
import { Checkbox, ExternalLink, TextField } from "../../kit/controls";
import { Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { CopyText } from "../../kit/sharing";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { type Program, useUpdate } from "./data";
import { Questions } from "./Questions";

/** How partners see and join a programme: its page, the questions, and the terms. */
export function PublicPage({ program }: { program: Program }) {
  const { t } = useTexts();
  const can = useCan();
  const canChange = can("UpdateProgram") && program.status !== "archived";
  return (
    <>
      <Address program={program} />
      {canChange ? (
        <>
          <Presentation program={program} />
          <Questions program={program} />
          <Terms program={program} />
        </>
      ) : (
        <Card title={t.page.presentation}>
          <Facts
            rows={[
              [t.page.description, program.description && <span className={kit.text}>{program.description}</span>],
              [t.page.text, program.publicText && <span className={kit.text}>{program.publicText}</span>],
              [t.page.questions, program.applicationQuestions.map(({ label }) => label).join("; ")],
              [t.page.terms, program.termsUrl ?? (program.termsText && <span className={kit.text}>{program.termsText}</span>)],
            ]}
          />
        </Card>
      )}
    </>
  );
}

function Address({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const instance = useInstance();
  const query = useQuery({
    queryKey: [mode, "branding"],
    queryFn: async () => unwrap(await api.GET("/api/v1/workspace/branding")),
  });
  return (
    <Card title={t.page.address}>
      {!program.isPublic && <Notice>{t.page.notPublic}</Notice>}
      {program.isPublic && program.status !== "active" && <Notice tone="warn">{t.page.notActive}</Notice>}
      <Loaded query={query}>
        {({ slug }) => {
          const portal = instance?.portalUrl ?? `${location.origin}/portal`;
          const address = `${portal}${mode === "test" ? "/test" : ""}/${slug}/${program.slug}`;
          return (
            <>
              <CopyText label={t.page.address} text={address} />
              {program.isPublic && (
                <p>
                  <ExternalLink href={address}>{t.page.open}</ExternalLink>
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Presentation({ program }: { program: Program }) {
  const { t } = useTexts();
  const update = useUpdate(program);
  const [saved, setSaved] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ slug = "", description, publicText, isPublic, autoApprovePartners }) => {
        setSaved(false);
        await update({
          ...(slug !== program.slug && { slug: slug || null }),
          description: description || null,
          publicText: publicText || null,
          isPublic: isPublic !== undefined,
          autoApprovePartners: autoApprovePartners !== undefined,
        });
        setSaved(true);
      },
      [program.slug, update],
    ),
  );
  return (
    <Card title={t.page.presentation}>
      <Form state={state} label={t.save}>
        <Checkbox name="isPublic" defaultSelected={program.isPublic}>
          {t.page.isPublic}
        </Checkbox>
        <Checkbox name="autoApprovePartners" defaultSelected={program.autoApprovePartners}>
          {t.page.autoApprove}
        </Checkbox>
        <TextField name="slug" label={t.page.slug} hint={t.page.slugHint} defaultValue={program.slug} maxLength={64} />
        <TextField name="description" label={t.page.description} hint={t.page.descriptionHint} lines defaultValue={program.description ?? ""} maxLength={2000} />
        <TextField name="publicText" label={t.page.text} hint={t.page.textHint} lines defaultValue={program.publicText ?? ""} maxLength={5000} />
        {saved && <Notice tone="good">{t.saved}</Notice>}
      </Form>
    </Card>
  );
}

function Terms({ program }: { program: Program }) {
  const { t, f } = useTexts();
  const update = useUpdate(program);
  const [saved, setSaved] = useState(false);
  const [kind, setKind] = useState<string>(program.termsText ? "text" : program.termsUrl ? "url" : "none");
  const state = useSubmit(
    useCallback(
      async ({ termsUrl, termsText }) => {
        setSaved(false);
        await update({ termsUrl: (kind === "url" && termsUrl) || null, termsText: (kind === "text" && termsText) || null });
        setSaved(true);
      },
      [kind, update],
    ),
  );
  return (
    <Card title={t.page.terms}>
      <p className={kit.muted}>{program.termsVersion > 0 ? t.page.termsVersion(f.number(program.termsVersion)) : t.page.termsNever}</p>
      <Form state={state} label={t.save}>
        <Choice
          label={t.page.termsKind}
          options={[
            ["none", t.page.termsKinds.none],
            ["url", t.page.termsKinds.url],
            ["text", t.page.termsKinds.text],
          ]}
          value={kind}
          onChange={setKind}
        />
        {kind === "url" && <TextField name="termsUrl" type="url" label={t.page.termsUrl} defaultValue={program.termsUrl ?? ""} placeholder="https://" maxLength={2048} isRequired />}
        {kind === "text" && <TextField name="termsText" lines label={t.page.termsText} defaultValue={program.termsText ?? ""} maxLength={20000} isRequired />}
        {kind !== "none" && <p className={kit.muted}>{t.page.termsHint}</p>}
        {saved && <Notice tone="good">{t.saved}</Notice>}
      </Form>
    </Card>
  );
}
