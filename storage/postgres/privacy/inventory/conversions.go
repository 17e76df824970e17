package inventory

var conversions = Area{
	Title: "Conversions and buyers",
	Data: "Transactions that merchants or payment processors report: ids of the transaction, keyed hashes of the customer id, e-mail address, IP address and user agent, " +
		"domain of the address, products, and the merchant's own fields. Names and addresses of buyers are not stored",
	Purpose: "The attribution of sales to partners, and refunds",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "conversions",
			Row:  "A purchase, signup or other event of a buyer that a merchant or payment processor has reported.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(buyer, "external_transaction_id", "id that the merchant gave the transaction", sale(Pseudonym)).
					because("The keyed digest stays, so that a repeated report is refused and a refund is applied."),
				pseudonymous(buyer, "customer_ref customer_email_hash", "keyed hashes of the customer id and the e-mail address", sale(Null)),
				pseudonymous(buyer, "customer_ip_hash customer_ua_hash", "keyed hashes of the IP address and the user agent", sale(Null)),
				personal(buyer, "customer_email_domain", "domain of the e-mail address", sale(Null)),
				pseudonymous(buyer, "subscription_id processor", "ids of the subscription, the customer and the sale at the merchant or the payment processor", sale(Null)),
				pseudonymous(buyer, "product_ids", "ids of the products", sale(Emptied)),
				pseudonymous(buyer, "line_items", "products with quantity and amount", sale(Null)),
				personal(buyer, "metadata", "fields that the merchant added", sale(Null)),
				pseudonymous(partnerOrBuyer, "fraud_signals", "fraud rules that fired, with a sentence each that contains no personal data", everyone(Kept)),
				ids(visitor, "click_id", "id of the click"),
				ids(partner, "participant_id", "id of the participation"),
				personal(partner, "promo_code", "promo code", participation(Pseudonym)),
				personal(partnerOrBuyer, "sub_id", "label of the link", everyone(Null)),
				business("workspace_id id mode event_type amount_cents currency tax_cents shipping_cents fee_cents discount_cents occurred_at created_at"),
				business("source status refunded_amount_cents attributed reason_code decision_id program_id is_recurring fraud_score version link_id recurring_index buyer_erased_at"),
			},
		},
		{
			Name:    "customers",
			Row:     "A customer of a merchant, and the participant who brought the customer.",
			Kept:    unlimited,
			Deleted: []Erasure{WorkspaceErasure, BuyerErasure},
			Columns: []Columns{
				pseudonymous(buyer, "ref", "keyed hash of the customer id", Effects{}),
				personal(buyer, "label", "the merchant's name for the customer", Effects{}),
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id mode program_id conversion_id bound_at signal_at window_ends_at created_at"),
			},
		},
		{
			Name:    "customer_payments",
			Row:     "The number of payments of a customer in a programme.",
			Kept:    unlimited,
			Deleted: []Erasure{WorkspaceErasure, BuyerErasure},
			Columns: []Columns{
				pseudonymous(buyer, "ref", "keyed hash of the customer id", Effects{}),
				business("workspace_id mode program_id payments first_at"),
			},
		},
		{
			Name: "refunds",
			Row:  "A reported refund. A refund whose sale is not reported yet is parked.",
			Kept: "No time limit. A parked refund is kept for 90 days.",
			Columns: []Columns{
				pseudonymous(buyer, "external_transaction_id external_refund_id", "ids that the merchant gave the transaction and the refund", sale(Pseudonym)).
					because("Parked refunds are deleted."),
				personal(buyer, "reason", "reason that the merchant reported", sale(Null)),
				business("workspace_id id mode conversion_id asked_cents amount_cents created_at applied_at expires_at"),
			},
		},
	},
}

var decisions = Area{
	Title:   "Attribution and fraud checks",
	Data:    "Why a conversion was or was not attributed to a partner; suspicions of fraud",
	Purpose: "Proof of decisions about commissions, and the detection of fraud",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "attribution_decisions",
			Row:  "A decision to whom a conversion is attributed, with its inputs. Rows are only added.",
			Kept: "At least 25 months. At present they are not deleted.",
			Columns: []Columns{
				personal(partnerOrBuyer, "trace explanation", "inputs and steps of the decision, which name codes, clicks and products, and an explanation in sentences", everyone(Redacted)).
					because("The pseudonym replaces codes; ids of products are removed."),
				ids(visitor, "click_id", "id of the click"),
				ids(partner, "participant_id", "id of the participation"),
				ids(member, "decided_by", "id of the member who made the decision"),
				business("workspace_id id conversion_id mode attributed method reason_code engine_version program_id clicked_at expires_at supersedes decided_at"),
			},
		},
		{
			Name: "fraud_events",
			Row:  "A suspicion of fraud about a conversion.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(partnerOrBuyer, "signals", "fraud rules that fired, with a sentence each that contains no personal data", everyone(Kept)),
				personal(partner, "note", "note of a member about the suspicion", participation(Null)),
				ids(partner, "participant_id", "id of the participation"),
				ids(member, "resolved_by", "id of the member who resolved it"),
				business("workspace_id id mode program_id conversion_id commission_id score action status resolved_at created_at"),
			},
		},
	},
}
