import { useMutation } from "@tanstack/react-query";

import { Button, LinkButton } from "../../kit/controls";
import { Done, Failure } from "../../kit/feedback";
import { Card } from "../../kit/page";
import type { Schemas } from "../data";
import { useTexts } from "../texts";

/** The export of personal data as a file. start requests it. */
export function ExportCard({ hint, label, start }: { hint: string; label: string; start: () => Promise<Schemas["Export"]> }) {
  const { t, f } = useTexts();
  const request = useMutation({ mutationFn: start });
  const { download_url: address, expires_at: expiry, filename, status } = request.data ?? {};
  return (
    <Card title={t.settings.exportTitle}>
      <p>{hint}</p>
      {request.isError && <Failure error={request.error} retry={() => request.mutate()} />}
      {address && <Done>{t.settings.exportReady(expiry ? f.time(expiry) : "")}</Done>}
      {status && <Done tone="info">{t.settings.exportWaits}</Done>}
      <p>
        {address ? (
          <LinkButton kind="primary" href={address} download={filename}>
            {t.settings.exportDownload}
          </LinkButton>
        ) : (
          <Button isPending={request.isPending} onPress={() => request.mutate()}>
            {status ? t.errors.retry : label}
          </Button>
        )}
      </p>
    </Card>
  );
}
