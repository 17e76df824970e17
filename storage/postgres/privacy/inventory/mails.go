package inventory

var mails = Area{
	Title:   "Mail",
	Data:    "Recipients and, for the notification log, the content of mails; hashes of addresses that get no mail",
	Purpose: "Sending mail, the notification log of test mode, no mail to addresses that bounce or complain",
	Kept:    "30 days. Hashes of addresses that get no mail: until the address is verified again",
	Tables: []Table{
		{
			Name:    "mails",
			Row:     "A mail to one recipient.",
			Kept:    "30 days.",
			Deleted: []Erasure{ParticipantErasure, AccountErasure, WorkspaceErasure},
			Columns: []Columns{
				personal(partnerOrMember, "recipient recipient_name redirected_to", "name and e-mail address of the recipient, address to which the mail was redirected", Effects{}).
					because("The erasure of a participant deletes the mails about the participation, to the partner and to members."),
				personal(partnerOrMember, "facts subject html text", "content of the mail, without tokens", Effects{}),
				pseudonymous(partnerOrMember, "user_id secret", "id of the recipient, encrypted token of the link until the mail is sent", Effects{}),
				business("id kind type category workspace_id logged mode account_kind status reason sender created_at completed_at"),
			},
		},
		{
			Name:    "mail_suppressions",
			Row:     "An address that gets no optional mail, because mail bounced or the owner complained.",
			Kept:    "Until the address is verified again.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "digest", "keyed hash of the e-mail address", Effects{}),
				business("reason created_at"),
			},
		},
		{
			Name: "mail_provider_messages", Row: "The id of a message that the mail provider has sent to the service.", Kept: "7 days.",
			Columns: []Columns{business("id received_at")},
		},
	},
}
