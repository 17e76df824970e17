import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { I18nProvider } from "react-aria-components/I18nProvider";

import type en from "../i18n/en";
import { Format } from "../i18n/format";

/** The texts that both applications have. app has those that differ between the applications. */
export type Texts = typeof en & {
  app: {
    /** The name of the application. */
    name: string;
    /** The title of the login. */
    login: string;
    /** The title of the page that creates an account. */
    register: string;
    /** Who uses the other application, and the link to it. */
    other: string;
    toOther: string;
    /** What the erasure of an account does. */
    eraseHint: string;
    /** What an export of the account contains, and the button that requests it. */
    exportHint: string;
    exportStart: string;
    /** What notifications are about. */
    noNotificationsHint: string;
    /** The names of the categories of notifications. */
    categories: Record<string, string>;
  };
};

/** The texts of an application. Those in German are loaded when they are used. */
export interface AppTexts {
  en: Texts;
  de: () => Promise<Texts>;
}

/** The languages of the pages, by their codes. */
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

interface Value<T extends Texts> {
  /** The texts in the user's language. */
  t: T;
  f: Format;
  language: Language;
  /** Changes the language and remembers it in this browser. */
  setLanguage: (language: Language) => void;
  /** Changes the language until the page is loaded again. */
  showLanguage: (language: Language) => void;
}

const TextsContext = createContext<Value<Texts> | null>(null);

/** Returns the texts of the application in the user's language, and the formats of the language. */
export function useTextsOf<T extends Texts>(): Value<T> {
  const value = useContext(TextsContext);
  if (!value) throw new Error("useTexts is used outside TextsProvider");
  return value as Value<T>;
}

/** Like useTextsOf, for components of both applications. */
export const useTexts = useTextsOf<Texts>;

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

/** Shows the times of the pages in a time zone. Without one, they are in that of the browser. */
export function InTimeZone({ timeZone, children }: { timeZone: string | undefined; children: ReactNode }) {
  const value = useTexts();
  const zoned = useMemo(() => ({ ...value, f: new Format(value.language, timeZone) }), [value, timeZone]);
  return <TextsContext value={zoned}>{children}</TextsContext>;
}

/** Provides the texts and formats. It renders nothing until the texts of the language are loaded. */
export function TextsProvider({ texts, children }: { texts: AppTexts; children: ReactNode }) {
  const [language, showLanguage] = useState(initialLanguage);
  const [loaded, setLoaded] = useState<{ language: Language; texts: Texts } | null>(language === "en" ? { language, texts: texts.en } : null);
  useEffect(() => {
    document.documentElement.lang = language;
    let current = true;
    const loading = language === "de" ? texts.de() : Promise.resolve(texts.en);
    void loading.then((texts) => current && setLoaded({ language, texts }));
    return () => void (current = false);
  }, [language, texts]);
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
