package inventory

var programmes = Area{
	Title:   "Programmes",
	Data:    "Announcements to partners; the member who wrote them or changed rules",
	Purpose: "The terms of affiliate programmes",
	Kept:    "No time limit. Announcements: 180 days",
	Tables: []Table{
		{
			Name: "programs",
			Row:  "An affiliate programme of a merchant.",
			Kept: unlimited,
			Columns: []Columns{
				merchantText("name slug", "name of the programme", Pseudonym),
				merchantText("description website_url landing_url terms_url", "description, web site and terms of the programme", Null),
				merchantText("allowed_domains", "domains of the programme", Emptied),
				business("workspace_id id mode status currency attribution_window_days attribution_model link_param auto_approve_partners is_public rules"),
				business("rules_version version created_at updated_at signal_precedence min_payout_cents payout_term_days fraud_policy fraud_settings fraud_updated_at"),
			},
		},
		{
			Name: "program_rules",
			Row:  "A version of the commission rules of a programme. Rows are only added.",
			Kept: unlimited,
			Columns: []Columns{
				ids(member, "by", "id of the member who set the rules"),
				business("workspace_id program_id version rules at"),
			},
		},
		{
			Name:    "groups",
			Row:     "A group of participants with its own commission.",
			Kept:    unlimited,
			Columns: []Columns{merchantText("name", "name of the group", Pseudonym), business("workspace_id id program_id rate_bps flat_amount_cents version created_at updated_at")},
		},
		{
			Name:    "announcements",
			Row:     "A text that a merchant announced to the participants of a programme, or the operator to all workspaces.",
			Kept:    "180 days.",
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				personal(member, "title body", "text that a member wrote", Effects{}),
				pseudonymous(member, "created_by", "id of the member", Effects{}),
				business("id workspace_id program_id mode created_at"),
			},
		},
		{Name: "list_counts", Row: "The length of a list of a programme.", Kept: unlimited, Columns: []Columns{business("workspace_id program_id what slot n")}},
	},
}

var participations = Area{
	Title:   "Participations",
	Data:    "Name and e-mail address, answers of the application, notes, tags, reasons, referral codes, links and promo codes of partners in a programme",
	Purpose: "Admission of partners, links and codes, statistics of partners",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "participants",
			Row:  "The participation of a partner in a programme.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "id partner_id", "ids of the participation and the partner"),
				personal(partner, "partner_name partner_email", "name and e-mail address of the partner", participation(Pseudonym)),
				personal(partner, "referral_code", "referral code", participation(Pseudonym)),
				personal(partner, "application_answers tags", "answers of the application, tags of the merchant", participation(Emptied)),
				personal(partner, "note rejection_reason suspension_reason", "note of the merchant, reasons of a rejection or suspension", participation(Null)),
				personal(partner, "external_id", "id of the partner in the merchant's own systems", participation(Null)),
				business("workspace_id program_id mode status partner_consent terms_accepted_at applied_at approved_at rejected_at suspended_at erased_at version"),
				business("created_at updated_at group_id override_rate_bps override_flat_amount_cents"),
			},
		},
		{
			Name: "participant_invites",
			Row:  "An invitation of a partner to a programme.",
			Kept: "No time limit. An invitation is valid for 7 days.",
			// The erasure of a participant concerns the invitations to the address of the
			// partner.
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				personal(partner, "email", "e-mail address of the invited person", Effects{Participant: Pseudonym, Account: Pseudonym}).
					because("The erasure of a participant concerns the invitations to the programme, that of an account all invitations to the address."),
				personal(partner, "referral_code", "referral code that the merchant wants to assign", Effects{Participant: Null, Account: Null}),
				pseudonymous(partner, "digest mail_digest", "digests of the tokens", Effects{Participant: Kept, Account: Kept}),
				ids(member, "invited_by", "id of the member who invited"),
				business("workspace_id id program_id mode group_id created_at expires_at ended_at"),
			},
		},
		{
			Name: "referral_codes",
			Row:  "A present or former referral code of a participant. A former code stays taken.",
			Kept: unlimited,
			Columns: []Columns{
				personal(partner, "code", "referral code", participation(Pseudonym)).
					because("The code stops working and stays taken by its keyed digest."),
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id mode program_id link_id created_at"),
			},
		},
		{
			Name: "links",
			Row:  "A referral link of a participant.",
			Kept: "No time limit. A deleted link is only marked as deleted.",
			Columns: []Columns{
				personal(partner, "code short_key", "referral code and short link", participation(Pseudonym)).
					because("The link stops working. The code stays taken by its keyed digest."),
				personal(partner, "destination_url", "page to which the link leads", participation(Pseudonym)),
				personal(partner, "sub_id utm_source utm_medium utm_campaign utm_term utm_content", "labels that the partner gave the link", participation(Null)),
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id id program_id mode is_default version created_at updated_at deleted_at"),
			},
		},
		{
			Name: "promo_codes",
			Row:  "A promo code of a participant.",
			Kept: unlimited,
			Columns: []Columns{
				personal(partner, "code", "promo code", participation(Pseudonym)).
					because("The code stops working and stays taken by its keyed digest."),
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id id program_id mode discount_type discount_value currency max_redemptions redemptions expires_at active"),
				business("sync_to_processor sync_status version created_at updated_at"),
			},
		},
		{
			Name: "participant_totals",
			Row:  "The numbers of a participant over all time.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id program_id clicks signups conversions revenue_cents commission_cents"),
			},
		},
		{Name: "link_totals", Row: "The numbers of a link over all time.", Kept: unlimited, Columns: []Columns{business("workspace_id link_id clicks conversions")}},
		{
			Name: "stats_deltas",
			Row:  "A change of these numbers that is not added to the totals yet.",
			Kept: "Until a job has added it, a few seconds.",
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				business("workspace_id id mode program_id link_id currency clicks signups conversions revenue_cents commission_cents"),
			},
		},
	},
}
