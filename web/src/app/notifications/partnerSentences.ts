import type { Sentences } from "./sentences";

/** The notifications of partners in German. */
const sentences: Sentences = {
  "participant.offered": ["Einladung zu einem Programm", "{program} lädt Sie ein. Nehmen Sie die Einladung an, oder lehnen Sie sie ab."],
  "participant.approved": ["Sie sind dabei", "Sie nehmen an {program} teil. Sie können Ihren Link jetzt teilen.[ Sie verdienen {rate}.][ Ihr Link: {link}]"],
  "participant.rejected": ["Bewerbung abgelehnt", "{program} hat Ihre Bewerbung nicht angenommen."],
  "participant.suspended": ["Sie wurden gesperrt", "Sie verdienen in {program} zurzeit keine Provisionen."],
  "participant.reinstated": ["Ihre Sperre ist aufgehoben", "Sie verdienen in {program} wieder Provisionen."],
  "commission.created": ["Neue Provision", "Sie haben {amount} in {program} verdient."],
  "commission.approved": ["Provision bestätigt", "Ihre Provision von {amount} in {program} wurde bestätigt."],
  "commission.rejected": ["Provision abgelehnt", "Ihre Provision von {amount} in {program} wurde abgelehnt."],
  "commission.refunded": ["Provision verringert", "Ihre Provision[ von {original}] in {program} wurde auf {amount} verringert, weil sich der Verkauf geändert hat."],
  "payout.processing": ["Auszahlung unterwegs", "Eine Auszahlung von {amount} aus {program} wird gesendet."],
  "payout.paid": ["Auszahlung bezahlt", "{program} hat Ihnen {amount} bezahlt."],
  "payout.failed": ["Auszahlung fehlgeschlagen", "Eine Auszahlung von {amount} aus {program} ist fehlgeschlagen[: {reason}]. Prüfen Sie Ihren Auszahlungsweg."],
  "payout.method_missing": ["Auszahlungsweg fehlt", "Ihnen stehen {amount} zu, aber Sie haben keinen Auszahlungsweg."],
  "payout.method_proposed": ["Auszahlungsweg vorgeschlagen", "{program} schlägt Ihnen einen Auszahlungsweg vor. Bestätigen Sie ihn, oder lehnen Sie ihn ab."],
  "program.announcement": ["{title}", "{text}"],
  "summary.monthly": ["Ihr Monat", "{summary}"],
  "gdpr.export_ready": ["Export bereit", "Der Export Ihrer Daten kann heruntergeladen werden."],
  "security.new_device": ["Neue Anmeldung", "Jemand hat sich mit einem neuen Gerät angemeldet[, im Netz {network}]. Wenn Sie das nicht waren, setzen Sie Ihr Passwort zurück."],
  "security.password_changed": ["Passwort geändert", "Ihr Passwort wurde geändert. Alle anderen Sitzungen wurden beendet."],
  "security.email_changed": ["E-Mail-Adresse geändert", "Die E-Mail-Adresse Ihres Kontos wurde geändert."],
  "security.payout_method_changed": [
    "Auszahlungsweg geändert",
    "Ihr Auszahlungsweg ist jetzt {method}[. Neue Auszahlungen lassen Sie aus bis {until}]. Wenn Sie das nicht waren, setzen Sie Ihr Passwort zurück, und sagen Sie es Ihren Händlern.",
  ],
  "security.second_factor_enabled": ["Zweiter Faktor eingeschaltet", "Ihr Konto hat jetzt einen zweiten Faktor. Alle anderen Sitzungen wurden beendet."],
  "security.second_factor_disabled": ["Zweiter Faktor entfernt", "Der zweite Faktor Ihres Kontos wurde entfernt."],
  "security.recovery_code_used": ["Ersatzcode benutzt", "Ein Ersatzcode Ihres Kontos wurde benutzt. Übrige Codes: {left}."],
  "security.wrong_codes": ["Falsche Codes", "Drei falsche Codes nacheinander wurden für Ihr Konto eingegeben. Wenn Sie das nicht waren, ändern Sie Ihr Passwort."],
  "account.verify_email": ["Bestätigen Sie Ihre E-Mail-Adresse", "Öffnen Sie den Link in der Mail, die an Ihre Adresse ging."],
  "account.email_verified": ["E-Mail-Adresse bestätigt", "Die E-Mail-Adresse Ihres Kontos ist bestätigt."],
};

export default sentences;
