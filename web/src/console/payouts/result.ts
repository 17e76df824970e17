import type { Schemas } from "../../app/data";
import { decimal, exponent } from "../../i18n/format";
import { csvCell, parseCsv } from "./csv";

type Payout = Pick<Schemas["Payout"], "id" | "amountCents" | "currency" | "status" | "partnerName">;

/** Why a row of a result file cannot be applied. */
export type Fault = "unknown" | "double" | "amount" | "status" | "state" | "reference" | "reason";

/** A row of a result file with the payout that it is about. */
export interface Result {
  /** The number of the row in the file. The row with the names of the columns is 1. */
  line: number;
  /** The id or the reference in the file. */
  key: string;
  payout: Payout | null;
  outcome: "paid" | "failed" | null;
  /** The status as the file has it. */
  status: string;
  reference: string;
  reason: string;
  fault: Fault | null;
}

/** The names of the columns, in lower case and without spaces. The first one that the file has is used. */
const names = {
  // PayPal's files have the first 30 digits of the payout's id as customer id, Wise's the last 10 as payment reference.
  key: ["payoutid", "customerid", "paymentreference", "id", "reference"],
  status: ["status", "transactionstatus", "state"],
  reference: ["reference", "transactionid", "transferid"],
  reason: ["reason", "failurereason", "error"],
  amount: ["amount", "targetamount"],
  amountCents: ["amountcents"],
  currency: ["currency", "targetcurrency", "amountcurrency"],
};
type Columns = Record<keyof typeof names, number>;

const outcomes: Record<string, "paid" | "failed"> = {
  ...words("paid", "paid success succeeded completed complete sent"),
  ...words("failed", "failed failure returned denied blocked refunded reversed rejected bounced canceled cancelled"),
};

function words(outcome: "paid" | "failed", list: string): Record<string, "paid" | "failed"> {
  return Object.fromEntries(list.split(" ").map((word) => [word, outcome]));
}

/** Reads a result file and checks each row against the payouts of the batch. It is null if a column is missing. */
export function checkResults(text: string, payouts: Payout[]): Result[] | null {
  const [head = [], ...rows] = parseCsv(text);
  const columns = columnsOf(head);
  if (columns.key < 0 || columns.status < 0) return null;
  const byKey = keysOf(payouts);
  const results = rows
    .map((cells, index) => ({ cells, line: index + 2 }))
    .filter(({ cells }) => cells.some((cell) => cell.trim() !== ""))
    .map(({ cells, line }) => resultOf(cells, line, columns, byKey));
  const counts = new Map<string, number>();
  for (const { payout } of results) if (payout) counts.set(payout.id, (counts.get(payout.id) ?? 0) + 1);
  return results.map((result) => (result.payout && (counts.get(result.payout.id) ?? 0) > 1 ? { ...result, fault: "double" } : result));
}

function columnsOf(head: string[]): Columns {
  const found = head.map((name) => name.toLowerCase().replace(/[^a-z]/g, ""));
  const column = (list: string[]) => found.indexOf(list.find((name) => found.includes(name)) ?? "\0");
  return Object.fromEntries(Object.entries(names).map(([name, list]) => [name, column(list)])) as Columns;
}

/** The payouts by the forms of their ids. A form that two payouts share finds none. */
function keysOf(payouts: Payout[]): Map<string, Payout | null> {
  const byKey = new Map<string, Payout | null>();
  for (const payout of payouts) {
    const digits = payout.id.replaceAll("-", "");
    for (const key of [digits, digits.slice(0, 30), digits.slice(-10)]) byKey.set(key, byKey.has(key) ? null : payout);
  }
  return byKey;
}

function resultOf(cells: string[], line: number, columns: Columns, byKey: Map<string, Payout | null>): Result {
  const cell = (name: keyof Columns) => (cells[columns[name]] ?? "").trim();
  const key = cell("key");
  const payout = byKey.get(key.toLowerCase().replace(/[^0-9a-z]/g, "")) ?? null;
  const outcome = outcomes[cell("status").toLowerCase()] ?? null;
  const result = { line, key, payout, outcome, status: cell("status"), reference: cell("reference").slice(0, 200), reason: cell("reason").slice(0, 500), fault: null };
  const fault = ((): Fault | null => {
    if (!payout) return "unknown";
    if (!isAmount(payout, cell("amount"), cell("amountCents"), cell("currency"))) return "amount";
    if (!outcome) return "status";
    if (payout.status !== "pending" && payout.status !== "processing") return "state";
    if (outcome === "paid" && !result.reference) return "reference";
    if (outcome === "failed" && !result.reason) return "reason";
    return null;
  })();
  return { ...result, fault };
}

/** Whether a row has the amount and the currency of the payout, as far as it has them. */
function isAmount({ amountCents, currency }: Payout, amount: string, cents: string, rowCurrency: string): boolean {
  if (/^[a-z]{3}$/i.test(rowCurrency) && rowCurrency.toUpperCase() !== currency) return false;
  if (cents && Number(cents) !== amountCents) return false;
  return !amount || minorUnits(amount, exponent(currency)) === amountCents;
}

/**
 * The minor units of an amount such as 1,234.50 or 1.234,5, without its sign, because some
 * providers list payments as negative amounts. It is null if the text is no amount.
 */
export function minorUnits(text: string, digits: number): number | null {
  const match = /^(\d[\d.,]*?)(?:[.,](\d+))?$/.exec(text.replace(/[^\d.,]/g, ""));
  if (!match) return null;
  const [, whole = "", fraction = ""] = match;
  const isFraction = fraction.length <= digits;
  const units = whole.replace(/\D/g, "");
  return Number(isFraction ? units + fraction.padEnd(digits, "0") : units + fraction + "0".repeat(digits));
}

/** A result file of payouts in which the status, the reference and the reason are still to be filled in. */
export function resultTemplate(payouts: Payout[]): string {
  const rows = payouts.map(({ id, partnerName, amountCents, currency }) => [id, partnerName, decimal(amountCents, exponent(currency)), currency, "", "", ""]);
  return [["payoutId", "partnerName", "amount", "currency", "status", "reference", "reason"], ...rows].map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}
