import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { test } from "node:test";
import type * as TypeScript from "typescript";

import consoleDe from "../console/de";
import consoleEn from "../console/en";
import portalDe from "../portal/de";
import portalEn from "../portal/en";

// The tests run in web/build.
const ts = createRequire(resolve("package.json"))("typescript") as typeof TypeScript;
const source = resolve("../src");

/** Texts that are the same in both languages, by their keys. */
const same = [
  ...["form.name", "form.code", "method.paypal", "method.wise", "method.stripe_connect", "roles.manager", "notifications.email"],
  ...["settings.exportTitle", "areas.links", "links.title", "links.code", "links.subId", "links.tagMedium", "commissions.status", "payouts.status"],
  ...["programs.status", "programs.website", "join.website", "profile.website", "overview.name.participant", "overview.name.link"],
  ...["commissions.partner", "conversions.partner", "conversions.source.stripe", "partners.code", "partners.links", "partners.name", "partners.one"],
  ...["areas.webhooks", "webhooks.title", "webhooks.one", "webhooks.httpStatus", "payouts.partner", "payouts.inCurrency", "payouts.formats.paypal", "payouts.formats.wise", "payouts.format"],
  ...["search.kinds.conversion", "search.kinds.webhook"],
  ...["branding.logo", "branding.website", "keys.tokens.token", "logs.audit.nouns.link", "logs.audit.nouns.participant", "logs.audit.nouns.webhook"],
  ...["settingsPages.pages.members", "team.title", "testData.counts.links", "testData.counts.notificationLogs"],
  ...["analytics.dimensions.browser", "analytics.dimensions.link", "analytics.dimensions.participant", "fraud.partner", "links.partner", "codes.stripe", "stripe.address", "tracking.tabs.stripe"],
];

test("German has another text for each English one", () => {
  const english = new Map([...texts(portalEn, "portal."), ...texts(consoleEn, "console.")]);
  const german = new Map([...texts(portalDe, "portal."), ...texts(consoleDe, "console.")]);
  assert.deepEqual([...german.keys()].sort(), [...english.keys()].sort());
  const equal = [...english].filter(([key, text]) => /\p{L}{2}/u.test(wordsOf(text)) && wordsOf(text) === wordsOf(german.get(key)));
  assert.deepEqual([...new Set(equal.map(([key]) => key.replace(/^\w+\./, "")))].sort(), same.sort());
});

test("components contain no words, only texts of en.ts and de.ts", () => {
  const components = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".tsx"));
  assert.ok(components.length > 20);
  assert.deepEqual(components.flatMap((name) => words(name, readFileSync(resolve(source, name), "utf8"))), []);
});

test("words in components are found", () => {
  const code = 'const x = <p title="One" className="none">Two {"Three"} {a ? "Four" : `Five ${b}`} {t.six} – <img alt={"Seven"} /> {kind("none")}</p>; const y = <F rows={[["Eight", 1]]} />';
  assert.deepEqual(words("x.tsx", code).map((found) => found.split(": ")[1]), ["One", "Two", "Three", "Four", "Five ", "Seven", "Eight"]);
});

/** The leaves of an object with texts, by their paths. */
function texts(value: object, path = ""): Map<string, unknown> {
  return new Map(
    Object.entries(value).flatMap(([key, child]: [string, unknown]) =>
      typeof child === "object" && child !== null ? [...texts(child, `${path}${key}.`)] : [[path + key, child] as const],
    ),
  );
}

/** A text without its values. A text with values is a function. */
function wordsOf(text: unknown): string {
  return String(text).replace(/^[^`"]*=>/, "").replace(/\$\{[^}]*\}/g, "");
}

/** Words that are the same in all languages. */
const neutral = /^(SVG|PNG|https:\/\/)$/;

/** Attributes whose values people read or hear. */
const shown = /^(title|label|placeholder|alt|caption|hint|about|rows|columns|aria-(label|description|roledescription|valuetext|placeholder))$/;

/** The literal words that a component shows: text between elements, and in attributes that people read. */
function words(name: string, code: string): string[] {
  const file = ts.createSourceFile(name, code, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const found: string[] = [];
  const report = (node: TypeScript.Node, text: string) => {
    if (/\p{L}{2}/u.test(text) && !neutral.test(text)) found.push(`${name}:${file.getLineAndCharacterOfPosition(node.pos).line + 1}: ${text}`);
  };
  const visit = (node: TypeScript.Node, isShown: boolean): void => {
    if (ts.isJsxText(node)) report(node, node.text.trim());
    else if (ts.isPropertyAssignment(node) && node.name.getText() === "sortBy") return;
    else if (ts.isJsxAttribute(node)) return void (node.initializer && visit(node.initializer, shown.test(node.name.getText())));
    else if (ts.isJsxElement(node) || ts.isJsxFragment(node)) isShown = true;
    else if (ts.isJsxSelfClosingElement(node) || ts.isJsxOpeningElement(node) || ts.isFunctionLike(node) || ts.isCallExpression(node)) isShown = false;
    else if (isShown && ts.isStringLiteralLike(node)) report(node, node.text);
    else if (isShown && ts.isTemplateExpression(node)) for (const part of [node.head, ...node.templateSpans.map((span) => span.literal)]) report(part, part.text);
    ts.forEachChild(node, (child) => visit(child, isShown && !isCondition(node, child)));
  };
  visit(file, false);
  return found;
}

/** Whether a part of an expression decides which text is shown, and is none itself. */
function isCondition(node: TypeScript.Node, child: TypeScript.Node): boolean {
  if (ts.isConditionalExpression(node)) return child === node.condition;
  if (ts.isBinaryExpression(node)) return child === node.left || /[=<>]=/.test(node.operatorToken.getText());
  return ts.isElementAccessExpression(node) || ts.isPropertyAccessExpression(node);
}
