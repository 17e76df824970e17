import type en from "./en";

/** The texts about the branding in German. */
const de: typeof en = {
  title: "Erscheinungsbild",
  about: "So zeigen Sie sich Partnern: auf den öffentlichen Seiten Ihrer Programme, in Einladungen und in Mails. Es ist in beiden Modi dasselbe.",
  presentation: "Darstellung",
  name: "Name für Partner",
  nameHint: "Partner sehen ihn. Leer: der Name des Arbeitsbereichs.",
  slug: "Kurzname in Adressen",
  slugHint: (address) => `Ihre Programmseiten beginnen mit ${address}. 3 bis 40 Kleinbuchstaben, Ziffern und Bindestriche.`,
  slugChanges: "Alte Adressen Ihrer Programmseiten gelten nicht mehr, wenn Sie einen anderen Kurznamen speichern.",
  colour: "Farbe",
  colourHint: "Die Farbe von Knöpfen und der Linien unter Links, zum Beispiel #0a7f5a. Leer: die Farbe des Portals.",
  pick: "Farbe wählen",
  support: "Adresse für Fragen",
  supportHint: "An sie schreiben Partner, auch wenn sie auf eine Mail antworten.",
  website: "Website",
  terms: "Nutzungsbedingungen",
  privacy: "Datenschutzerklärung",
  linkHints: {
    website: "Ein Link am Fuß der Seiten.",
    terms: "Ein Link am Fuß der Seiten. Die Bedingungen eines Programms stehen auf dessen eigener Seite.",
    privacy: "Ein Link am Fuß der Seiten.",
  },
  locale: "Sprache für Besucher, die keine gewählt haben",
  preview: "Vorschau",
  previewHint: "Ihre Seiten haben helle oder dunkle Farben, wie das Gerät des Besuchers sie hat.",
  button: "Am Programm teilnehmen",
  link: "Mehr lesen",
  pages: { light: "Helle Seiten", dark: "Dunkle Seiten" },
  adjusted: {
    light: (colour) => `Ihre Farbe ist auf einer hellen Seite schlecht zu sehen. Dort gilt der dunklere Ton ${colour}.`,
    dark: (colour) => `Ihre Farbe ist auf einer dunklen Seite schlecht zu sehen. Dort gilt der hellere Ton ${colour}.`,
  },
  logo: "Logo",
  logoHint: "Eine PNG- oder WebP-Datei ohne Animation, höchstens 256 kB und 2.048 Pixel breit und hoch. Ein größeres Bild als 512 Pixel wird verkleinert.",
  logoUpload: "Logo hochladen",
  logoReplace: "Logo ersetzen",
  logoDelete: "Logo löschen",
  logoDeleteHint: "Ihre Seiten und Mails zeigen stattdessen Ihren Namen.",
  logoTooLarge: "Die Datei ist größer als 256 kB.",
  logoStored: "Das Logo ist gespeichert.",
  logoDeleted: "Das Logo ist gelöscht.",
};

export default de;
