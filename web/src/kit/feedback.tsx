import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";

import { Refusal, TributaryError } from "../app/app";
import { type Texts, useTexts } from "../app/texts";
import { Button } from "./controls";
import css from "./kit.module.css";

export type Tone = "info" | "good" | "warn" | "bad";

export function Notice({ tone = "info", action, children }: { tone?: Tone; action?: ReactNode; children: ReactNode }) {
  return (
    <div className={`${css.notice} ${css[`notice${tone}`] ?? ""}`} role={tone === "bad" ? "alert" : "status"}>
      <div>{children}</div>
      {action}
    </div>
  );
}

/** A notice about the result of an action. It takes the focus, because the button that had it is gone. */
export function Done({ tone = "good", children }: { tone?: Tone | undefined; children: ReactNode }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => element.current?.focus(), []);
  return (
    <div ref={element} tabIndex={-1}>
      <Notice tone={tone}>{children}</Notice>
    </div>
  );
}

export function Badge({ tone = "info", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`${css.badge} ${css[`badge${tone}`] ?? ""}`}>{children}</span>;
}

/** The sentence for an error: that of its code, otherwise what the service says. */
export function messageOf(error: unknown, t: Texts): string {
  if (error instanceof Refusal) return error.message;
  if (!(error instanceof TributaryError)) return t.errors.unreachable;
  const known = (t.errors.codes as Record<string, string>)[error.code];
  if (known) return known;
  return [error.message, ...error.details.map((detail) => detail.message)].join(" ");
}

/** What went wrong, the id of the request, and what the user can do. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { t } = useTexts();
  const refused = error instanceof TributaryError ? error : null;
  const seconds = useCountdown(refused?.status === 429 ? refused : null);
  return (
    <Notice
      tone="bad"
      action={
        retry && (
          <Button small onPress={retry} isDisabled={seconds > 0}>
            {t.errors.retry}
          </Button>
        )
      }
    >
      <p>
        {messageOf(error, t)} {seconds > 0 && t.errors.wait(seconds)}
      </p>
      {refused && refused.status >= 500 && refused.requestId && <p className={css["small-text"]}>{t.errors.request(refused.requestId)}</p>}
    </Notice>
  );
}

/** The seconds until a request over the limit can be repeated. */
function useCountdown(error: TributaryError | null): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!error) return setSeconds(0);
    let left = error.retryAfter ?? 30;
    setSeconds(left);
    const timer = setInterval(() => setSeconds(Math.max(0, --left)), 1000);
    return () => clearInterval(timer);
  }, [error]);
  return seconds;
}

export function Skeleton({ lines = 4 }: { lines?: number }) {
  const { t } = useTexts();
  return (
    <div className={css.skeleton} role="status" aria-label={t.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} />
      ))}
    </div>
  );
}

export function Empty({ title, action, children }: { title: string; action?: ReactNode; children?: ReactNode }) {
  return (
    <div className={css.empty}>
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** Shows the data of a query, or that it is being loaded, or why it could not be loaded. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && <Failure error={query.error} retry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} />;
  return <Skeleton />;
}
