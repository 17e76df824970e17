import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";

/** How many of several calls are done. */
export function Progress({ done, count }: { done: number; count: number }) {
  const { t, f } = useTexts();
  const text = t.payouts.progress(f.number(done), f.number(count));
  return (
    <div className={kit.form}>
      <progress value={done} max={count} aria-label={text} />
      <span className={kit.muted}>{text}</span>
    </div>
  );
}
