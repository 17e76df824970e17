package inventory

// accountErasures are the erasures that erase accounts: that of a partner's account, and
// that of a workspace with the accounts of its members.
var accountErasures = []Erasure{AccountErasure, WorkspaceErasure}

var accounts = Area{
	Title:   "Accounts",
	Data:    "Name, e-mail address and password of members and partners; country, company, website and payout account of partners",
	Purpose: "Sign-in, the contact between merchants and partners, and payouts",
	Kept:    "No time limit",
	Tables: []Table{
		{
			Name: "users",
			Row:  "The account of a partner, or of a member of a workspace.",
			Kept: "No time limit. An account that a merchant has made and nobody has claimed is erased within two hours after its last participation.",
			Columns: []Columns{
				pseudonymous(partnerOrMember, "id", "id of the account", account(Kept)),
				personal(partnerOrMember, "email name", "e-mail address and name", account(Pseudonym)),
				personal(partnerOrMember, "password_hash", "salted Argon2id hash of the password", account(Emptied)),
				personal(partner, "country company_name website_url", "country, company and website", Effects{Account: Null}),
				personal(partnerOrMember, "previous_email", "e-mail address before a change in the last 30 days", account(Null)),
				business("kind email_verified_at email_changed_at created_at erased_at version unclaimed"),
			},
		},
		{
			Name: "payout_methods",
			Row:  "The account to which a partner wants to be paid.",
			Kept: "Until the partner replaces it or the account is erased.",
			// Members have no payout account.
			Deleted: []Erasure{AccountErasure},
			Columns: []Columns{
				pseudonymous(partner, "user_id", "id of the partner", Effects{}),
				personal(partner, "account account_hint", "encrypted payout account and its masked end", Effects{Participant: Kept}).
					because("The payout account belongs to the account of the partner, who may have other participations."),
				business("method updated_at held_until"),
			},
		},
		{
			Name: "account_audit_log",
			Row:  "A change that a partner or member made to their account.",
			Kept: unlimited,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id", "id of the account", account(Kept)),
				personal(partnerOrMember, "before after", "changed values of the account", account(Emptied)),
				personal(partnerOrMember, "ip_prefix", "network (/24 or /48) of the IP address from which the change was made", account(Null)),
				business("id at action request_id"),
			},
		},
	},
}

var security = Area{
	Title:   "Sign-in and security",
	Data:    "Sessions, tokens of mails as digests, networks and devices of sign-ins, keyed hashes of partners' former e-mail addresses",
	Purpose: "Sessions, protection against guessed passwords, notices about new devices, and the detection of partners who buy from themselves",
	Kept:    "Devices: 90 days after the last use. Sessions: 91 days after the sign-in. Former addresses, as keyed hashes: until the account is erased. All other data: at most 30 days",
	Tables: []Table{
		{
			Name:    "sessions",
			Row:     "A session of a signed-in partner or member.",
			Kept:    "91 days after the sign-in, also if it was revoked.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "id user_id", "ids of the session and the account", Effects{}).
					because("The erasure revokes the session at once. The ids stay for 20 minutes, so that access tokens that have not expired are refused."),
				business("created_at idle_expires_at expires_at revoked_at"),
			},
		},
		{
			Name:    "refresh_tokens",
			Row:     "A token with which a session is continued, as a digest.",
			Kept:    "As long as its session.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "digest session_id", "digest of the token, id of the session", Effects{}),
				business("created_at used_at"),
			},
		},
		{
			Name:    "login_failures",
			Row:     "A failed sign-in for an e-mail address.",
			Kept:    "It counts for 15 minutes and is deleted after a day.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "subject bucket", "keyed hashes of the e-mail address, and of the address with the session or the network", Effects{}),
				business("id failed_at"),
			},
		},
		{
			Name:    "second_factors",
			Row:     "The second factor of an account: the encrypted secret of an authenticator app.",
			Kept:    "Until the user removes it.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id secret", "id of the account, encrypted secret", Effects{}),
				business("created_at confirmed_at last_step failures"),
			},
		},
		{
			Name:    "recovery_codes",
			Row:     "A code for a user who has lost the authenticator app, as a digest.",
			Kept:    "As long as the second factor.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id digest", "id of the account, digest of the code", Effects{}),
				business("used_at"),
			},
		},
		{
			Name:    "login_challenges",
			Row:     "A login that waits for a code of the authenticator app, as a digest.",
			Kept:    "5 minutes, and at most a day until it is deleted.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id digest", "id of the account, digest of the challenge", Effects{}),
				business("failures created_at expires_at"),
			},
		},
		{
			Name:    "email_tokens",
			Row:     "The token of a mail that verifies or changes an address or resets a password, as a digest.",
			Kept:    "Until it expires: 24 hours, for a reset 60 minutes.",
			Deleted: accountErasures,
			Columns: []Columns{
				personal(partnerOrMember, "address", "e-mail address to which the token was sent", Effects{}),
				pseudonymous(partnerOrMember, "digest user_id session_id", "digest of the token, ids of the account and the session", Effects{}),
				business("purpose created_at expires_at used_at"),
			},
		},
		{
			Name:    "email_requests",
			Row:     "A request for a mail that resets a password or changes an address.",
			Kept:    "Until a job has processed it, at most 24 hours.",
			Deleted: accountErasures,
			Columns: []Columns{
				personal(partnerOrMember, "address", "e-mail address of the request", Effects{}),
				pseudonymous(partnerOrMember, "user_id session_id", "ids of the account and the session", Effects{}),
				business("id purpose account_kind created_at"),
			},
		},
		{
			Name:    "user_origins",
			Row:     "A network and browser from which a partner used the account. Fraud rules compare them with those of buyers.",
			Kept:    "30 days after the last use.",
			Deleted: []Erasure{AccountErasure},
			Columns: []Columns{
				personal(partner, "ip_prefix", "network (/24 or /48) of the IP address", Effects{}),
				pseudonymous(partner, "user_id ua_hash", "id of the account, keyed hash of the user agent", Effects{}),
				business("seen_at"),
			},
		},
		{
			Name:    "former_emails",
			Row:     "The digest of an e-mail address that a partner's account had before. A fraud rule compares it with the address of a buyer.",
			Kept:    "Until the account is erased.",
			Deleted: []Erasure{AccountErasure},
			Columns: []Columns{
				pseudonymous(partner, "user_id digest", "id of the account, keyed hash of the address", Effects{}),
				business("created_at"),
			},
		},
		{
			Name:    "user_devices",
			Row:     "A browser and network with which a user has signed in.",
			Kept:    "90 days after the last use.",
			Deleted: accountErasures,
			Columns: []Columns{
				pseudonymous(partnerOrMember, "user_id device", "id of the account, keyed hash of browser and network", Effects{}),
				business("seen_at"),
			},
		},
	},
}
