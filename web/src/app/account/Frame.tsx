import { type ReactNode, useEffect, useRef } from "react";

import { useTexts } from "../texts";
import css from "./frame.module.css";

/** The frame of the pages without a menu: a card in the middle. */
export function Frame({ title, about, children }: { title: string; about?: ReactNode; children: ReactNode }) {
  const { t } = useTexts();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · ${t.app.name}`;
    heading.current?.focus({ preventScroll: true });
  }, [title, t]);
  return (
    <main className={css.frame}>
      <div className={css.card}>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {about && <p className={css.about}>{about}</p>}
        {children}
      </div>
    </main>
  );
}
