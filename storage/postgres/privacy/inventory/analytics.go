package inventory

// valuesNote explains what erasures do to the values of the analytics.
const valuesNote = "An erasure moves the numbers of the erased clicks and conversions to those without a value, and deletes the values that are left without numbers."

var analytics = Area{
	Title:   "Analytics",
	Data:    "Values of clicks and conversions with sums, and keyed hashes of customer ids",
	Purpose: "Statistics for merchants and partners",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "analytics_days",
			Row:  "The numbers of a participant, link or programme and of one value of clicks and conversions on a day.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				personal([]Subject{Partner, Visitor}, "value", "page, domain, label or promo code of clicks and conversions", everyone(Redacted)).because(valuesNote),
				business("workspace_id mode program_id dimension day currency link_id clicks unique_clicks bot_clicks conversions signups new_customers"),
				business("approved paid orders revenue_cents refunded_cents commission_cents quarters"),
			},
		},
		{
			Name: "analytics_values",
			Row:  "A value that has sums of its own on a day.",
			Kept: unlimited,
			Columns: []Columns{
				personal([]Subject{Partner, Visitor}, "value", "page, domain, label or promo code of clicks and conversions", everyone(Redacted)).because(valuesNote),
				business("workspace_id mode dimension day weight"),
			},
		},
		{
			Name: "analytics_log",
			Row:  "A change that is not part of the sums yet.",
			Kept: "Until a job has added it to the sums, a few seconds.",
			Columns: []Columns{
				personal([]Subject{Partner, Visitor}, "clicks", "values of clicks", everyone(RowDeleted)),
				ids(partner, "erased", "id of an erased participation"),
				business("workspace_id mode id oldest_click conversions created_at"),
			},
		},
		{
			Name: "analytics_conversions",
			Row:  "A conversion as it is contained in the sums.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				ids(visitor, "click_id", "id of the click"),
				pseudonymous(buyer, "customer_ref", "keyed hash of the customer id", sale(Null)),
				personal([]Subject{Partner, Visitor}, "dimension_values", "values of the conversion and its click, as in the table clicks", everyone(Redacted)).because(valuesNote),
				business("workspace_id mode conversion_id program_id link_id occurred_at event_type currency amount_cents refunded_cents"),
				business("commission_status commission_cents commission_currency without_customer"),
			},
		},
		{
			Name: "analytics_customers",
			Row:  "A customer as it is contained in the sums.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation of the first conversion"),
				ids(partner, "activity", "numbers of the customer's conversions by month, with ids of participations"),
				pseudonymous(buyer, "customer_ref", "keyed hash of the customer id", sale(RowDeleted)),
				business("workspace_id mode conversion_id first_at program_id link_id"),
			},
		},
		{
			Name: "analytics_cohorts",
			Row:  "The numbers of the customers whose first conversion was in one month.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id mode program_id link_id cohort month currency customers conversions revenue_cents commission_cents"),
			},
		},
		{Name: "analytics_locks", Row: "A lock of the sums of a workspace.", Kept: unlimited, Columns: []Columns{business("workspace_id mode version")}},
	},
}
