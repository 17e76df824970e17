import { CopyText, QrCode } from "../../kit/sharing";
import type { PartnerLink } from "../data";
import { useTexts } from "../texts";

/** The address of a link to copy, its long address if the first one is short, and its QR code. */
export function ShareLink({
  label,
  link,
  code,
  showQr = false,
}: {
  label: string;
  link: Pick<PartnerLink, "url" | "shortUrl">;
  /** The name of the files with the QR code. */
  code: string;
  /** Whether the QR code is shown at once. */
  showQr?: boolean;
}) {
  const { t } = useTexts();
  const address = link.shortUrl ?? link.url;
  return (
    <>
      <CopyText label={label} text={address} />
      {link.shortUrl && (
        <details>
          <summary>{t.links.long}</summary>
          <CopyText label={t.links.long} text={link.url} />
        </details>
      )}
      <details open={showQr}>
        <summary>{t.links.qr}</summary>
        <QrCode text={address} name={code} />
      </details>
    </>
  );
}
