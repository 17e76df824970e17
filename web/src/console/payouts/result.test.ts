import assert from "node:assert/strict";
import { test } from "node:test";

import { parseCsv } from "./csv";
import { checkResults, minorUnits, resultTemplate } from "./result";

const payout = (number: number, status = "processing") => ({
  id: `01a22e6e-0000-7000-8000-0000000000${String(number).padStart(2, "0")}`,
  partnerName: `=Partner "${number}"`,
  amountCents: 1000 + number,
  currency: "EUR",
  status: status as "processing" | "paid",
});

test("CSV with quotes, line breaks and other separators is parsed", () => {
  assert.deepEqual(parseCsv('a,b\r\n"x, ""y""\n",z\r\n'), [["a", "b"], ['x, "y"\n', "z"]]);
  assert.deepEqual(parseCsv("\uFEFFa;b\n1,5;2"), [["a", "b"], ["1,5", "2"]]);
});

test("each row is checked against the batch", () => {
  const payouts = [payout(1), payout(2), payout(3), payout(4, "paid"), payout(5), payout(6), payout(7)];
  const id = (number: number) => payouts[number - 1]?.id ?? "";
  const file = [
    "Payout ID;Status;Amount;Currency;Reference;Reason",
    `${id(1)};paid;10,01;EUR;T-1;`,
    `${id(2)};SUCCESS;10,02;USD;T-2;`,
    `${id(3)};paid;10,30;EUR;T-3;`,
    `${id(4)};paid;10,04;EUR;T-4;`,
    "01a22e6e-ffff-7000-8000-000000000001;paid;;;T;",
    `${id(5)};paid;;;T-5;`,
    `${id(5)};failed;;;;No such account`,
    `${id(6)};pending;;;;`,
    ";;;;;",
    `${id(7)};failed;;;;`,
    `${id(7)};paid;;;;`,
  ].join("\n");
  const faults = checkResults(file, payouts)?.map(({ line, fault }) => [line, fault]);
  assert.deepEqual(faults, [[2, null], [3, "amount"], [4, "amount"], [5, "state"], [6, "unknown"], [7, "double"], [8, "double"], [9, "status"], [11, "double"], [12, "double"]]);
  assert.deepEqual(checkResults("payoutId,status\n" + `${id(1)},paid\n${id(2)},failed`, payouts)?.map(({ fault }) => fault), ["reference", "reason"]);
  assert.equal(checkResults("name,amount\nAda,12", payouts), null);
});

test("the ids in the files of PayPal and Wise find their payouts", () => {
  const one = payout(1);
  const digits = one.id.replaceAll("-", "");
  const found = (text: string) => checkResults(text, [one])?.[0]?.payout?.id;
  assert.equal(found(`Customer ID,Status,Transaction ID\n${digits.slice(0, 30)},Completed,9X`), one.id);
  assert.equal(found(`paymentReference,status\n${digits.slice(-10)},sent`), one.id);
});

test("amounts in both spellings", () => {
  for (const [text, digits, cents] of [["1,234.50", 2, 123450], ["1.234,5", 2, 123450], ["1,234", 2, 123400], ["-12.00", 2, 1200], ["1,234", 0, 1234], ["1.234", 3, 1234], ["€5", 2, 500], ["x", 2, null]] as const) {
    assert.equal(minorUnits(text, digits), cents, text);
  }
});

test("the template can be filled in and read", () => {
  const text = resultTemplate([payout(1)]);
  assert.ok(text.includes(`"'=Partner ""1"""`));
  assert.equal(checkResults(text, [payout(1)])?.[0]?.fault, "status");
});
