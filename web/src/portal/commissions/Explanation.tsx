import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";

/** The sentences of the service about the attribution of a sale, which are in English. */
export function Explanation({ text }: { text: string | null }) {
  const { t } = useTexts();
  if (!text) return null;
  return (
    <p className={`${kit.muted} ${kit["small-text"]}`}>
      {t.commissions.explanation} <span lang="en">{text}</span>
    </p>
  );
}
