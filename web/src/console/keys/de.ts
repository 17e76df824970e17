import type en from "./en";

/** The texts about API keys in German. */
const de: typeof en = {
  title: "API-Schlüssel",
  about: { live: "Die Schlüssel des Livebetriebs.", test: "Die Schlüssel des Testmodus. Der Livebetrieb hat andere." },
  publicKey: "Öffentlicher Schlüssel",
  publicHint: "Damit erfasst das Skript auf Ihren Seiten Klicks. Jeder darf ihn sehen.",
  secretKeys: "Geheime Schlüssel",
  secretHint: "Mit einem davon meldet Ihr Server Verkäufe. Schreiben Sie nie einen in eine Seite oder eine App.",
  create: "Geheimen Schlüssel anlegen",
  none: "Keine geheimen Schlüssel",
  noneHint: "Legen Sie einen für jeden Ihrer Server an. Mit Stripe brauchen Sie keinen.",
  key: "Schlüssel",
  created: "Angelegt",
  used: "Zuletzt benutzt",
  never: "Nie",
  expires: "Läuft ab",
  noExpiry: "Läuft nicht ab",
  nameHint: "Sagen Sie, wo Sie ihn benutzen, zum Beispiel Shop-Server.",
  expiresHint: "Der Schlüssel gilt bis zum Ende dieses Tages. Leer: Er läuft nicht ab.",
  newKey: "Ihr neuer geheimer Schlüssel",
  once: "Kopieren Sie den Schlüssel jetzt. Er wird nicht wieder gezeigt.",
  roll: "Ersetzen",
  rollTitle: (name) => `Schlüssel ${name} ersetzen?`,
  rollPublic: "Sie bekommen einen neuen öffentlichen Schlüssel. Tragen Sie ihn im Skript auf Ihren Seiten ein, bevor der alte endet: Ohne gültigen Schlüssel werden keine Klicks erfasst.",
  rollSecret: "Sie bekommen einen neuen geheimen Schlüssel mit demselben Namen. Tragen Sie ihn auf Ihrem Server ein, bevor der alte endet.",
  grace: "Der alte Schlüssel endet",
  hours: (hours) => (hours === 0 ? "Sofort" : `Nach ${hours} ${hours === 1 ? "Stunde" : "Stunden"}`),
  revoke: "Widerrufen",
  revokeTitle: (name) => `Schlüssel ${name} widerrufen?`,
  revokeHint: "Der Schlüssel endet sofort. Ein Server, der ihn benutzt, kann keine Verkäufe mehr melden.",
};

export default de;
