import type en from "./en";

/** The texts about fraud events in German. */
const de: typeof en = {
  title: "Betrug",
  about: "Verkäufe, die die Betrugsregeln für verdächtig halten.",
  tabs: { open: "Offen", confirmed: "Betrug", dismissed: "Kein Betrug" },
  order: "Bestellung",
  partner: "Partner",
  score: "Punkte",
  found: "Gefunden",
  effect: "Wirkung",
  created: "Zeit",
  resolvedAt: "Entschieden",
  action: { observed: "Keine", flagged: "Provision ist zu prüfen", blocked: "Keine Provision" },
  none: "Keine verdächtigen Verkäufe",
  noneHint: "In jedem Programm steht, welche Regeln die Verkäufe prüfen und was dann geschieht.",
  selected: (count) => `${count} ausgewählt`,
  confirm: "Betrug",
  dismiss: "Kein Betrug",
  confirmTitle: (count) => `${count} als Betrug kennzeichnen?`,
  confirmHint: "Offene und bestätigte Provisionen dieser Verkäufe werden abgelehnt.",
  dismissTitle: (count) => `Bei ${count} Betrug ausschließen?`,
  dismissHint: "Die Provisionen müssen dann nicht mehr wegen der Betrugsregeln geprüft werden.",
  note: "Notiz",
  noteHint: "Nur Ihr Team sieht sie.",
  done: (count) => `Entschieden: ${count}.`,
  failed: (count) => `Nicht geändert: ${count}. Sie bleiben ausgewählt.`,
};

export default de;
