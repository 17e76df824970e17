import { Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";
import { shadeOf } from "./shades";

/** The address of a logo on the host of the page, which is the only one that pages may load from. */
export function logoPath(address: string): string {
  return address.slice(Math.max(0, address.indexOf("/api/v1/")));
}

/** The pages of the portal, light and dark, with the name and the colour that the fields have now. */
export function Preview({ name, colour, logoUrl }: { name: string; colour: string; logoUrl: string | null }) {
  const { t } = useTexts();
  const text = colour.trim().toLowerCase();
  const pages = (["light", "dark"] as const).map((page) => ({ page, shade: shadeOf(text, page) }));
  const changed = pages.filter(({ shade }) => shade && shade.color !== text);
  return (
    <div role="group" aria-label={t.branding.preview} className={kit.form}>
      <p className={kit.hint}>{t.branding.previewHint}</p>
      <div className={kit.previews}>
        {pages.map(({ page, shade }) => (
          <figure key={page} data-page={page}>
            {logoUrl ? <img src={logoPath(logoUrl)} alt={name} /> : <strong>{name}</strong>}
            <span style={shade ? { background: shade.color, color: shade.textColor } : undefined}>{t.branding.button}</span>
            <u style={shade ? { textDecorationColor: shade.color } : undefined}>{t.branding.link}</u>
            <figcaption>{t.branding.pages[page]}</figcaption>
          </figure>
        ))}
      </div>
      {changed.map(({ page, shade }) => (
        <Notice key={page} tone="warn">
          {t.branding.adjusted[page](shade?.color ?? "")}
        </Notice>
      ))}
    </div>
  );
}
