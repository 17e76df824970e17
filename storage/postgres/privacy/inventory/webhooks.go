package inventory

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
