import kit from "../../kit/kit.module.css";
import { CopyButton } from "../../kit/sharing";

/** A program or a command to copy. */
export function Code({ label, code }: { label: string; code: string }) {
  return (
    <div className={kit.form}>
      <pre className={kit.pre} tabIndex={0} aria-label={label}>
        <code>{code}</code>
      </pre>
      <span>
        <CopyButton text={code} />
      </span>
    </div>
  );
}
