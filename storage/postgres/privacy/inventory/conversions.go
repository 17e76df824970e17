package inventory

var conversions = Area{
	Title: "Conversions and buyers",
	Data: "Transactions that merchants or payment processors report: ids of the transaction, keyed hashes of the customer id, e-mail address, IP address and user agent, " +
		"domain of the address, products, and the merchant's own fields. Names and addresses of buyers are not stored",
	Purpose: "The attribution of sales to partners, and refunds",
	Kept:    "No time limit",
	Tables: []Table{
		table("conversions", "A purchase, signup or other event of a buyer that a merchant or payment processor has reported.", unlimited,
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
		),
		table("customers", "A customer of a merchant, and the participant who brought the customer.", unlimited,
			pseudonymous(buyer, "ref", "keyed hash of the customer id", Effects{}),
			personal(buyer, "label", "the merchant's name for the customer", Effects{}),
			ids(partner, "participant_id", "id of the participation"),
			business("workspace_id mode program_id conversion_id bound_at signal_at window_ends_at created_at"),
		).deletedBy(WorkspaceErasure, BuyerErasure),
		table("customer_payments", "The number of payments of a customer in a programme.", unlimited,
			pseudonymous(buyer, "ref", "keyed hash of the customer id", Effects{}),
			business("workspace_id mode program_id payments first_at"),
		).deletedBy(WorkspaceErasure, BuyerErasure),
		table("refunds", "A reported refund. A refund whose sale is not reported yet is parked.", "No time limit. A parked refund is kept for 90 days.",
			pseudonymous(buyer, "external_transaction_id external_refund_id", "ids that the merchant gave the transaction and the refund", sale(Pseudonym)).
				because("Parked refunds are deleted."),
			personal(buyer, "reason", "reason that the merchant reported", sale(Null)),
			business("workspace_id id mode conversion_id asked_cents amount_cents created_at applied_at expires_at"),
		),
	},
}

var decisions = Area{
	Title:   "Attribution and fraud checks",
	Data:    "Why a conversion was or was not attributed to a partner; suspicions of fraud",
	Purpose: "Proof of decisions about commissions, and the detection of fraud",
	Kept:    "No time limit",
	Tables: []Table{
		table("attribution_decisions", "A decision to whom a conversion is attributed, with its inputs. Rows are only added.",
			"At least 25 months. At present they are not deleted.",
			personal(partnerOrBuyer, "trace explanation", "inputs and steps of the decision, which name codes, clicks and products, and an explanation in sentences", everyone(Redacted)).
				because("The pseudonym replaces codes; ids of products are removed."),
			ids(visitor, "click_id", "id of the click"),
			ids(partner, "participant_id", "id of the participation"),
			ids(member, "decided_by", "id of the member who made the decision"),
			business("workspace_id id conversion_id mode attributed method reason_code engine_version program_id clicked_at expires_at supersedes decided_at"),
		),
		table("fraud_events", "A suspicion of fraud about a conversion.", unlimited,
			pseudonymous(partnerOrBuyer, "signals", "fraud rules that fired, with a sentence each that contains no personal data", everyone(Kept)),
			personal(partner, "note", "note of a member about the suspicion", participation(Null)),
			ids(partner, "participant_id", "id of the participation"),
			ids(member, "resolved_by", "id of the member who resolved it"),
			business("workspace_id id mode program_id conversion_id commission_id score action status resolved_at created_at"),
		),
	},
}

const (
	clickRetention = "13 months. Then daily sums replace it. The hashes and the network are removed after 90 days."
	// deadLetterNote explains what erasures do to dead letters.
	deadLetterNote = "An erasure deletes the records that contain the workspace and the id or a code of the erased participant. A record has no reference to a buyer, so it stays until it is 90 days old."
)

