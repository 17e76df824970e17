import type en from "./en";

const de: typeof en = {
  open: "Suchen (Strg K)",
  title: "Suche",
  hint: "Name, E-Mail-Adresse, Code, Bestellnummer oder ID",
  about: "Geben Sie mindestens zwei Zeichen ein.",
  results: "Ergebnisse",
  none: "Nichts gefunden.",
  kinds: {
    partner: "Partner",
    program: "Programme",
    promo_code: "Gutscheincodes",
    link: "Partnerlinks",
    commission: "Provisionen",
    conversion: "Conversions",
    payout: "Auszahlungen",
    payout_batch: "Sammelzahlungen",
    webhook: "Webhooks",
  },
};

export default de;
