import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { Refusal, unwrap, useApp } from "../../app/app";
import { Button } from "../../kit/controls";
import { Done, Failure } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { Confirm } from "../decision";
import { useTexts } from "../texts";
import type { Branding } from "./Branding";
import { logoPath } from "./Preview";

/** The largest file that the service accepts, in bytes. */
const maxSize = 256 * 1024;

/** The logo: upload, replace and delete. */
export function Logo({ branding }: { branding: Branding }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const input = useRef<HTMLInputElement>(null);
  const [asking, setAsking] = useState(false);
  const [done, setDone] = useState("");
  const upload = useMutation({
    mutationFn: async (file: File) => {
      setDone("");
      if (file.size > maxSize) throw new Refusal(t.branding.logoTooLarge);
      // The body of the request is the file itself.
      const options = { body: file as unknown as string, bodySerializer: (body: unknown) => body as BodyInit, headers: { "Content-Type": file.type || "image/png" } };
      queries.setQueryData([mode, "branding"], unwrap(await api.PUT("/api/v1/workspace/branding/logo", options)));
      setDone(t.branding.logoStored);
    },
  });
  const remove = useMutation({
    mutationFn: async () => {
      unwrap(await api.DELETE("/api/v1/workspace/branding/logo"));
      await queries.invalidateQueries({ queryKey: [mode, "branding"] });
      setDone(t.branding.logoDeleted);
    },
  });
  const error = upload.error ?? remove.error;
  return (
    <Card title={t.branding.logo}>
      <p className={kit.muted}>{t.branding.logoHint}</p>
      {branding.logoUrl && (
        <div className={kit.previews}>
          <figure data-page="light">
            <img src={logoPath(branding.logoUrl)} alt={t.branding.logo} />
          </figure>
        </div>
      )}
      {error && <Failure error={error} />}
      {done && <Done key={done}>{done}</Done>}
      <div className={kit.actions}>
        <Button isPending={upload.isPending} onPress={() => input.current?.click()}>
          {branding.logoUrl ? t.branding.logoReplace : t.branding.logoUpload}
        </Button>
        {branding.logoUrl && (
          <Button kind="danger" onPress={() => setAsking(true)}>
            {t.branding.logoDelete}
          </Button>
        )}
        <input
          ref={input}
          type="file"
          accept="image/png,image/webp"
          hidden
          aria-label={t.branding.logoUpload}
          onChange={({ target }) => {
            const chosen = target.files?.[0];
            target.value = "";
            if (chosen) upload.mutate(chosen);
          }}
        />
      </div>
      {asking && (
        <Confirm
          title={t.branding.logoDelete}
          hint={t.branding.logoDeleteHint}
          label={t.branding.logoDelete}
          danger
          onConfirm={async () => void (await remove.mutateAsync().catch(() => {}))}
          onClose={() => setAsking(false)}
        />
      )}
    </Card>
  );
}
