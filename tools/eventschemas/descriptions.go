package main

const pingDescription = "A member tests an endpoint. The event is sent to this endpoint only and needs no subscription."

// titles maps nouns to their titles on the page, if the title is not the noun itself. The
// noun of an event is the part of its name before the dot.
var titles = map[string]string{"program": "programme", "webhook": "tested endpoint"}

// enums maps the paths of fields to the values of their enumerations. It contains only
// the fields whose Go type is string, because readSource finds the values of all other
// types.
var enums = map[string][]string{
	"refund.type": {"full", "partial"},
}

// meanings maps fields to descriptions. A key without a dot is the name of a field in any
// object. Its description is used if the field has no comment in Go. A key with a dot is
// the path of one field, and its description is used instead of a comment.
var meanings = map[string]string{
	"id":             "The object's id.",
	"program_id":     "The programme.",
	"participant_id": "The participant: the partner in this programme.",
	"conversion_id":  "The conversion that earned the commission.",
	"batch_id":       "The payout batch.",
	"fraud_event_id": "The fraud event.",
	"decision_id":    "The attribution decision.",
	"webhook_id":     "The endpoint.",
	"event_type":     "The kind of the reported event.",
	"status":         "The current status.",
	"currency":       "The ISO 4217 code of the currency.",
	"version":        "The version of the object. It increases by one with every change, so the event with the higher version is newer.",
	"method":         "The payout method.",
	"partner_name":   "The partner's name.",
	"name":           "The programme's name.",
	"slug":           "The programme's name in addresses.",
	"description":    "A description; null if there is none.",
	"discount_type":  "Whether the discount is a percentage or a fixed amount.",
	"occurred_at":    "The time of the reported event.",
	"created_at":     "The time when the object was recorded.",

	"refund":                "The effect of the refund on the commission.",
	"refund.amount_cents":   "The amount that was deducted from the commission, in minor units of its currency.",
	"refund.clawback_cents": "The part of amount_cents that had already been paid to the partner.",
	"refund.reason":         "Why the amount was deducted: a refund, a lost dispute, or because the conversion was attributed to another participant.",
	"signals.rule":          "The rule's name.",
	"signals.score":         "The points that the rule added to the fraud score.",
	"signals.evidence":      "The reason why the rule matched, in one sentence.",
	"utm.source":            "The value of utm_source; null if there is none.",
	"utm.medium":            "The value of utm_medium; null if there is none.",
	"utm.campaign":          "The value of utm_campaign; null if there is none.",
	"utm.term":              "The value of utm_term; null if there is none.",
	"utm.content":           "The value of utm_content; null if there is none.",

	"commission_rules.commission_type":            "Whether the programme's own rate is a percentage of the sale or a flat amount.",
	"commission_rules.percentage":                 "The rate in percent of the base, with at most two decimals; null for a flat amount.",
	"commission_rules.flat_amount_cents":          "The amount for each conversion, in minor units of the programme's currency; null for a percentage.",
	"commission_rules.hold_period_days":           "The hold period: the number of days for which a commission stays pending in case the sale is refunded.",
	"commission_rules.auto_approval":              "Whether commissions are approved automatically when their hold period ends.",
	"commission_rules.net_basis":                  "The costs that are deducted from the amount before a percentage is applied.",
	"commission_rules.recurring":                  "How long the payments of a customer earn commissions.",
	"commission_rules.recurring.enabled":          "Whether payments after the first payment earn a commission.",
	"commission_rules.recurring.max_months":       "The number of months after the first payment in which payments earn a commission; null: no limit.",
	"commission_rules.recurring.max_payments":     "The number of payments that earn a commission, including the first; null: no limit.",
	"commission_rules.later_percentage":           "The rate in percent from a customer's second payment on; null: the same rate for all payments.",
	"commission_rules.min_order_cents":            "The smallest amount of an order that earns a commission, in minor units of the programme's currency; null: no minimum.",
	"commission_rules.cap_cents":                  "The highest commission for one order, in minor units of the programme's currency; null: no cap.",
	"commission_rules.tiers":                      "Rates that depend on the number or revenue of the participant's earlier conversions. The highest tier that the participant has reached applies.",
	"commission_rules.tiers.min_conversions":      "The number of the participant's earlier conversions, without conversions that were refunded in full; null if the tier depends on revenue.",
	"commission_rules.tiers.min_revenue_cents":    "The revenue of the participant's earlier conversions, in minor units of the programme's currency; null if the tier depends on the number of conversions.",
	"commission_rules.tiers.percentage":           "The rate in percent, with at most two decimals.",
	"commission_rules.products":                   "Rates for individual products.",
	"commission_rules.products.product_id":        "The merchant's id of the product.",
	"commission_rules.products.percentage":        "The rate in percent, with at most two decimals; null for a flat amount.",
	"commission_rules.products.flat_amount_cents": "The amount for each unit sold, in minor units of the programme's currency; null for a percentage.",
	"commission_rules.events":                     "The events that earn a commission, with an optional rate. If the list is empty, purchases and renewals earn a commission.",
	"commission_rules.events.event_type":          "The event that earns a commission.",
	"commission_rules.events.percentage":          "The rate in percent, with at most two decimals. If percentage and flat_amount_cents are null, the programme's own rate applies.",
	"commission_rules.events.flat_amount_cents":   "The amount for each event, in minor units of the programme's currency; null for a percentage or the programme's own rate.",
}
