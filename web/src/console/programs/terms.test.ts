import assert from "node:assert/strict";
import { test } from "node:test";

import { changesOf, eventKind, isComplete, readTerms } from "./terms";

const fault = (name: string) => new Error(name);

const form = {
  attributionWindowDays: "30",
  attributionModel: "last_click",
  signalPrecedence: "click_first",
  minPayoutCents: "25,00",
  payoutTermDays: "",
  "commissionRules.commissionType": "percentage",
  "commissionRules.percentage": "12.5",
  "commissionRules.holdPeriodDays": "0",
  "commissionRules.autoApproval": "true",
  "commissionRules.netBasis": "gross",
  "commissionRules.recurring.enabled": "true",
  "commissionRules.recurring.maxMonths": "12",
  tiersBy: "revenue",
  "commissionRules.tiers[0].minRevenueCents": "1000",
  "commissionRules.tiers[0].percentage": "15",
  "commissionRules.products[2].productId": "gift-card",
  "commissionRules.products[2].kind": "flat",
  "commissionRules.products[2].flatAmountCents": "1.50",
  "event.purchase.kind": "program",
  "event.renewal.kind": "program",
  "event.signup.kind": "none",
};

test("the form is read as rules", () => {
  const terms = readTerms(form, "USD", fault);
  assert.equal(terms.minPayoutCents, 2500);
  assert.equal(terms.payoutTermDays, 0);
  assert.equal(terms.commissionRules.percentage, 12.5);
  assert.equal(terms.commissionRules.flatAmountCents, null);
  assert.equal(terms.commissionRules.holdPeriodDays, 0);
  assert.deepEqual(terms.commissionRules.recurring, { enabled: true, maxMonths: 12, maxPayments: null });
  assert.deepEqual(terms.commissionRules.tiers, [{ minConversions: null, minRevenueCents: 100_000, percentage: 15 }]);
  assert.deepEqual(terms.commissionRules.products, [{ productId: "gift-card", percentage: null, flatAmountCents: 150 }]);
  assert.deepEqual(terms.commissionRules.events.map(({ eventType }) => eventType), ["purchase", "renewal"]);
});

test("amounts have the decimals of their currency", () => {
  assert.equal(readTerms({ ...form, minPayoutCents: "", "commissionRules.products[2].flatAmountCents": "150" }, "JPY", fault).commissionRules.products[0]?.flatAmountCents, 150);
});

test("a text that is no number is a fault of its field", () => {
  assert.throws(() => readTerms({ ...form, minPayoutCents: "much" }, "USD", fault), { message: "minPayoutCents" });
  assert.throws(() => readTerms({ ...form, payoutTermDays: "-3" }, "USD", fault), { message: "payoutTermDays" });
});

test("a request has only what differs", () => {
  const before = readTerms(form, "USD", fault);
  assert.deepEqual(changesOf(before, readTerms(form, "USD", fault)), {});
  const after = readTerms({ ...form, "commissionRules.percentage": "20", payoutTermDays: "14" }, "USD", fault);
  assert.deepEqual(changesOf(before, after), { payoutTermDays: 14, commissionRules: { percentage: 20 } });
});

test("purchases and renewals are the same as no list of events", () => {
  const before = readTerms(form, "USD", fault);
  before.commissionRules.events = [];
  assert.deepEqual(changesOf(before, readTerms(form, "USD", fault)), {});
  const more = readTerms({ ...form, "event.signup.kind": "flat", "event.signup.flatAmountCents": "0.50" }, "USD", fault);
  assert.equal(changesOf(before, more).commissionRules?.events?.length, 3);
});

test("events without a list are purchases and renewals", () => {
  assert.equal(eventKind([], "renewal"), "program");
  assert.equal(eventKind([], "lead"), "none");
  assert.equal(eventKind([{ eventType: "lead", percentage: null, flatAmountCents: 500 }], "lead"), "flat");
});

test("rules are complete when each row has its rate", () => {
  assert.ok(isComplete(readTerms(form, "USD", fault)));
  assert.ok(!isComplete(readTerms({ ...form, "commissionRules.percentage": "" }, "USD", fault)));
  assert.ok(!isComplete(readTerms({ ...form, "commissionRules.tiers[0].percentage": "" }, "USD", fault)));
  assert.ok(!isComplete(readTerms({ ...form, "commissionRules.products[2].productId": "" }, "USD", fault)));
});
