import type { ReactNode } from "react";

import { Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Stat, Stats } from "../../kit/page";
import type { Program } from "../data";
import { useTexts } from "../texts";
import { ShareLink } from "./ShareLink";

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
  return (
    <Card title={title} action={action}>
      {own.status === "pending" && <Notice tone="warn">{t.links.waiting}</Notice>}
      {(own.status === "rejected" || own.status === "suspended") && <Notice tone="bad">{t.status.participant[own.status]}</Notice>}
      <ShareLink label={title} link={own} code={own.referralCode} showQr={showQr} />
      <Stats>
        <Stat name={t.links.clicks} value={f.number(own.clicks)} />
        <Stat name={t.links.conversions} value={f.number(own.conversions)} />
        <Stat name={t.home.earnings} value={f.money(own.commissionCents, program.currency)} />
      </Stats>
      <p className={kit.muted}>{t.links.numbers}</p>
    </Card>
  );
}
