import { lazy, Suspense, useEffect, useState } from "react";
import { Button } from "react-aria-components/Button";

import css from "../../app/shell.module.css";
import { Icon } from "../../kit/icons";
import { useCan } from "../can";
import { useTexts } from "../texts";

const Palette = lazy(() => import("./Palette"));

/** The button and the key that open the search over all records. */
export function Search() {
  const { t } = useTexts();
  const can = useCan();
  const [open, setOpen] = useState(false);
  const isAllowed = can("Search");
  useEffect(() => {
    if (!isAllowed) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen(true);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [isAllowed]);
  if (!isAllowed) return null;
  return (
    <>
      <Button className={css.tool} aria-label={t.search.open} onPress={() => setOpen(true)}>
        <Icon name="search" />
      </Button>
      {open && (
        <Suspense>
          <Palette onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
