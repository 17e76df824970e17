package main

const pingDescription = "Somebody tries the endpoint. It goes to that endpoint alone and needs no subscription."

// titles are what nouns are called where that is not the word itself.
var titles = map[string]string{"program": "programme", "webhook": "endpoint that is tried"}

// enums are the values of fields whose type in Go is string, by their paths.
var enums = map[string][]string{
	"refund.type": {"full", "partial"},
}

// meanings are those of fields without a comment in Go: by its key what means the
// same in every object, and by its path what is of one. A path wins over a comment.
var meanings = map[string]string{
	"id":             "The object's id.",
	"program_id":     "The programme.",
	"participant_id": "The partner in this programme.",
	"conversion_id":  "The conversion that earned it.",
	"batch_id":       "The payouts that were made together with it.",
	"fraud_event_id": "The entry in the list of fraud events.",
	"decision_id":    "The decision.",
	"webhook_id":     "The endpoint.",
	"event_type":     "What the merchant reported.",
	"status":         "Where it stands now.",
	"currency":       "ISO 4217.",
	"version":        "One more with every change of the object: of two events the higher one is newer.",
	"method":         "How the partner is paid.",
	"partner_name":   "The partner's name.",
	"name":           "The programme's name, for people.",
	"slug":           "The programme's name in addresses.",
	"description":    "For people; null without one.",
	"discount_type":  "Whether the discount is a share or a sum.",
	"occurred_at":    "When it happened, as reported.",
	"created_at":     "When it was recorded.",

	"refund":                "What the refund did to the commission.",
	"refund.amount_cents":   "What the commission lost, in minor units of its currency.",
	"refund.clawback_cents": "What of it had been paid to the partner already.",
	"refund.reason":         "What took the sale back: a refund, a lost dispute, or that somebody else was given the conversion.",
	"signals.rule":          "The rule's name.",
	"signals.score":         "What it adds to the score.",
	"signals.evidence":      "What it saw, in a sentence.",
	"utm.source":            "utm_source; null: not set.",
	"utm.medium":            "utm_medium; null: not set.",
	"utm.campaign":          "utm_campaign; null: not set.",
	"utm.term":              "utm_term; null: not set.",
	"utm.content":           "utm_content; null: not set.",

	"commission_rules.commission_type":            "Whether a commission is a share of the sale or a sum.",
	"commission_rules.percentage":                 "Percent of the base with at most two decimals; null for flat.",
	"commission_rules.flat_amount_cents":          "Minor units of the programme's currency for each conversion; null for percentage.",
	"commission_rules.hold_period_days":           "Days for which a commission waits for refunds.",
	"commission_rules.auto_approval":              "Whether the end of the hold approves by itself.",
	"commission_rules.net_basis":                  "What is taken off the amount before a percentage is applied.",
	"commission_rules.recurring":                  "For how long a customer's payments earn.",
	"commission_rules.recurring.enabled":          "Whether a customer's payments after the first earn.",
	"commission_rules.recurring.max_months":       "Months from the first payment; null: no end.",
	"commission_rules.recurring.max_payments":     "Payments, the first included; null: no limit.",
	"commission_rules.later_percentage":           "Percent from a customer's second payment on; null: the same rate.",
	"commission_rules.min_order_cents":            "Orders below it earn nothing, minor units of the programme's currency; null: none is too small.",
	"commission_rules.cap_cents":                  "The most that one order earns, minor units of the programme's currency; null: no cap.",
	"commission_rules.tiers":                      "Rates by what a partner has brought so far; the highest threshold reached applies.",
	"commission_rules.tiers.min_conversions":      "Conversions of the partner before this one that were not refunded; null: the tier is by revenue.",
	"commission_rules.tiers.min_revenue_cents":    "Their revenue in minor units of the programme's currency; null: the tier is by conversions.",
	"commission_rules.tiers.percentage":           "Percent with at most two decimals.",
	"commission_rules.products":                   "Rates of single products.",
	"commission_rules.products.product_id":        "The merchant's id of the product.",
	"commission_rules.products.percentage":        "Percent with at most two decimals; null for flat.",
	"commission_rules.products.flat_amount_cents": "Minor units of the programme's currency for each unit sold; null for percentage.",
	"commission_rules.events":                     "Which events earn, and at what rate of their own; empty: purchase and renewal.",
	"commission_rules.events.event_type":          "The event that earns.",
	"commission_rules.events.percentage":          "Percent with at most two decimals; where flat_amount_cents is null too, the programme's own rate applies.",
	"commission_rules.events.flat_amount_cents":   "Minor units of the programme's currency for each event; null when the rate is a percentage or the programme's own.",
}
