package inventory

var workspaces = Area{
	Title:   "Workspaces",
	Data:    "Name of the merchant, roles of members, e-mail addresses of invited members",
	Purpose: "The access of members to the data of their merchant",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "workspaces",
			Row:  "The workspace of a merchant.",
			Kept: unlimited,
			Columns: []Columns{
				personal(member, "name", "name of the merchant, which may be the name of a person", workspace(Pseudonym)),
				personal(member, "test_mail_redirect", "e-mail address that gets the mail of test mode", workspace(Null)),
				merchantText("allowed_origins", "web sites from which clicks are accepted", Emptied),
				business("id currency timezone created_at origin_policy second_person_above_cents require_second_factor books_closed_until retain_payee_years version updated_at"),
				business("erased_at billing_active test_data_reset_at"),
			},
		},
		{
			Name: "members",
			Row:  "The membership of a user in a workspace.",
			Kept: "Until the member is removed.",
			Columns: []Columns{
				ids(member, "user_id", "id of the member"),
				business("workspace_id role created_at"),
			},
		},
		{
			Name:    "member_invites",
			Row:     "An invitation of a member.",
			Kept:    "No time limit. An invitation is valid for 7 days.",
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				personal(member, "email", "e-mail address of the invited person", Effects{}),
				pseudonymous(member, "digest mail_digest invited_by", "digests of the tokens, id of the member who invited", Effects{}),
				business("workspace_id id role created_at expires_at ended_at"),
			},
		},
		{
			Name: "api_keys",
			Row:  "A secret or public key of a workspace.",
			Kept: "No time limit. An erasure of the workspace revokes its keys.",
			Columns: []Columns{
				personal(member, "name", "name that a member gave the key", workspace(Pseudonym)),
				business("workspace_id id mode kind digest public_text prefix last4 created_at last_used_at expires_at revoked_at rolled_at"),
			},
		},
		{
			Name: "service_tokens",
			Row:  "A service token of a workspace.",
			Kept: "No time limit. An erasure of the workspace revokes its tokens.",
			Columns: []Columns{
				personal(member, "name", "name that a member gave the token", workspace(Pseudonym)),
				personal(member, "last_used_ip_prefix", "network (/24 or /48) of the server that used the token last", workspace(Null)),
				ids(member, "created_by", "id of the member who created the token"),
				business("workspace_id id mode role allow_payouts digest prefix last4 created_at expires_at revoked_at rolled_at last_used_at"),
			},
		},
	},
}

var auditLogs = Area{
	Title:   "Audit log",
	Data:    "The person who made a change in a workspace, from which network, and the values before and after it",
	Purpose: "Proof of changes, investigation of incidents",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "audit_log",
			Row:  "A change that somebody made in a workspace. Rows are only added.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partnerOrMember, "actor resource_id", "ids of the person or key that made the change, and of the changed record"),
				personal(
					partnerOrMember, "before after", "changed values before and after the change",
					Effects{Participant: Emptied, Account: Emptied, Workspace: Emptied},
				).because("The erasure of a participant empties the entries about the participant and its links, codes, commissions, ledger entries and payouts."),
				personal(partnerOrMember, "ip_prefix", "network (/24 or /48) of the IP address from which the change was made", participation(Null)).
					because("The erasure of a participant concerns the entries of changes that the partner made."),
				business("workspace_id id mode at action resource_type request_id participant_token"),
			},
		},
	},
}

