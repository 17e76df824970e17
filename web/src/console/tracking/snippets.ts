/** What a merchant copies into pages and servers. It has the names of the API. */

/** The element that loads the script. */
export function scriptElement(collector: string, publicKey: string): string {
  return `<script async src="${collector}/v1/script.js" data-merchant="${publicKey}"></script>`;
}

export function curlCommand(api: string): string {
  return `curl "${api}/api/v1/conversions" \\
  -H "Authorization: Bearer $TRIBUTARY_SECRET_KEY" \\
  -H 'Content-Type: application/json' \\
  -H "Idempotency-Key: order-1001" \\
  -d '{
    "event_type": "purchase",
    "external_transaction_id": "order-1001",
    "amount_cents": 4900,
    "currency": "USD",
    "click_id": "<cookie aff_click_id>",
    "customer_id": "customer-7"
  }'`;
}

export function typescriptProgram(api: string): string {
  return `import { createTributary, unwrap } from "@tributary-hq/client";

const client = createTributary({
  baseUrl: "${api}",
  credential: process.env.TRIBUTARY_SECRET_KEY,
});
const conversion = unwrap(
  await client.POST("/api/v1/conversions", {
    body: {
      event_type: "purchase",
      external_transaction_id: order.id,
      amount_cents: 4900, // 49.00 USD
      currency: "USD",
      click_id: cookies.aff_click_id,
      customer_id: order.customerId,
    },
  }),
);
console.log(conversion.attributed, conversion.commission?.amount_cents);`;
}

export function goProgram(): string {
  return `client, err := tributary.New(os.Getenv("TRIBUTARY_GRPC_ADDR"), tributary.Options{
	Credential: tributary.Key(os.Getenv("TRIBUTARY_SECRET_KEY")),
})
if err != nil {
	return err
}
defer client.Close()
conversion, err := client.Conversions.ReportConversion(ctx, &affiliatev1.ReportConversionRequest{
	EventType:             affiliatev1.EventType_EVENT_TYPE_PURCHASE,
	ExternalTransactionId: order.ID,
	AmountCents:           new(int64(4900)), Currency: new("USD"), // 49.00 USD
	ClickId:               new(cookie.Value), // of the cookie aff_click_id
	CustomerId:            new(order.CustomerID),
})`;
}

/** The permissions of a restricted key that every connection needs, as Stripe's form names them. */
const permissions = [
  "rak_connected_account_read",
  "rak_event_read",
  "rak_checkout_session_read",
  "rak_invoice_read",
  "rak_charge_read",
  "rak_payment_intent_read",
  "rak_dispute_read",
  "rak_webhook_write",
];

/** Further permissions: for promo codes that are created in Stripe, and for rates of an amount without Stripe's fees. */
export const optionalPermissions = { codes: ["rak_coupon_write", "rak_promotion_code_write"], fees: ["rak_balance_transaction_source_read"] };

/** The address of Stripe's form for a restricted key, with the permissions filled in. */
export function stripeKeyAddress(isTest: boolean, further: string[]): string {
  const query = [...permissions, ...further].map((name) => `permissions[]=${name}`).join("&");
  return `https://dashboard.stripe.com/${isTest ? "test/" : ""}apikeys/create?name=Tributary&${query}`;
}
