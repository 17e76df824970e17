package inventory

var processors = Area{
	Title:   "Payment processors",
	Data:    "Ids of sales, charges and disputes at the payment processor or of the merchant; its messages, encrypted; the account and key of the merchant",
	Purpose: "Sales, refunds and disputes that a payment processor reports, and disputes that a merchant reports",
	Kept:    "No time limit. Messages: until they are applied, at most 90 days",
	Tables: []Table{
		{
			Name:    "processor_connections",
			Row:     "The connected account of a merchant at a payment processor.",
			Kept:    "Until the merchant disconnects it and its endpoint at the payment processor is removed.",
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				pseudonymous(member, "account_id", "id of the merchant's account at the payment processor", Effects{}).
					because("The key and the secrets are destroyed at once. The row is deleted when the endpoint at the payment processor is removed."),
				business("workspace_id id mode processor key endpoint_id secret previous_secret previous_secret_until create_conversions include_out_of_band"),
				business("connected_at failure_notified_on updated_at deleted_at endpoint_failing resync_number resync_since resync_from"),
			},
		},
		{
			Name: "processor_events",
			Row:  "A message of a payment processor about a sale, refund or dispute.",
			Kept: "90 days. The encrypted content is removed as soon as it is applied or ignored.",
			Columns: []Columns{
				personal(buyer, "body", "encrypted content of the message, which can contain the name and address of the buyer", sale(Null)),
				ids(buyer, "id", "id of the message at the payment processor"),
				pseudonymous(buyer, "charge_id", "id of the charge at the payment processor", sale(Null)),
				ids(member, "account_id", "id of the merchant's account at the payment processor"),
				business("workspace_id connection_id mode type resync since status reason conversion_id happened_at received_at processed_at attempt_until"),
			},
		},
		{
			Name: "conversion_aliases",
			Row:  "An id by which the payment processor names the sale of a conversion.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(buyer, "id", "id of the sale at the payment processor", sale(Pseudonym)).
					because("A text made of the keyed digest replaces the id, so that later messages about the sale are applied."),
				business("workspace_id mode conversion_id"),
			},
		},
		{
			Name: "processor_charges",
			Row:  "The refunds of a charge. The disputes that a merchant reports about a conversion have one charge.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(buyer, "id", "id of the charge at the payment processor", sale(Pseudonym)).because("As in conversion_aliases."),
				business("workspace_id mode currency amount_cents refunded_cents conversion_id read_number applied_number happened_at updated_at"),
			},
		},
		{
			Name: "processor_charge_aliases",
			Row:  "An id of the sale of a charge.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(buyer, "id charge_id", "ids of the sale and the charge at the payment processor", sale(Pseudonym)).because("As in conversion_aliases."),
				business("workspace_id mode"),
			},
		},
		{
			Name: "processor_disputes",
			Row:  "A dispute about a charge.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(buyer, "id charge_id", "ids of the dispute and the charge at the payment processor, or the merchant's id of the dispute", sale(Pseudonym)).because("As in conversion_aliases."),
				business("workspace_id mode status amount_cents updated_at"),
			},
		},
		{
			Name: "processor_promo_codes",
			Row:  "A promo code that was created at the payment processor.",
			Kept: unlimited,
			Columns: []Columns{
				personal(partner, "code", "promo code", participation(Pseudonym)),
				ids(member, "account_id", "id of the merchant's account at the payment processor"),
				business("workspace_id mode promotion_code_id coupon_id promo_code_id terms active created_at"),
			},
		},
		{
			Name: "processor_signature_failures", Row: "The number of messages with an invalid signature in an hour.", Kept: "48 hours.",
			Columns: []Columns{business("workspace_id connection_id hour failures")},
		},
	},
}

var webhooks = Area{
	Title:   "Events and webhooks",
	Data:    "The content of events: names and codes of partners, ids of sales",
	Purpose: "Messages to the merchant's own systems",
	Kept:    "30 days in the API, then deleted in whole weeks. Endpoints: no time limit",
	Tables: []Table{
		{
			Name: "events",
			Row:  "An event with its content, as it is sent to webhook endpoints.",
			Kept: "Whole weeks are deleted 34 days after their end.",
			Columns: []Columns{
				personal(partnerOrBuyer, "body", "content of the event: names, codes and reasons about partners, ids of sales", everyone(Redacted)).
					because("The pseudonym replaces names, codes, texts and ids of sales. Amounts and states stay."),
				ids(partner, "subject_id", "id of the participation"),
				business("workspace_id id day mode type created_at trace_reference"),
			},
		},
		{
			Name: "webhook_endpoints",
			Row:  "An address of the merchant that receives events.",
			Kept: "No time limit. An erasure of the workspace marks its endpoints as deleted.",
			Columns: []Columns{
				personal(member, "description", "description that a member wrote", workspace(Null)),
				merchantText("url", "address of the endpoint", Emptied),
				merchantText("secret previous_secret", "encrypted secrets", Null),
				business("workspace_id id mode subscriptions active disabled_reason previous_until epoch created_at updated_at version deleted_at"),
				business("consecutive_failures failing_since dead_letters last_delivery_at sender sender_until last_dead_letter_day"),
			},
		},
		{
			Name: "webhook_deliveries", Row: "The delivery of an event to an endpoint, with the statuses of its attempts.", Kept: "Like events.",
			Columns: []Columns{business(
				"workspace_id endpoint_id id day mode event_id event_type epoch status due_at tier extra attempt_count http_status_code error_message attempts created_at completed_at",
			)},
		},
	},
}
