import type { Sentences } from "./sentences";

/** The notifications of members in German. */
const sentences: Sentences = {
  "participant.applied": ["Neue Bewerbung", "{partner} hat sich bei {program} beworben."],
  "conversion.created": ["Neuer Verkauf", "Erfasst wurde: {event}[ über {amount}].[ Er wird {credited} zugerechnet.]"],
  "commission.created": ["Neue Provision", "{partner} hat {amount} in {program} verdient."],
  "conversion.fraud_detected": ["Verdächtiger Verkauf", "Die Betrugsregeln haben einem Verkauf {score} von 100 Punkten gegeben: {rules}."],
  "commission.review_required": ["Provision zu prüfen", "Eine Provision von {amount} für {partner} in {program} braucht eine Entscheidung[: {reasons}]."],
  "conversion.refunded": ["Verkauf erstattet", "Von einer Zahlung über {amount} sind bisher {refunded} erstattet.[ Der Verkauf war {credited} zugerechnet.]"],
  "commission.disputed": ["Zahlung angefochten", "Die Zahlung zu einer Provision von {amount} für {partner} ist angefochten."],
  "commission.dispute_resolved": ["Anfechtung beendet", "Die Anfechtung der Zahlung zu einer Provision für {partner} ist beendet."],
  "payout.paid": ["Auszahlung bezahlt", "Die Auszahlung von {amount} an {partner} ist bezahlt."],
  "payout.canceled": ["Auszahlung storniert", "Die Auszahlung von {amount} an {partner} wurde storniert."],
  "payout.failed": ["Auszahlung fehlgeschlagen", "Die Auszahlung von {amount} an {partner} ist fehlgeschlagen[: {reason}]."],
  "payout_batch.awaiting_approval": ["Sammelzahlung wartet auf Bestätigung", "Eine Sammelzahlung mit {payouts} Auszahlungen braucht die Bestätigung eines weiteren Mitglieds."],
  "webhook.dead_lettered": ["Webhook nicht zugestellt", "Ein Ereignis ließ sich nicht an {url} zustellen. Es ist das erste an diesem Tag."],
  "webhook.disabled": ["Webhook abgeschaltet", "An {url} gehen keine Ereignisse mehr, denn {reason}. Schalten Sie den Webhook ein, wenn er wieder funktioniert."],
  "processor.event_failed": [
    "Ereignisse des Zahlungsanbieters gescheitert",
    "Ein Ereignis des Kontos {account} bei {processor} ({mode}) ließ sich drei Tage lang nicht anwenden, denn {reason}. Es ist das erste an diesem Tag. Starten Sie einen Abgleich, wenn die Ursache behoben ist.",
  ],
  "processor.endpoint_failing": [
    "Ereignisse des Zahlungsanbieters kommen nicht an",
    "Ereignisse des Kontos {account} bei {processor} ({mode}) kommen nicht mehr an oder lassen sich nicht anwenden, denn {reason}. Verbinden Sie das Konto neu.",
  ],
  "gdpr.export_ready": ["Export bereit", "Der Export persönlicher Daten kann heruntergeladen werden."],
  "gdpr.buyer_erasure_completed": ["Löschung eines Käufers", "Die persönlichen Daten eines Käufers {outcome}."],
  "security.new_device": [
    "Neue Anmeldung",
    "{user} hat sich mit einem neuen Gerät angemeldet[, im Netz {network}]. Wenn es nicht {user} war, muss das Passwort zurückgesetzt werden.",
  ],
  "security.password_changed": ["Passwort geändert", "Das Passwort von {user} wurde geändert. Alle anderen Sitzungen wurden beendet."],
  "security.email_changed": ["E-Mail-Adresse geändert", "Die E-Mail-Adresse von {user} wurde geändert."],
  "security.second_factor_enabled": ["Zweiter Faktor eingeschaltet", "Das Konto von {user} hat jetzt einen zweiten Faktor. Alle anderen Sitzungen wurden beendet."],
  "security.second_factor_disabled": ["Zweiter Faktor entfernt", "Der zweite Faktor von {user} wurde entfernt."],
  "security.recovery_code_used": ["Ersatzcode benutzt", "Ein Ersatzcode von {user} wurde benutzt. Übrige Codes: {left}."],
  "security.wrong_codes": [
    "Falsche Codes",
    "Drei falsche Codes nacheinander wurden für {user} eingegeben. Wenn es nicht {user} war, muss das Passwort geändert werden.",
  ],
  "security.api_key_created": ["Geheimer Schlüssel angelegt", "{user} hat den geheimen Schlüssel „{key}“ ({mode}) angelegt, der auf {last4} endet."],
  "security.api_key_rolled": ["Geheimer Schlüssel ersetzt", "{user} hat den geheimen Schlüssel „{key}“ ({mode}) ersetzt, der auf {last4} endet."],
  "security.api_key_revoked": ["Geheimer Schlüssel widerrufen", "{user} hat den geheimen Schlüssel „{key}“ ({mode}) widerrufen, der auf {last4} endet."],
  "security.service_token_created": ["Diensttoken angelegt", "{user} hat das Diensttoken „{key}“ ({mode}) mit der Rolle {role} angelegt, das auf {last4} endet."],
  "security.service_token_rolled": ["Diensttoken ersetzt", "{user} hat das Diensttoken „{key}“ ({mode}) mit der Rolle {role} ersetzt, das auf {last4} endet."],
  "security.service_token_revoked": ["Diensttoken widerrufen", "{user} hat das Diensttoken „{key}“ ({mode}) mit der Rolle {role} widerrufen, das auf {last4} endet."],
  "security.payout_approval_changed": ["Bestätigung von Auszahlungen geändert", "Die Zahl der Bestätigungen, die eine Sammelzahlung braucht, wurde geändert: {rule}."],
  "security.role_changed": ["Rolle geändert", "Die Rolle von {user} wurde von {before} zu {after} geändert."],
  "security.ownership_moved": ["Inhaber gewechselt", "Der Arbeitsbereich gehört jetzt {user}."],
  "processor.connected": ["Zahlungsanbieter verbunden", "{user} hat das Konto {account} bei {processor} ({mode}) verbunden."],
  "processor.disconnected": [
    "Zahlungsanbieter getrennt",
    "{user} hat das Konto {account} bei {processor} ({mode}) getrennt. Seine Verkäufe, Erstattungen und Anfechtungen kommen nicht mehr an.",
  ],
  "account.verify_email": ["Bestätigen Sie Ihre E-Mail-Adresse", "Öffnen Sie den Link in der Mail, die an die Adresse von {user} ging."],
  "account.email_verified": ["E-Mail-Adresse bestätigt", "Die E-Mail-Adresse von {user} ist bestätigt."],
  "account.member_joined": ["Neues Mitglied", "{user} ist jetzt Mitglied des Arbeitsbereichs, mit der Rolle {role}."],
  "account.member_left": ["Mitglied ausgeschieden", "{name} ist nicht mehr Mitglied des Arbeitsbereichs."],
  "summary.weekly": ["Ihre Woche", "{summary}"],
  "product.announcement": ["{title}", "{text}"],
};

export default sentences;