var clicks = Area{
	Title: "Clicks",
	Data: "Time and pages of a visit, labels of the link, keyed hashes of the IP address and user agent, the network (/24 or /48), country, kind of device, browser, " +
		"language, screen size. Full IP addresses are never stored",
	Purpose: "The attribution of sales to partners, statistics, and the detection of fraud",
	Kept:    "13 months; hashes and network 90 days; daily sums without a time limit",
	Tables: []Table{
		table("clicks", "A visit of a merchant's page through the link or code of a partner.", clickRetention,
			ids(visitor, "id", "id of the click, which the browser of the visitor may store"),
			ids(partner, "participant_id", "id of the participation"),
			personal(partner, "referral_code", "referral code", participation(Pseudonym)),
			personal([]Subject{Partner, Visitor}, "landing_url referrer_domain", "page of the visit, domain of the page with the link", everyone(Null)),
			personal([]Subject{Partner, Visitor}, "sub_id utm_source utm_medium utm_campaign utm_term utm_content", "labels of the link", everyone(Null)),
			personal(visitor, "ip_prefix", "network (/24 or /48) of the IP address", everyone(Null)),
			pseudonymous(visitor, "ip_hash ua_hash", "keyed hashes of the IP address and the user agent", everyone(Null)),
			pseudonymous(visitor, "language screen", "language and screen size of the browser", everyone(Null)),
			pseudonymous(
				visitor, "country region device browser os paid_platform", "country and region, kind of device, browser, system, ad platform",
				Effects{Participant: Kept, Account: Kept, Workspace: Null, Buyer: Null},
			).because("The erasure of a participant keeps these values for the statistics of the programme. They are too coarse to identify a visitor without the hashes."),
			business("workspace_id clicked_at mode program_id link_id received_at expires_at created_at occurred_at consent"),
			business("is_bot bot_reason foreign_origin is_unique"),
		),
		table("click_days", "The number of clicks of a link on a day, by country, device and campaign. It replaces the clicks.", unlimited,
			ids(partner, "participant_id", "id of the participation"),
			personal(partner, "referrer_domain utm_source utm_medium utm_campaign", "domain of the page with the link, labels of the link", participation(Null)),
			business("workspace_id mode program_id link_id day country device browser os paid_platform others clicks unique_clicks bot_clicks"),
		),
		table("click_dead_letters", "A click that could not be stored in the table of clicks, with the reason.", "90 days.",
			pseudonymous(visitor, "id", "id of the click", Effects{Participant: RowDeleted, Account: RowDeleted, Workspace: RowDeleted, Buyer: Kept}),
			personal([]Subject{Partner, Visitor}, "record", "click that could not be stored, with the data of the table clicks",
				Effects{Participant: RowDeleted, Account: RowDeleted, Workspace: RowDeleted, Buyer: Kept}).because(deadLetterNote),
			business("reason created_at"),
		),
		{Name: "click_rolls", Row: "How far the clicks of a day are replaced by sums.", Kept: "Until the day is finished.", Columns: []Columns{business("day_table block")}},
		table("awaited_clicks", "A reported conversion whose click has not arrived yet.", "24 hours.",
			pseudonymous([]Subject{Buyer, Visitor}, "click_id", "id of the click", sale(Kept)).
				because("If the click arrives after the erasure of the buyer, the data of the visitor are removed from it."),
			business("workspace_id conversion_id mode created_at expires_at"),
		).deletedBy(WorkspaceErasure),
	},
}

// valuesNote explains what erasures do to the values of the analytics.
const valuesNote = "An erasure moves the numbers of the erased clicks and conversions to those without a value, and deletes the values that are left without numbers."

var analytics = Area{
	Title:   "Analytics",
	Data:    "Values of clicks and conversions with sums, and keyed hashes of customer ids",
	Purpose: "Statistics for merchants and partners",
	Kept:    "No time limit",
	Tables: []Table{
		table("analytics_days", "The numbers of a participant, link or programme and of one value of clicks and conversions on a day.", unlimited,
			ids(partner, "participant_id", "id of the participation"),
			personal([]Subject{Partner, Visitor}, "value", "page, domain, label or promo code of clicks and conversions", everyone(Redacted)).because(valuesNote),
			business("workspace_id mode program_id dimension day currency link_id clicks unique_clicks bot_clicks conversions signups new_customers"),
			business("approved paid orders revenue_cents refunded_cents commission_cents quarters"),
		),
		table("analytics_values", "A value that has sums of its own on a day.", unlimited,
			personal([]Subject{Partner, Visitor}, "value", "page, domain, label or promo code of clicks and conversions", everyone(Redacted)).because(valuesNote),
			business("workspace_id mode dimension day weight"),
		),
		table("analytics_log", "A change that is not part of the sums yet.", "Until a job has added it to the sums, a few seconds.",
			personal([]Subject{Partner, Visitor}, "clicks", "values of clicks", everyone(RowDeleted)),
			ids(partner, "erased", "id of an erased participation"),
			business("workspace_id mode id oldest_click conversions created_at"),
		),
		table("analytics_conversions", "A conversion as it is contained in the sums.", unlimited,
			ids(partner, "participant_id", "id of the participation"),
			ids(visitor, "click_id", "id of the click"),
			pseudonymous(buyer, "customer_ref", "keyed hash of the customer id", sale(Null)),
			personal([]Subject{Partner, Visitor}, "dimension_values", "values of the conversion and its click, as in the table clicks", everyone(Redacted)).because(valuesNote),
			business("workspace_id mode conversion_id program_id link_id occurred_at event_type currency amount_cents refunded_cents"),
			business("commission_status commission_cents commission_currency without_customer"),
		),
		table("analytics_customers", "A customer as it is contained in the sums.", unlimited,
			ids(partner, "participant_id", "id of the participation of the first conversion"),
			ids(partner, "activity", "numbers of the customer's conversions by month, with ids of participations"),
			pseudonymous(buyer, "customer_ref", "keyed hash of the customer id", sale(RowDeleted)),
			business("workspace_id mode conversion_id first_at program_id link_id"),
		),
		table("analytics_cohorts", "The numbers of the customers whose first conversion was in one month.", unlimited,
			ids(partner, "participant_id", "id of the participation"),
			business("workspace_id mode program_id link_id cohort month currency customers conversions revenue_cents commission_cents"),
		),
		{Name: "analytics_locks", Row: "A lock of the sums of a workspace.", Kept: unlimited, Columns: []Columns{business("workspace_id mode version")}},
	},
}
