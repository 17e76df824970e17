import { useEffect, useState } from "react";
import { renderSVG } from "uqr";

import { useTexts } from "../app/texts";
import { Button } from "./controls";
import css from "./kit.module.css";

/** A button that copies a text, and says so, or that the browser does not allow it. */
export function CopyButton({ text, label, kind }: { text: string; label?: string; kind?: "primary" }) {
  const { t } = useTexts();
  const [result, setResult] = useState<string | null>(null);
  useEffect(() => {
    if (!result) return;
    const timer = setTimeout(() => setResult(null), 2500);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setResult(t.copied);
    } catch {
      setResult(t.notCopied);
    }
  };
  return (
    <Button kind={kind} onPress={() => void copy()}>
      <span aria-live="polite">{result ?? label ?? t.copy}</span>
    </Button>
  );
}

/** A text to copy. Where the system has a menu for sharing, it offers it too. */
export function CopyText({ label, text }: { label: string; text: string }) {
  const { t } = useTexts();
  const canShare = typeof navigator.share === "function";
  return (
    <div className={css.copy}>
      <input className={css.input} readOnly value={text} aria-label={label} onFocus={(event) => event.currentTarget.select()} />
      <CopyButton kind="primary" text={text} />
      {canShare && <Button onPress={() => void navigator.share({ url: text }).catch(() => {})}>{t.share}</Button>}
    </div>
  );
}

/** The address of the image of a QR code. */
export function qrAddress(text: string): string {
  return `data:image/svg+xml;utf8,${encodeURIComponent(renderSVG(text, { border: 1 }))}`;
}

/** The QR code of an address, with downloads as SVG and PNG. */
export function QrCode({ text, name }: { text: string; name: string }) {
  const { t } = useTexts();
  const address = qrAddress(text);
  const png = async () => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1024;
    const context = canvas.getContext("2d");
    if (!context) return;
    context.imageSmoothingEnabled = false;
    context.drawImage(image, 0, 0, 1024, 1024);
    download(canvas.toDataURL("image/png"), `${name}.png`);
  };
  return (
    <div className={css.form}>
      <img className={css.qr} src={address} alt={t.qr.alt(text)} />
      <div className={css.actions}>
        <Button small onPress={() => download(address, `${name}.svg`)}>
          SVG
        </Button>
        <Button small onPress={() => void png()}>
          PNG
        </Button>
      </div>
    </div>
  );
}

/** Saves the content of an address as a file. */
export function download(address: string, file: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = file;
  link.click();
}

/** Saves data as a file. */
export function saveFile(data: Blob, file: string): void {
  const address = URL.createObjectURL(data);
  download(address, file);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
