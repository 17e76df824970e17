// Tests of the client against a running service. test/e2e/typescript_client_test.go
// starts the service and a proxy, and sets the environment variables.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { createTributary, pages, Session, TributaryError, unwrap, verifyWebhook } from "../src/index.js";
import { idempotentPaths } from "../src/client.js";

function variable(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

const baseUrl = variable("BASE_URL");
const account = { account: "merchant", email: variable("EMAIL"), password: variable("PASSWORD") } as const;
/** Accounts with a second factor, each with an unused recovery code. The password is the one of account. */
const factors = JSON.parse(variable("FACTORS")) as Record<"merchant" | "partner", { email: string; code: string }>;
const promoCode = variable("PROMO_CODE");
const programId = variable("PROGRAM_ID");
const keyClient = createTributary({ baseUrl, credential: variable("SECRET_KEY") });

/** Injects a fault into the next request that passes the proxy. */
async function injectFault(kind: "lose-response" | "use-up-limit" | "unavailable"): Promise<void> {
  const response = await fetch(`${baseUrl}/fault?kind=${kind}`, { method: "POST" });
  assert.equal(response.status, 204);
}

/** Returns the number of requests with this method and path that have reached the service. */
async function receivedCount(method: string, path: string): Promise<number> {
  const response = await fetch(`${baseUrl}/received?method=${method}&path=${path}`);
  return Number(await response.text());
}

function sale(order: string) {
  return {
    event_type: "purchase" as const,
    external_transaction_id: order,
    amount_cents: 4900,
    currency: "USD",
    promo_code: promoCode,
  };
}

test("a merchant creates a programme and reads it", async () => {
  const session = await Session.login({ baseUrl, ...account });
  const merchant = createTributary({ baseUrl, credential: session.token, mode: "test" });
  const created = unwrap(await merchant.POST("/api/v1/programs", { body: { name: "Typed programme" } }));
  const read = unwrap(await merchant.GET("/api/v1/programs/{programId}", { params: { path: { programId: created.id } } }));
  assert.equal(read.name, "Typed programme");
  assert.equal(read.status, "draft");
});

test("requests use the mode of the client", async () => {
  const session = await Session.login({ baseUrl, ...account });
  const liveClient = createTributary({ baseUrl, credential: session.token });
  const result = await liveClient.GET("/api/v1/programs/{programId}", { params: { path: { programId } } });
  assert.equal(result.response.status, 404);
});

test("a conversion is stored once although its response was lost", async () => {
  const before = await receivedCount("POST", "/api/v1/conversions");
  await injectFault("lose-response");
  const result = await keyClient.POST("/api/v1/conversions", { body: sale("lost-response") });
  assert.equal(unwrap(result).attributed, true);
  assert.equal(result.response.headers.get("Idempotent-Replayed"), "true");
  assert.equal(await receivedCount("POST", "/api/v1/conversions"), before + 2);
  const query = { external_transaction_id: "lost-response" };
  const list = unwrap(await keyClient.GET("/api/v1/conversions", { params: { query } }));
  assert.equal(list.total, 1);
});

test("a GET is repeated after 503", async () => {
  await injectFault("unavailable");
  const result = await keyClient.GET("/api/v1/conversions");
  assert.equal(result.response.status, 200);
});

test("a POST without an idempotency key is not repeated after 503", async () => {
  const before = await receivedCount("POST", "/api/v1/conversions/refunds");
  await injectFault("unavailable");
  const result = await keyClient.POST("/api/v1/conversions/refunds", {
    body: { external_transaction_id: "unknown", external_refund_id: "r-1", reason: "Returned" },
  });
  assert.equal(result.response.status, 503);
  assert.equal(await receivedCount("POST", "/api/v1/conversions/refunds"), before + 1);
});

test("a request over the limit is repeated after Retry-After", async () => {
  await injectFault("use-up-limit");
  const before = await receivedCount("POST", "/api/v1/conversions");
  const result = await keyClient.POST("/api/v1/conversions", { body: sale("over-the-limit") });
  assert.equal(result.response.status, 201);
  assert.ok((await receivedCount("POST", "/api/v1/conversions")) > before + 1);
});

test("a request is not repeated when no attempts are left", async () => {
  await injectFault("use-up-limit");
  const singleAttempt = createTributary({ baseUrl, credential: variable("SECRET_KEY"), retry: { attempts: 1 } });
  const result = await singleAttempt.POST("/api/v1/conversions", { body: sale("one-attempt") });
  assert.equal(result.response.status, 429);
});

test("pages yields every item once", async () => {
  for (let i = 0; i < 5; i++) unwrap(await keyClient.POST("/api/v1/conversions", { body: sale(`page-${i}`) }));
  const orders: string[] = [];
  const list = pages((page) => keyClient.GET("/api/v1/conversions", { params: { query: { page, page_size: 2 } } }));
  for await (const conversion of list) orders.push(conversion.external_transaction_id);
  for (let i = 0; i < 5; i++) assert.equal(orders.filter((order) => order === `page-${i}`).length, 1, `page-${i} in ${orders}`);
});

test("an error has code, details and request id", async () => {
  const result = await keyClient.POST("/api/v1/conversions", { body: { ...sale("wrong"), amount_cents: -1 } });
  assert.throws(
    () => unwrap(result),
    (error: unknown) => {
      assert.ok(error instanceof TributaryError);
      assert.equal(error.status, 400);
      assert.equal(error.code, "VALIDATION_ERROR");
      assert.deepEqual(error.details.map((detail) => detail.field), ["amount_cents"]);
      assert.ok(error.requestId);
      return true;
    },
  );
});

test("a session renews its token once for all requests, and can be resumed", async () => {
  const tokens: string[] = [];
  const session = await Session.login({ baseUrl, ...account, onRefreshToken: (token) => void tokens.push(token) });
  const first = await session.token();
  const [second, third] = await Promise.all([session.token(true), session.token(true)]);
  assert.equal(second, third);
  assert.notEqual(second, first);
  assert.equal(tokens.length, 2);

  const resumed = Session.resume({ baseUrl, refreshToken: tokens[1] ?? "" });
  const merchant = createTributary({ baseUrl, credential: resumed.token, mode: "test" });
  assert.equal((await merchant.GET("/api/v1/workspace")).response.status, 200);
  await resumed.logout();
  await assert.rejects(merchant.GET("/api/v1/workspace"), (error: unknown) => {
    return error instanceof TributaryError && error.status === 401;
  });
});

test("a login with a second factor is completed with a code", async () => {
  for (const kind of ["merchant", "partner"] as const) {
    const { email, code } = factors[kind];
    const login = { baseUrl, account: kind };
    let challenge = "";
    await assert.rejects(Session.login({ ...login, email, password: account.password }), (error: unknown) => {
      challenge = error instanceof TributaryError && error.code === "SECOND_FACTOR_REQUIRED" ? (error.challenge ?? "") : "";
      return challenge !== "";
    });
    await assert.rejects(Session.completeLogin({ ...login, challenge, code: "000000" }), { code: "INVALID_CREDENTIALS" });
    const tokens: string[] = [];
    const session = await Session.completeLogin({ ...login, challenge, code, onRefreshToken: (token) => void tokens.push(token) });
    const client = createTributary({ baseUrl, credential: session.token });
    const read = kind === "merchant" ? await client.GET("/api/v1/workspace") : await client.GET("/api/v1/partner/profile");
    assert.equal(read.response.status, 200);
    await session.token(true);
    assert.equal(tokens.length, 2);
    await assert.rejects(Session.completeLogin({ ...login, challenge, code }), { code: "CHALLENGE_INVALID" });
  }
});

test("a token that the service rejects is renewed", async () => {
  const renewals: boolean[] = [];
  const session = await Session.login({ baseUrl, ...account });
  const credential = async (renew: boolean) => {
    renewals.push(renew);
    return renew ? session.token() : "expired";
  };
  const merchant = createTributary({ baseUrl, credential, mode: "test" });
  assert.equal((await merchant.GET("/api/v1/workspace")).response.status, 200);
  assert.deepEqual(renewals, [false, true]);
});

test("a request with a wrong password is sent once", async () => {
  const renewals: boolean[] = [];
  const session = await Session.login({ baseUrl, ...account });
  const credential = (renew: boolean) => {
    renewals.push(renew);
    return session.token();
  };
  const merchant = createTributary({ baseUrl, credential, mode: "test" });
  const body = { newEmail: "other@example.com", password: "a wrong password" };
  await assert.rejects(
    async () => unwrap(await merchant.POST("/api/v1/auth/merchant/email/change", { body })),
    (error: unknown) => error instanceof TributaryError && error.code === "INVALID_CREDENTIALS" && error.challenge === null,
  );
  assert.deepEqual(renewals, [false]);
});

test("verifyWebhook accepts webhooks of the service and rejects others", () => {
  const { body, headers } = JSON.parse(variable("WEBHOOK")) as { body: string; headers: Record<string, string> };
  const secret = variable("WEBHOOK_SECRET");
  const event = verifyWebhook(secret, body, headers);
  assert.equal(event.type, "webhook.ping");
  assert.throws(() => verifyWebhook(secret, `${body} `, headers));
  assert.throws(() => verifyWebhook(secret, body, new Headers({ ...headers, "webhook-id": "evt_0" })));
});

test("the client lists all operations that accept an idempotency key", () => {
  const document = JSON.parse(readFileSync(variable("OPENAPI_FILE"), "utf8")) as { paths: Record<string, { post?: { parameters?: { name?: string }[] } }> };
  const documented = Object.keys(document.paths).filter((path) =>
    document.paths[path]?.post?.parameters?.some((parameter) => parameter.name === "Idempotency-Key"),
  );
  assert.deepEqual([...idempotentPaths].sort(), documented.sort());
});

// The compiler checks this function. A wrong field, path or value must be a compile
// error.
export function typeErrors() {
  // @ts-expect-error: there is no such path
  void keyClient.GET("/api/v1/nothing");
  // @ts-expect-error: the amount is a number
  void keyClient.POST("/api/v1/conversions", { body: { ...sale("x"), amount_cents: "4900" } });
  // @ts-expect-error: there is no such status
  void keyClient.GET("/api/v1/commissions", { params: { query: { status: "lost" } } });
}
