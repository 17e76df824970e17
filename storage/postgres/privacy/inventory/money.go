package inventory

var commissions = Area{
	Title:   "Commissions",
	Data:    "Commissions of partners, with the ids of the sale, and the reasons of changes",
	Purpose: "The calculation of commissions, accounting",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "commissions",
			Row:  "The commission of a participant for a conversion.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id partner_id", "ids of the participation and the partner"),
				personal(partner, "promo_code", "promo code", participation(Pseudonym)),
				personal(partner, "override_reason rejection_reason", "reasons that a member wrote", participation(Null)),
				pseudonymous(buyer, "external_transaction_id", "id that the merchant gave the transaction", sale(Pseudonym)),
				pseudonymous(buyer, "customer_ref", "keyed hash of the customer id", sale(Null)),
				ids(visitor, "click_id", "id of the click"),
				ids(member, "override_by approved_by", "ids of the members who changed the amount or approved it"),
				business("workspace_id id mode program_id conversion_id decision_id status commission_type event_type rate_bps flat_amount_cents amount_cents"),
				business("original_amount_cents currency base_amount_cents sale_amount_cents sale_currency fx_rate fx_date recurring_index needs_review"),
				business("review_reasons dispute_status hold_until auto_approve_at rejection_code approved_at rejected_at paid_at refunded_at payout_id"),
				business("rule_snapshot version created_at updated_at"),
			},
		},
		{
			Name: "commission_history",
			Row:  "A change of the status of a commission. Rows are only added.",
			Kept: unlimited,
			Columns: []Columns{
				personal(partner, "reason", "reason that a member wrote", participation(Null)),
				ids(member, "actor", "id of the member who made the change"),
				business("workspace_id commission_id seq at from_status to_status amount_cents code"),
			},
		},
		{
			Name: "commission_counts", Row: "The number and sum of commissions in a period.", Kept: unlimited,
			Columns: []Columns{business("workspace_id mode grain starts program_id status needs_review currency slot n amount_cents")},
		},
	},
}

var payouts = Area{
	Title:   "Payouts and ledger",
	Data:    "Amounts that are owed and paid to partners, references of payments, reasons of entries",
	Purpose: "Payouts, accounting",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "ledger_entries",
			Row:  "An amount that was added to or taken from the balance of a participant. Rows are only added.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id partner_id", "ids of the participation and the partner"),
				personal(partner, "reason", "reason of a bonus or adjustment that a member wrote", participation(Null)),
				ids(member, "created_by", "id of the member who added it"),
				business("workspace_id id mode program_id type amount_cents currency commission_id payout_id created_at occurred_at"),
			},
		},
		{
			Name: "ledger_balances",
			Row:  "A part of the balance of a participant.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id currency slot balance_cents"),
			},
		},
		{
			Name: "payout_batches",
			Row:  "Payouts that a merchant makes together.",
			Kept: unlimited,
			Columns: []Columns{
				ids(member, "created_by first_confirmed_by first_confirmed_user confirmed_by", "ids of the members who created and confirmed the batch"),
				business("workspace_id id mode status program_ids cutoff created_at first_confirmed_at confirmed_at completed_at version"),
			},
		},
		{
			Name: "payouts",
			Row:  "A payment to a participant.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id partner_id", "ids of the participation and the partner"),
				personal(partner, "reference failure_reason", "reference of the payment, reason of its failure", participation(Null)),
				personal(partner, "account", "encrypted account that the payout is paid to, until 30 days after the payment", participation(Null)),
				personal(partner, "account_hint", "masked end of the account", participation(Null)),
				personal(partner, "payee_name", "name of an erased partner, on a paid payout", Effects{Participant: Kept, Account: Kept, Workspace: Null}).
					because("The erasure of the partner writes the name, if the setting `retainPayeeYears` of the workspace demands it. It is deleted so many years after the payment."),
				business("workspace_id id batch_id mode program_id amount_cents currency commission_count adjustment_cents status method"),
				business("period_start period_end initiated_at paid_at version created_at updated_at"),
			},
		},
		{
			Name: "payout_commissions", Row: "A commission that is part of a payout.", Kept: unlimited,
			Columns: []Columns{business("workspace_id payout_id commission_id amount_cents")},
		},
		{Name: "fx_rates", Row: "An exchange rate that the operator has loaded.", Kept: unlimited, Columns: []Columns{business("base quote date rate loaded_at")}},
		{
			Name: "check_results", Row: "The latest result of a consistency check.", Kept: unlimited,
			Columns: []Columns{business("name compared violated checked_at")},
		},
		{
			Name: "key_fingerprints", Row: "The fingerprint of a secret key of the installation.", Kept: unlimited,
			Columns: []Columns{business("setting key_id fingerprint is_first created_at")},
		},
	},
}
