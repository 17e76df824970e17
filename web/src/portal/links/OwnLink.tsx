import type { ReactNode } from "react";

import { useTexts } from "../../app/texts";
import { Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Stat, Stats } from "../../kit/page";
import { CopyText, QrCode } from "../../kit/sharing";
import type { Program } from "../data";

/** The link that the partner got with a programme. */
export function OwnLink({
  program,
  title,
  action,
  showQr = false,
}: {
  program: Program;
  title: string;
  action?: ReactNode;
  /** Whether the QR code is shown at once. */
  showQr?: boolean;
}) {
  const { t, f } = useTexts();
  const own = program.participation;
  if (!own) return null;
  const address = own.shortUrl ?? own.url;
  return (
    <Card title={title} action={action}>
      {own.status === "pending" && <Notice tone="warn">{t.links.waiting}</Notice>}
      {(own.status === "rejected" || own.status === "suspended") && <Notice tone="bad">{t.status.participant[own.status]}</Notice>}
      <CopyText label={title} text={address} />
      {own.shortUrl && (
        <details>
          <summary>{t.links.long}</summary>
          <CopyText label={t.links.long} text={own.url} />
        </details>
      )}
      <details open={showQr}>
        <summary>{t.links.qr}</summary>
        <QrCode text={address} name={own.referralCode} />
      </details>
      <Stats>
        <Stat name={t.links.clicks} value={f.number(own.clicks)} />
        <Stat name={t.links.conversions} value={f.number(own.conversions)} />
        <Stat name={t.home.earnings} value={f.money(own.commissionCents, program.currency)} />
      </Stats>
      <p className={kit.muted}>{t.links.numbers}</p>
    </Card>
  );
}
