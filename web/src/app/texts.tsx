import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { I18nProvider } from "react-aria-components/I18nProvider";

import en from "../i18n/en";
import { Format } from "../i18n/format";

export type Texts = typeof en;

/** The languages of the pages, by their codes. German is loaded when it is used. */
export const languages = { en: "English", de: "Deutsch" };
export type Language = keyof typeof languages;

const stored = "tributary-language";

function chosenLanguage(): Language | undefined {
  const code = localStorage.getItem(stored) ?? "";
  return code in languages ? (code as Language) : undefined;
}

/** The language that the user has chosen, otherwise the first of the browser's that the pages have. */
function initialLanguage(): Language {
  const wanted = navigator.languages.map((tag) => tag.slice(0, 2));
  return chosenLanguage() ?? (wanted.find((code) => code in languages) as Language | undefined) ?? "en";
}

interface Value {
  /** The texts in the user's language. */
  t: Texts;
  f: Format;
  language: Language;
  /** Changes the language and remembers it in this browser. */
  setLanguage: (language: Language) => void;
  /** Changes the language until the page is loaded again. */
  showLanguage: (language: Language) => void;
}

const TextsContext = createContext<Value | null>(null);

export function useTexts(): Value {
  const value = useContext(TextsContext);
  if (!value) throw new Error("useTexts is used outside TextsProvider");
  return value;
}

/**
 * Shows the page in a language if the user has chosen none. Returns whether the texts are in the
 * language that the page is going to have.
 */
export function useDefaultLanguage(wanted: Language | null | undefined): boolean {
  const { language, showLanguage } = useTexts();
  const next = chosenLanguage() ?? wanted ?? language;
  useEffect(() => showLanguage(next), [next, showLanguage]);
  return language === next;
}

/** Provides the texts and formats. It renders nothing until the texts of the language are loaded. */
export function TextsProvider({ children }: { children: ReactNode }) {
  const [language, showLanguage] = useState(initialLanguage);
  const [loaded, setLoaded] = useState<{ language: Language; texts: Texts } | null>(language === "en" ? { language, texts: en } : null);
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
      showLanguage(language);
    };
    return { t: loaded.texts, f: new Format(loaded.language), language: loaded.language, setLanguage, showLanguage };
  }, [loaded]);
  if (!value) return null;
  return (
    <I18nProvider locale={value.language === "de" ? "de-DE" : "en-US"}>
      <TextsContext value={value}>{children}</TextsContext>
    </I18nProvider>
  );
}
