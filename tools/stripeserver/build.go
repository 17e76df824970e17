package stripeserver

import (
	"maps"
	"strings"
	"time"
)

// The functions of this file return objects with the form that Stripe's API has in the
// version stripe.APIVersion. The objects are a paid sale of 5000 minor units in the
// currency usd. They refer to one another by the part of the id after the last underscore:
// the payment intent of cs_test_a is pi_a, whose charge is ch_a, and so on.
//
// overrides replaces fields. The fields of nested objects are merged. A field whose value
// is nil becomes null. Fields that have the same amount by default, such as amount_total
// and amount_subtotal of a session, follow the first of them.

// defaultAmount is the amount of a sale in minor units, and defaultFee its part that is
// Stripe's fee.
const (
	defaultAmount = 5000
	defaultFee    = 175
)

// NewSession returns a checkout session that is complete and paid. It has no customer. The
// checkout of a subscription has these overrides:
//
//	"mode": "subscription", "payment_intent": nil, "customer": "cus_a",
//	"subscription": "sub_a", "invoice": "in_a"
func NewSession(id string, overrides map[string]any) map[string]any {
	created := time.Now().Unix()
	return build("checkout.session", id, overrides, map[string]any{
		"adaptive_pricing": map[string]any{"enabled": false}, "after_expiration": nil,
		"amount_total": defaultAmount, "collected_information": nil, "consent": nil, "consent_collection": nil,
		"created": created, "currency": "usd", "currency_conversion": nil,
		"custom_text":      map[string]any{"after_submit": nil, "shipping_address": nil, "submit": nil, "terms_of_service_acceptance": nil},
		"customer_details": map[string]any{"address": nil, "business_name": nil, "email": "buyer@example.com", "individual_name": nil, "name": nil, "phone": nil, "tax_exempt": "none", "tax_ids": []any{}},
		"discounts":        []any{}, "expires_at": created + 86400, "invoice_creation": nil,
		"managed_payments": map[string]any{"enabled": false}, "payment_intent": "pi_" + suffix(id),
		"payment_method_configuration_details": nil, "payment_status": "paid", "permissions": nil,
		"phone_number_collection": map[string]any{"enabled": false}, "saved_payment_method_options": nil,
		"shipping_address_collection": nil, "shipping_cost": nil, "status": "complete",
		"total_details": map[string]any{"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
		"ui_mode":       "hosted_page", "url": nil, "wallet_options": nil,
	}, "amount_total", "amount_subtotal")
}

// NewPaymentIntent returns a payment intent that has succeeded.
func NewPaymentIntent(id string, overrides map[string]any) map[string]any {
	return build("payment_intent", id, overrides, map[string]any{
		"amount": defaultAmount, "canceled_at": nil, "client_secret": id + "_secret_test", "created": time.Now().Unix(),
		"last_payment_error": nil, "latest_charge": "ch_" + suffix(id), "managed_payments": nil, "next_action": nil,
		"payment_method": "pm_" + suffix(id), "payment_method_configuration_details": nil, "processing": nil,
		"shipping": nil, "status": "succeeded", "transfer_data": nil,
	}, "amount", "amount_received")
}

// NewCharge returns a charge that was captured and neither refunded nor disputed.
func NewCharge(id string, overrides map[string]any) map[string]any {
	return build("charge", id, overrides, map[string]any{
		"amount": defaultAmount, "balance_transaction": "txn_" + suffix(id), "captured": true,
		"created": time.Now().Unix(), "description": nil, "payment_intent": "pi_" + suffix(id),
		"payment_method": "pm_" + suffix(id), "receipt_url": nil, "shipping": nil, "transfer_data": nil,
		"outcome": map[string]any{
			"advice_code": nil, "network_advice_code": nil, "network_decline_code": nil, "network_status": "approved_by_network",
			"reason": nil, "risk_level": "normal", "seller_message": "Payment complete.", "type": "authorized",
		},
	}, "amount", "amount_captured")
}

// NewBalanceTransaction returns the balance transaction of a charge. Its fee is 175, and
// net is the rest of the amount.
func NewBalanceTransaction(id string, overrides map[string]any) map[string]any {
	created := time.Now().Unix()
	transaction := build("balance_transaction", id, overrides, map[string]any{
		"amount": defaultAmount, "available_on": created + 2*86400, "created": created, "description": nil,
		"fee": defaultFee, "source": "ch_" + suffix(id), "status": "pending", "type": "charge",
	})
	if _, given := overrides["net"]; !given {
		transaction["net"] = number(transaction["amount"]) - number(transaction["fee"])
	}
	if _, given := overrides["fee_details"]; !given {
		transaction["fee_details"] = []any{map[string]any{
			"amount": transaction["fee"], "application": nil, "currency": transaction["currency"],
			"description": "Stripe processing fees", "type": "stripe_fee",
		}}
	}
	return transaction
}

// NewRefund returns a refund of a whole charge that has succeeded.
func NewRefund(id string, overrides map[string]any) map[string]any {
	return build("refund", id, overrides, map[string]any{
		"amount": defaultAmount, "charge": "ch_" + suffix(id), "created": time.Now().Unix(),
		"payment_intent": "pi_" + suffix(id),
	})
}

// NewDispute returns a dispute about a whole charge that needs a response.
func NewDispute(id string, overrides map[string]any) map[string]any {
	created := time.Now().Unix()
	return build("dispute", id, overrides, map[string]any{
		"amount": defaultAmount, "charge": "ch_" + suffix(id), "created": created, "enhanced_eligibility_types": []any{},
		"evidence_details": map[string]any{
			"due_by": created + 7*86400, "enhanced_eligibility": map[string]any{}, "has_evidence": false, "past_due": false, "submission_count": 0,
		},
		"is_charge_refundable": false, "payment_intent": "pi_" + suffix(id),
		"payment_method_details": map[string]any{
			"card": map[string]any{"brand": "visa", "case_type": "chargeback", "network_reason_code": "10.4"}, "type": "card",
		},
		"reason": "fraudulent", "status": "needs_response",
	})
}

// NewInvoice returns an invoice that is paid. It has the customer cus_ and no subscription.
// The invoice of a subscription has these overrides:
//
//	"billing_reason": "subscription_create",
//	"parent": map[string]any{
//		"type": "subscription_details",
//		"subscription_details": map[string]any{"subscription": "sub_a", "metadata": map[string]any{}},
//	}
func NewInvoice(id string, overrides map[string]any) map[string]any {
	created := time.Now().Unix()
	if c := number(roundTrip(overrides)["created"]); c != 0 {
		created = int64(c)
	}
	invoice := build("invoice", id, overrides, map[string]any{
		"amount_overpaid": 0, "amount_paid": defaultAmount, "amount_remaining": 0, "attempt_count": 1, "attempted": true,
		"automatically_finalizes_at": nil, "created": created, "customer": "cus_" + suffix(id), "customer_address": nil,
		"customer_email": "buyer@example.com", "customer_shipping": nil, "due_date": nil, "effective_at": created,
		"from_invoice": nil, "last_finalization_error": nil, "next_payment_attempt": nil, "number": "TEST-0001",
		"parent": nil, "period_end": created, "period_start": created, "rendering": nil, "shipping_cost": nil,
		"shipping_details": nil, "status": "paid",
		"status_transitions": map[string]any{
			"finalized_at": created, "marked_uncollectible_at": nil, "paid_at": created, "voided_at": nil,
		},
		"total_pretax_credit_amounts": []any{}, "total_taxes": []any{}, "webhooks_delivered_at": created,
	}, "amount_paid", "amount_due", "subtotal", "subtotal_excluding_tax", "total", "total_excluding_tax")
	if _, given := overrides["lines"]; !given {
		setLines(invoice)
	}
	return invoice
}

// setLines replaces the lines of an invoice by one line with the amount of the invoice.
func setLines(invoice map[string]any) {
	lines, _ := at(invoice, "lines", "data").([]any)
	line, _ := lines[0].(map[string]any)
	maps.Copy(line, map[string]any{
		"id": "il_" + suffix(text(invoice, "id")), "amount": invoice["subtotal"], "currency": invoice["currency"],
		"description": nil, "invoice": invoice["id"], "livemode": invoice["livemode"], "parent": nil,
		"period":  map[string]any{"end": invoice["period_end"], "start": invoice["period_start"]},
		"pricing": nil, "subscription": at(invoice, "parent", "subscription_details", "subscription"),
		"subtotal": invoice["subtotal"], "taxes": []any{},
	})
	invoice["lines"] = map[string]any{
		"data": []any{line}, "has_more": false, "object": "list", "url": "/v1/invoices/" + text(invoice, "id") + "/lines",
	}
}

// NewInvoicePayment returns the payment of an invoice by a payment intent.
func NewInvoicePayment(id string, overrides map[string]any) map[string]any {
	created := time.Now().Unix()
	return build("invoice_payment", id, overrides, map[string]any{
		"amount_paid": defaultAmount, "created": created, "currency": "usd", "invoice": "in_" + suffix(id),
		"is_default": true, "livemode": false, "status": "paid",
		"payment":            map[string]any{"payment_intent": "pi_" + suffix(id), "type": "payment_intent"},
		"status_transitions": map[string]any{"canceled_at": nil, "paid_at": created},
	}, "amount_paid", "amount_requested")
}

// NewPromotionCode returns an active promotion code. Its text is the upper case of the
// last part of the id.
func NewPromotionCode(id string, overrides map[string]any) map[string]any {
	return build("promotion_code", id, overrides, map[string]any{
		"active": true, "code": strings.ToUpper(suffix(id)), "created": time.Now().Unix(), "expires_at": nil,
		"promotion": map[string]any{"coupon": "coupon_" + suffix(id), "type": "coupon"},
	})
}

// suffix returns the part of an id after the last underscore.
func suffix(id string) string { return id[strings.LastIndex(id, "_")+1:] }

// build returns an object. Its fields come from stripe-mock's example, from defaults and
// from overrides; the later ones take precedence. The fields after the first element of
// amounts get the value of the first, unless overrides has them.
func build(object, id string, overrides, defaults map[string]any, amounts ...string) map[string]any {
	d := mustLoad()
	fields := d.fixture(object)
	for field := range fields {
		if d.schemas[object].Properties[field] == nil {
			delete(fields, field) // a field of an old version of the API
		}
	}
	if object == "charge" {
		delete(fields, "refunds") // only part of a response in which it is expanded
	}
	maps.Copy(fields, roundTrip(defaults))
	merge(fields, roundTrip(overrides))
	fields["id"] = id
	if len(amounts) > 0 {
		for _, field := range amounts[1:] {
			if _, given := overrides[field]; !given {
				fields[field] = fields[amounts[0]]
			}
		}
	}
	return fields
}

// roundTrip returns a copy of an object as encoding/json decodes it. The copy of nil is an
// empty object.
func roundTrip(object map[string]any) map[string]any {
	if object == nil {
		return map[string]any{}
	}
	return deepCopy(object)
}

// merge sets the fields of an object and, recursively, those of its nested objects.
func merge(object, overrides map[string]any) {
	for field, value := range overrides {
		from, ok := value.(map[string]any)
		into, isObject := object[field].(map[string]any)
		if ok && isObject {
			merge(into, from)
			continue
		}
		object[field] = value
	}
}
