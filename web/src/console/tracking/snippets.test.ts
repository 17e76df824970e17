import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";

import { optionalPermissions, stripeKeyAddress } from "./snippets";

test("the link to Stripe's form has the permissions of the documentation", () => {
  const document = readFileSync(resolve("../..", "docs/stripe.md"), "utf8");
  const documented = /\((https:\/\/dashboard\.stripe\.com\/apikeys\/create[^)]*)\)/.exec(document)?.[1];
  assert.equal(stripeKeyAddress(false, []), documented);
  for (const name of [...optionalPermissions.codes, ...optionalPermissions.fees]) assert.ok(document.includes(`\`${name.replace("rak_", "")}\``), name);
});