var system = Area{
	Title:   "System",
	Data:    "Keyed digests of erased codes and transaction ids; responses that are stored for repeated requests",
	Purpose: "Erased codes stay taken, and refunds of erased sales stay possible; repeated requests have no second effect",
	Kept:    "Digests: no time limit. Responses: 24 hours",
	Tables: []Table{
		{
			Name: "erasures",
			Row:  "The erasure of a participant, of a partner's account, or of a workspace.",
			Kept: "No time limit. The texts are removed when the erasure has finished, a few minutes after it was requested.",
			Columns: []Columns{
				personal([]Subject{Partner, Member}, "texts", "names, addresses and codes that the erasure searches for", Effects{Participant: Emptied, Account: Emptied, Workspace: Emptied}),
				ids([]Subject{Partner, Member}, "subject_id", "id of the participant, partner or workspace"),
				business("id subject workspace_id mode erased_at logged_at step cursor finished_at"),
			},
		},
		{
			Name:    "erasure_participants",
			Row:     "A participation of an erased partner.",
			Kept:    "Until the erasure has finished.",
			Deleted: []Erasure{ParticipantErasure, AccountErasure, WorkspaceErasure},
			Columns: []Columns{
				pseudonymous(partner, "participant_id", "id of the participation", Effects{}),
				business("erasure_id workspace_id"),
			},
		},
		{
			Name: "test_data_resets",
			Row:  "A deletion of the test data of a workspace.",
			Kept: unlimited,
			Columns: []Columns{
				personal(member, "ip_prefix", "network (/24 or /48) of the IP address from which it was requested", workspace(Emptied)),
				ids(member, "user_id", "id of the member who requested it"),
				business("workspace_id id started_at request_id clicks_after events_after deleted finished_at"),
			},
		},
		{
			Name:    "exports",
			Row:     "An export of personal data that is being made or can be downloaded.",
			Kept:    "24 hours, or 72 hours if the link was mailed.",
			Deleted: Erasures(),
			Columns: []Columns{
				pseudonymous(partnerOrMember, "subject_id partner_id", "ids of the partner, participant or workspace", Effects{}),
				business("id kind workspace_id program_id mode request_mode queued lease_until lease progress created_at ready_at expires_at"),
			},
		},
		{
			Name:    "export_chunks",
			Row:     "A piece of an export, compressed and encrypted.",
			Kept:    "As long as the export.",
			Deleted: Erasures(),
			Columns: []Columns{
				personal([]Subject{Partner, Member, Buyer}, "data", "the exported data, encrypted", Effects{}),
				business("export_id number"),
			},
		},
		{
			Name:    "export_tokens",
			Row:     "The token in the link to an export.",
			Kept:    "As long as the export.",
			Deleted: Erasures(),
			Columns: []Columns{
				pseudonymous(partnerOrMember, "digest", "digest of the token", Effects{}),
				business("export_id created_at expires_at"),
			},
		},
		{
			Name:    "export_recipients",
			Row:     "A member to whom the link to an export is mailed.",
			Kept:    "As long as the export.",
			Deleted: Erasures(),
			Columns: []Columns{
				pseudonymous(member, "user_id", "id of the member", Effects{}),
				business("export_id requested_at"),
			},
		},
		{
			Name:    "buyer_erasures",
			Row:     "The erasure of a buyer.",
			Kept:    "30 days after its end.",
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				pseudonymous(buyer, "identity", "keyed hash of the address or id that names the buyer", sale(Null)).
					because("The hash is removed at the end of the erasure."),
				pseudonymous(buyer, "position", "place where the erasure continues, which can contain an id of the payment processor", sale(Emptied)),
				business("workspace_id id kind status step failures lease_owner lease_until recovering created_at requested_at finished_at"),
			},
		},
		{
			Name:    "buyer_erasure_keys",
			Row:     "The Idempotency-Key of a request to erase a buyer.",
			Kept:    "30 days.",
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				pseudonymous(buyer, "fingerprint", "hash of the identity in the request, under a key that is used for nothing else", sale(Kept)).
					because("A repeated request with the key must name the same buyer."),
				business("workspace_id key operation_id expires_at"),
			},
		},
		{
			Name:    "buyer_erasure_sales",
			Row:     "A conversion that an erasure of a buyer has found.",
			Kept:    "Until the erasure has ended. After a failure at most 30 days, for the next request.",
			Deleted: []Erasure{WorkspaceErasure, BuyerErasure},
			Columns: []Columns{business("workspace_id operation_id conversion_id mode followed erased")},
		},
		{
			Name:    "buyer_erasure_customers",
			Row:     "A reference of the buyer that an erasure has found.",
			Kept:    "Until the erasure has ended. After a failure at most 30 days, for the next request.",
			Deleted: []Erasure{WorkspaceErasure, BuyerErasure},
			Columns: []Columns{
				pseudonymous(buyer, "ref", "keyed hash of the customer id", Effects{}),
				business("workspace_id operation_id followed"),
			},
		},
		{
			Name: "erased_values",
			Row:  "The digest of a code or transaction id that an erasure has replaced, under a key that is used for nothing else.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(partnerOrBuyer, "digest", "keyed digest of the erased value", everyone(Kept)).
					because("An erased code stays taken, and a repeated report or a refund of an erased sale is recognised."),
				ids(partnerOrBuyer, "subject_id", "id of the participant or the conversion"),
				business("workspace_id mode kind"),
			},
		},
		{
			Name:    "idempotency_keys",
			Row:     "The response to a request with an Idempotency-Key, so that a repetition gets the same response.",
			Kept:    "24 hours.",
			Deleted: Erasures(),
			Columns: []Columns{
				personal(partnerOrBuyer, "response", "response, which may contain a code, the ids of a sale, the name and address of an added partner or an encrypted token", Effects{}).
					because("An erasure deletes the responses that contain data of the erased person or workspace."),
				pseudonymous(partnerOrBuyer, "key fingerprint", "key that the merchant chose, keyed hash of the request", Effects{}),
				business("workspace_id mode method created_at expires_at"),
			},
		},
		{
			Name:     "river.*",
			Row:      "The tables of the job queue River.",
			Kept:     "A finished or cancelled job for 24 hours, a job that has failed for good for 7 days.",
			Unlisted: "The arguments of jobs are ids, times and states. A job reads everything else when it runs.",
		},
		{
			Name:     "goose_db_version",
			Row:      "The numbers of the applied migrations of the schema.",
			Kept:     unlimited,
			Unlisted: "It has no data of the service.",
		},
	},
}
