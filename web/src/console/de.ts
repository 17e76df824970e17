import shared from "../i18n/de";
import analytics from "./analytics/de";
import branding from "./branding/de";
import commissions from "./commissions/de";
import conversions from "./conversions/de";
import type en from "./en";
import fraud from "./fraud/de";
import keys from "./keys/de";
import logs from "./logs/de";
import partners from "./partners/de";
import payouts from "./payouts/de";
import programs from "./programs/de";
import search from "./search/de";
import settings from "./settings/de";
import team from "./team/de";
import tracking from "./tracking/de";
import webhooks from "./webhooks/de";

/** The texts of the console in German. */
const de: typeof en = {
  ...shared,
  app: {
    name: "Konsole",
    login: "Melden Sie sich bei der Konsole an",
    register: "Legen Sie Ihren Arbeitsbereich an",
    other: "Sie sind Partner?",
    toOther: "Zur Anmeldung im Partnerportal",
    eraseHint:
      "Der ganze Arbeitsbereich wird in beiden Modi gelöscht: die Konten aller Mitglieder, Schlüssel, Webhooks, die Verbindung zu Stripe und die Daten über Partner und Käufer. Programme behalten ihre Zahlen unter Pseudonymen. Das lässt sich nicht rückgängig machen.",
    exportHint:
      "Sie bekommen eine Datei mit den Daten des Arbeitsbereichs in beiden Modi: Einstellungen, Mitglieder, Programme, Partner, Klicks der letzten 90 Tage, Verkäufe, Provisionen, Auszahlungen, das Kontobuch und das Änderungsprotokoll.",
    exportStart: "Arbeitsbereich exportieren",
    noNotificationsHint: "Hier erfahren Sie von Bewerbungen, Provisionen, Auszahlungen, Webhooks und Änderungen an Ihrem Arbeitsbereich.",
    categories: {
      security: "Sicherheit",
      account: "Konto",
      gdpr: "Persönliche Daten",
      partner_applications: "Bewerbungen",
      conversions: "Verkäufe",
      commissions: "Provisionen",
      fraud_review: "Betrug und Prüfung",
      refunds_disputes: "Erstattungen und Anfechtungen",
      payouts: "Auszahlungen",
      webhook_health: "Webhooks und Stripe",
      weekly_summary: "Wöchentliche Übersicht",
      product_updates: "Neues vom Dienst",
    },
  },
  errors: {
    ...shared.errors,
    codes: {
      ...shared.errors.codes,
      PARTICIPANT_ERASED: "Die Daten dieses Partners in dem Programm wurden gelöscht, deshalb lässt sich darin nichts mehr ändern.",
      LAST_OWNER: "Ein Arbeitsbereich braucht einen Inhaber. Machen Sie zuerst ein anderes Mitglied zum Inhaber.",
      SLUG_TAKEN: "Ein anderer Arbeitsbereich hat diesen Kurznamen. Wählen Sie einen anderen.",
      API_KEY_LIMIT_EXCEEDED: "Es gibt zu viele aktive Schlüssel. Widerrufen Sie einen, den Sie nicht mehr brauchen.",
      SECOND_FACTOR_SETUP_REQUIRED: "Schalten Sie zuerst den zweiten Faktor Ihres eigenen Kontos ein.",
      PERIOD_CLOSED: "Die Bücher sind für diese Zeit geschlossen.",
      RESET_IN_PROGRESS: "Die Testdaten werden schon gelöscht.",
      OPERATION_NOT_FOUND: "Es gibt keine solche Löschung, oder sie ist seit mehr als 30 Tagen beendet.",
      FEATURE_DISABLED: "Der Betreiber des Dienstes hat das abgeschaltet.",
      ACTIVE_OPERATION_CONFLICT: "Eine frühere Anfrage zu diesem Käufer wird gerade repariert. Versuchen Sie es in einigen Minuten noch einmal.",
    },
  },
  roles: { ...shared.roles, viewer: "Betrachter" },
  method: { ...shared.method, manual: "Von Hand", external: "Außerhalb der Konsole" },
  areas: {
    analytics: "Auswertung",
    overview: "Überblick",
    commissions: "Provisionen",
    partners: "Partner",
    conversions: "Verkäufe",
    payouts: "Auszahlungen",
    webhooks: "Webhooks",
    fraud: "Betrug",
    programs: "Programme",
    settings: "Einstellungen",
  },
  firstWorkspace: {
    title: "Ersten Workspace anlegen",
    about: "Diese Installation ist neu. Dem Konto, das Sie hier anlegen, gehört der erste Workspace. Es kann das übrige Team einladen.",
    code: "Einrichtungscode",
    codeHint: "Der Core schreibt den Code beim Start als setup_code in sein Log. Er gilt einmal.",
    done: "Diese Installation ist eingerichtet",
    doneHint: "Sie hat schon einen Workspace. Bitten Sie dessen Inhaber um eine Einladung, oder melden Sie sich an.",
  },
  needsSecondFactor: "Ihr Arbeitsbereich verlangt einen zweiten Faktor. Bis Sie ihn einschalten, können Sie nur lesen.",
  stored: "Ich habe es gespeichert",
  conflict: "Jemand anderes hat das inzwischen geändert. Das ist der neue Stand:",
  profile: { account: "Ihr Konto", title: "Profil", workspace: "Arbeitsbereich", role: "Rolle" },
  filter: {
    program: "Programm",
    all: "Alle",
    from: "Von",
    to: "Bis",
    search: "Suche",
    clear: "Alle zeigen",
    csv: "Als CSV exportieren",
  },
  overview: {
    title: "Überblick",
    period: "Zeitraum",
    days: (days) => `Letzte ${days} Tage`,
    activity: "Verlauf",
    revenue: "Umsatz",
    commissions: "Provisionen",
    times: (times) => `${times}×`,
    change: (change) => `${change} zum Zeitraum davor`,
    noChange: "Kein Vergleich",
    otherCurrencies: (amounts) => `In anderen Währungen: ${amounts}`,
    inCurrency: (revenue, commissions) => `${revenue} Umsatz, ${commissions} Provisionen`,
    top: { participant: "Beste Partner", link: "Beste Links" },
    name: { participant: "Partner", link: "Link" },
    nothing: "In diesem Zeitraum gab es keine Klicks.",
  },
  toDo: {
    title: "Zu tun",
    none: "Nichts wartet auf Sie.",
    applications: "Bewerbungen von Partnern",
    review: "Provisionen, die zu prüfen sind",
    fraud: "Verdächtige Verkäufe",
    batches: "Auszahlungen, die zu bestätigen sind",
    awaiting: "Auszahlungen, die eine zweite Person bestätigen muss",
    webhooks: "Webhooks mit Fehlern",
    payable: "Jetzt an Partner zahlbar",
  },
  setUp: {
    title: "Richten Sie Ihr Programm ein",
    about: "Jeder Schritt wird abgehakt, wenn der Dienst sieht, dass er getan ist.",
    done: "Erledigt",
    open: "Öffnen",
    steps: {
      program: { title: "Ein Programm anlegen und öffnen", about: "Es sagt, was Partner verdienen und wie lange ein Klick zählt." },
      tracking: { title: "Das Skript einbauen oder Stripe verbinden", about: "Das Skript erfasst Klicks auf die Links der Partner. Stripe meldet Verkäufe, Verlängerungen und Erstattungen." },
      key: { title: "Einen geheimen Schlüssel anlegen", about: "Damit meldet Ihr Server Verkäufe. Mit Stripe brauchen Sie keinen." },
      click: { title: "Erster Klick", about: "Öffnen Sie selbst den Link eines Partners." },
      conversion: { title: "Erster Verkauf", about: "Kaufen Sie nach dem Klick etwas im Testmodus." },
    },
  },
  fraudRules: {
    self_referral_email: "Der Käufer hat die E-Mail-Adresse des Partners",
    bot_click: "Der Klick kam von einem Programm",
    same_device_as_partner: "Der Käufer benutzte das Gerät des Partners",
    self_referral_domain: "Der Käufer hat eine E-Mail-Adresse der Firma des Partners",
    blocked_country: "Der Klick kam aus einem gesperrten Land",
    paid_search: "Der Klick kam von einer Anzeige einer Suchmaschine",
    click_to_convert: "Der Kauf folgte dem Klick innerhalb von 5 Sekunden",
    conversion_velocity: "Der Partner hatte mehr als 10 Verkäufe in einer Stunde",
    duplicate_customer: "Der Kunde war schon einem anderen Partner gutgeschrieben",
    same_ip_prefix_as_partner: "Der Käufer benutzte das Netz des Partners",
    click_velocity: "Mehr als 100 Klicks kamen in einer Stunde von einer Adresse",
    disposable_email: "Der Käufer hat eine Wegwerf-Adresse",
    no_click_signals: "Eine Gutscheinseite bekam den Verkauf durch einen Code ohne Klick",
    refund_rate: "Viele Verkäufe des Partners wurden erstattet",
  },
  analytics,
  commissions,
  conversions,
  fraud,
  partners,
  payouts,
  webhooks,
  ...programs,
  ...tracking,
  keys,
  ...settings,
  search,
  team,
  branding,
  logs,
};

export default de;
