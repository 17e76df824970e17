import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { I18nProvider } from "react-aria-components";

import en from "../i18n/en";
import { Format } from "../i18n/format";

export type Texts = typeof en;

/** The languages of the pages, by their codes. German is loaded when it is used. */
export const languages = { en: "English", de: "Deutsch" };
export type Language = keyof typeof languages;

const stored = "tributary-language";

/** The language that the user has chosen, otherwise the first of the browser's that the pages have. */
function initialLanguage(): Language {
  const wanted = [localStorage.getItem(stored) ?? "", ...navigator.languages].map((tag) => tag.slice(0, 2));
  return (wanted.find((code) => code in languages) as Language | undefined) ?? "en";
}

interface Value {
  /** The texts in the user's language. */
  t: Texts;
  f: Format;
  language: Language;
  setLanguage: (language: Language) => void;
}

const TextsContext = createContext<Value | null>(null);

export function useTexts(): Value {
  const value = useContext(TextsContext);
  if (!value) throw new Error("useTexts is used outside TextsProvider");
  return value;
}

/** Provides the texts and formats. It renders nothing until the texts of the language are loaded. */
export function TextsProvider({ children }: { children: ReactNode }) {
  const [language, choose] = useState(initialLanguage);
  const [loaded, setLoaded] = useState<{ language: Language; texts: Texts } | null>(null);
  useEffect(() => {
    document.documentElement.lang = language;
    let current = true;
    const texts = language === "de" ? import("../i18n/de").then((module) => module.default) : Promise.resolve(en);
    void texts.then((texts) => current && setLoaded({ language, texts }));
    return () => void (current = false);
  }, [language]);
  const value = useMemo(() => {
    if (!loaded) return null;
    const setLanguage = (language: Language) => {
      localStorage.setItem(stored, language);
      choose(language);
    };
    return { t: loaded.texts, f: new Format(loaded.language), language: loaded.language, setLanguage };
  }, [loaded]);
  if (!value) return null;
  return (
    <I18nProvider locale={value.language === "de" ? "de-DE" : "en-US"}>
      <TextsContext value={value}>{children}</TextsContext>
    </I18nProvider>
  );
}
