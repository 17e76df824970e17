import type { Format } from "../../i18n/format";
import type { Schemas } from "../data";
import type { BrowserSession } from "../session";
import type { Language } from "../texts";
import merchant from "./memberSentences";
import partner from "./partnerSentences";

type Notification = Schemas["Notification"];

/**
 * The titles and bodies of notifications by type. {amount} stands for a fact of the notification.
 * A part in square brackets is left out if one of its facts has no value.
 */
export type Sentences = Record<string, [title: string, body: string]>;

/** The sentences in the languages that the service does not write, by the kind of the account. */
const sentences: Partial<Record<Language, Record<BrowserSession["kind"], Sentences>>> = { de: { merchant, partner } };

const roles = { owner: "Inhaber", admin: "Administrator", manager: "Manager", finance: "Finanzen", developer: "Entwickler", viewer: "Betrachter" };

/** The German words for the facts that the service has in English. # stands for a number. */
const words: Record<string, Record<string, string>> = {
  mode: { live: "Livebetrieb", test: "Testmodus" },
  role: roles,
  before: roles,
  after: roles,
  event: { purchase: "ein Kauf", renewal: "eine Verlängerung", signup: "eine Registrierung", lead: "eine Anfrage", trial: "eine Probezeit", "custom event": "ein Ereignis" },
  outcome: {
    "was erased": "wurden gelöscht",
    "could not be erased. Send the request again with another Idempotency-Key": "ließen sich nicht löschen. Verlangen Sie die Löschung noch einmal",
  },
  reason: {
    "it responded with the status 410": "er antwortete mit dem Status 410",
    "all deliveries of the last five days have failed": "alle Zustellungen der letzten fünf Tage sind gescheitert",
    "the key is no longer accepted": "der Schlüssel gilt nicht mehr",
    "the key lacks a permission": "dem Schlüssel fehlt ein Recht",
    "the processor did not respond": "der Anbieter hat nicht geantwortet",
    "of an internal error": "es gab einen internen Fehler",
    "the webhook endpoint was deleted there": "der Webhook wurde dort gelöscht",
    "the webhook endpoint was disabled there": "der Webhook wurde dort abgeschaltet",
  },
  rule: {
    "one member confirms": "ein Mitglied bestätigt",
    "two members confirm a batch with more than # minor units in a currency": "zwei Mitglieder bestätigen eine Sammelzahlung von mehr als # kleinsten Einheiten in einer Währung",
  },
};

/** The words for names that are not known. */
const unnamed = { program: "Ein Programm", partner: "Partner ohne Namen", user: "Mitglied ohne Namen" };

/** The title and the body of a notification in a language. The service writes them in English. */
export function sentenceOf(
  { type, title, body, facts }: Notification,
  kind: BrowserSession["kind"],
  language: Language,
  f: Format,
): { title: string; body: string } {
  const templates = sentences[language]?.[kind][type];
  if (!templates) return { title, body };
  const known: Record<string, string> = { ...unnamed, ...facts };
  const [own, text] = templates.map((template) =>
    template
      .replace(/\[([^\]]*)\]/g, (_, part: string) => (placeholdersOf(part).every((name) => known[name]) ? part : ""))
      .replace(/\{(\w+)\}/g, (_, name: string) => inWords(name, known[name] ?? "", f)),
  );
  return { title: own ?? title, body: text ?? body };
}

function placeholdersOf(text: string): string[] {
  return Array.from(text.matchAll(/\{(\w+)\}/g), ([, name]) => name ?? "");
}

/** Amounts are facts such as "12.50 EUR". */
function inWords(name: string, fact: string, f: Format): string {
  const [, amount, currency] = /^(-?\d+(?:\.\d+)?) ([A-Z]{3})$/.exec(fact) ?? [];
  if (amount && currency) return f.money(Number(amount.replace(".", "")), currency);
  const number = /\d+/.exec(fact)?.[0] ?? "";
  return words[name]?.[fact] ?? words[name]?.[fact.replace(number, "#")]?.replace("#", f.number(Number(number))) ?? fact;
}
