import assert from "node:assert/strict";
import { test } from "node:test";

import { Format } from "../../i18n/format";
import { sentenceOf } from "./sentences";

const german = new Format("de", "UTC");
const notification = (type: string, facts: Record<string, string>) =>
  ({ type, facts, title: "Title", body: "Body" }) as unknown as Parameters<typeof sentenceOf>[0];

test("a sentence contains the facts, with amounts in the format of the language", () => {
  const { title, body } = sentenceOf(notification("commission.created", { amount: "1234.50 EUR", program: "[x] {amount}" }), "partner", "de", german);
  assert.equal(title, "Neue Provision");
  assert.equal(body.replace(/\s/g, " "), "Sie haben 1.234,50 € in [x] {amount} verdient.");
});

test("a part without its fact is left out", () => {
  assert.match(sentenceOf(notification("payout.failed", { amount: "1 JPY" }), "partner", "de", german).body, /aus Ein Programm ist fehlgeschlagen\. Prüfen/);
  assert.match(sentenceOf(notification("payout.failed", { amount: "1 JPY", reason: "Konto" }), "partner", "de", german).body, /fehlgeschlagen: Konto\. Prüfen/);
});

test("an unknown type and English have the text of the service", () => {
  assert.deepEqual(sentenceOf(notification("new.type", {}), "partner", "de", german), { title: "Title", body: "Body" });
  assert.deepEqual(sentenceOf(notification("commission.created", {}), "partner", "en", german), { title: "Title", body: "Body" });
});

test("members and partners have other sentences, with the phrases of the service in German", () => {
  assert.equal(sentenceOf(notification("gdpr.buyer_erasure_completed", { outcome: "was erased" }), "merchant", "de", german).body, "Die persönlichen Daten eines Käufers wurden gelöscht.");
  const rule = "two members confirm a batch with more than 150000 minor units in a currency";
  assert.match(sentenceOf(notification("security.payout_approval_changed", { rule }), "merchant", "de", german).body, /mehr als 150\.000 kleinsten Einheiten/);
  assert.match(sentenceOf(notification("payout.paid", { amount: "5 EUR", partner: "live" }), "merchant", "de", german).body, /an live ist bezahlt/);
});
