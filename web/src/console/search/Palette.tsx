import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Autocomplete } from "react-aria-components/Autocomplete";
import { Header } from "react-aria-components/Header";
import { Input } from "react-aria-components/Input";
import { Menu, MenuItem, MenuSection } from "react-aria-components/Menu";
import { SearchField } from "react-aria-components/SearchField";

import { unwrap, useApp } from "../../app/app";
import { paged, type Schemas } from "../../app/data";
import { Dialog } from "../../kit/dialog";
import { Failure } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";
import { addressOf } from "./address";

/** The time without a key after which a text is searched, in milliseconds. */
const pause = 200;

/** The search over all records: by name, address, code, number or id. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const [text, setText] = useState("");
  const [q, setQ] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setQ(text.trim()), pause);
    return () => clearTimeout(timer);
  }, [text]);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "search", q],
    queryFn: async () => unwrap(await api.GET("/api/v1/search", { params: { query: { q } } })).hits,
    enabled: q.length >= 2,
  });
  const hits = q.length >= 2 ? (query.data ?? []) : [];
  return (
    <Dialog title={t.search.title} open onClose={onClose}>
      <Autocomplete inputValue={text} onInputChange={setText}>
        <SearchField aria-label={t.search.title} className={kit.field} autoFocus>
          <Input className={kit.input} placeholder={t.search.hint} maxLength={200} />
        </SearchField>
        {query.isError && <Failure error={query.error} retry={() => void query.refetch()} />}
        <Menu
          aria-label={t.search.results}
          className={`${kit.options} ${kit.results}`}
          onAction={onClose}
          renderEmptyState={() => <p className={kit.muted}>{q.length >= 2 && query.isSuccess && !query.isFetching ? t.search.none : t.search.about}</p>}
        >
          {kindsOf(hits).map(([kind, found]) => (
            <MenuSection key={kind}>
              <Header className={kit.label}>{t.search.kinds[kind]}</Header>
              {found.map((hit) => (
                <MenuItem key={hit.id} id={`${kind} ${hit.id}`} href={addressOf(hit)} textValue={hit.title} className={kit.option}>
                  {hit.title} {hit.subtitle && <span className={kit.muted}>{hit.subtitle}</span>}
                </MenuItem>
              ))}
            </MenuSection>
          ))}
        </Menu>
      </Autocomplete>
    </Dialog>
  );
}

type Hit = Schemas["SearchHit"];
type Kind = NonNullable<Hit["kind"]>;

/** The records by their kinds, in the order of the service. */
function kindsOf(hits: Hit[]): [Kind, Hit[]][] {
  const kinds = new Map<Kind, Hit[]>();
  for (const hit of hits) if (hit.kind) kinds.set(hit.kind, [...(kinds.get(hit.kind) ?? []), hit]);
  return [...kinds];
}
