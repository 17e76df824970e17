import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { Choice } from "../../kit/choices";
import { Failure } from "../../kit/feedback";
import { Card } from "../../kit/page";
import { type Language, languages, useTexts } from "../texts";
import { setTheme, type Theme, theme } from "../theme";

/** The language, which saveLanguage makes part of the account too, and the appearance of the pages in this browser. */
export function Display({ saveLanguage }: { saveLanguage: (language: Language) => Promise<void> }) {
  const { t, language, setLanguage } = useTexts();
  const [chosen, setChosen] = useState(theme);
  const save = useMutation({ mutationFn: saveLanguage });
  const choose = (value: string) => {
    setTheme(value as Theme);
    setChosen(value as Theme);
  };
  return (
    <Card title={t.settings.display}>
      {save.isError && <Failure error={save.error} retry={() => save.mutate(language)} />}
      <Choice
        label={t.nav.language}
        options={Object.entries(languages)}
        value={language}
        onChange={(code) => {
          setLanguage(code as Language);
          save.mutate(code as Language);
        }}
      />
      <Choice
        label={t.nav.appearance}
        options={[
          ["system", t.nav.system],
          ["light", t.nav.light],
          ["dark", t.nav.dark],
        ]}
        value={chosen}
        onChange={choose}
      />
    </Card>
  );
}
