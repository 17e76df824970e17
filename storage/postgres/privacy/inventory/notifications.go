package inventory

// feedErasures are the erasures that delete the feed of a partner or workspace.
var feedErasures = accountErasures

var notifications = Area{
	Title:   "Notifications",
	Data:    "Notices about changes, without names; what a user has read; preferences",
	Purpose: "The feed of the dashboard, mails about changes",
	Kept:    "180 days. Preferences: until the account is erased",
	Tables: []Table{
		{
			Name:    "notifications",
			Row:     "A notification in the feed of a partner or workspace.",
			Kept:    "180 days. Dismissed notifications: 30 days.",
			Deleted: feedErasures,
			Columns: []Columns{
				personal(partnerOrMember, "facts", "values in the text: amounts, reasons, networks of sign-ins, but no names", Effects{Participant: Redacted}).
					because("The erasure of an account or workspace deletes its feed. In other feeds, reasons in notifications about the erased participant are removed."),
				pseudonymous(partnerOrMember, "feed_id user_id participant_id resource_id", "ids of the owner of the feed and of the record", Effects{Participant: Kept}),
				business("mode category day id type workspace_id program_id dismissed_at"),
			},
		},
		{
			Name:    "notification_arrivals",
			Row:     "The ids of new notifications that are not distributed to streams and mails yet.",
			Kept:    "A few seconds.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "feed_ids user_ids", "ids of the owners of the feeds and of the users concerned", Effects{}),
				business("id modes types ids workspace_ids"),
			},
		},
		{
			Name:    "notification_reads",
			Row:     "A notification that a user has read.",
			Kept:    "As long as the notification.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id", "id of the user", Effects{}),
				business("mode category day notification_id read_at"),
			},
		},
		{
			Name:    "notification_watermarks",
			Row:     "Until when a user has read all notifications of a category.",
			Kept:    "Until the account is erased.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id", "id of the user", Effects{}),
				business("mode category read_day read_before read_at"),
			},
		},
		{
			Name:    "notification_dismissals",
			Row:     "Until when the notifications of a category of a feed are dismissed.",
			Kept:    "Until the account or workspace is erased.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "feed_id", "id of the owner of the feed", Effects{}),
				business("mode category dismissed_day dismissed_before dismissed_at purge_day purge_before purge_at"),
			},
		},
		{
			Name:    "notification_preferences",
			Row:     "Whether a user wants the notifications of a category.",
			Kept:    "Until the account is erased.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id", "id of the user", Effects{}),
				business("category email in_app"),
			},
		},
		{
			Name:    "notification_digests",
			Row:     "Notifications to a user that are gathered for one mail.",
			Kept:    "Until the mail is sent.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id", "id of the user", Effects{Participant: Kept}),
				business("mode category workspace_id window_start mailed due_at"),
			},
		},
		{
			Name:    "notification_feeds",
			Row:     "A feed that was streamed recently.",
			Kept:    "About 25 hours after its last stream.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "feed_id", "id of the owner of the feed", Effects{}),
				business("last_seq replay_after version streamed_until"),
			},
		},
		{
			Name:    "notification_positions",
			Row:     "The position of a notification in a streamed feed.",
			Kept:    "24 hours.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "feed_id", "id of the owner of the feed", Effects{}),
				business("seq mode category day notification_id created_at"),
			},
		},
		{
			Name:    "notification_streams",
			Row:     "An open stream of notifications.",
			Kept:    "Until the stream is closed. After a crash of the process about an hour.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id ticket", "id of the user, digest of the ticket", Effects{}),
				business("id seen_at"),
			},
		},
		{
			Name:    "notification_stream_tickets",
			Row:     "A ticket with which a browser opens a stream, as a digest.",
			Kept:    "Until the access token expires: 15 minutes, with the hourly deletion at most 75 minutes.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "digest session_id", "digest of the ticket, id of the session", Effects{}),
				business("kind mode created_at opened_at expires_at"),
			},
		},
		{
			Name:    "notification_periods",
			Row:     "The last week or month for which a feed got a summary.",
			Kept:    "Until the account or workspace is erased.",
			Deleted: feedErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "feed_id", "id of the owner of the feed", Effects{}),
				business("mode type period"),
			},
		},
	},
}

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
