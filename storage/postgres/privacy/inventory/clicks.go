package inventory

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
		{
			Name: "clicks",
			Row:  "A visit of a merchant's page through the link or code of a partner.",
			Kept: clickRetention,
			Columns: []Columns{
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
			},
		},
		{
			Name: "click_days",
			Row:  "The number of clicks of a link on a day, by country, device and campaign. It replaces the clicks.",
			Kept: unlimited,
			Columns: []Columns{
				ids(partner, "participant_id", "id of the participation"),
				personal(partner, "referrer_domain utm_source utm_medium utm_campaign", "domain of the page with the link, labels of the link", participation(Null)),
				business("workspace_id mode program_id link_id day country device browser os paid_platform others clicks unique_clicks bot_clicks"),
			},
		},
		{
			Name: "click_dead_letters",
			Row:  "A click that could not be stored in the table of clicks, with the reason.",
			Kept: "90 days.",
			Columns: []Columns{
				pseudonymous(visitor, "id", "id of the click", Effects{Participant: RowDeleted, Account: RowDeleted, Workspace: RowDeleted, Buyer: Kept}),
				personal([]Subject{Partner, Visitor}, "record", "click that could not be stored, with the data of the table clicks",
					Effects{Participant: RowDeleted, Account: RowDeleted, Workspace: RowDeleted, Buyer: Kept}).because(deadLetterNote),
				business("reason created_at"),
			},
		},
		{Name: "click_rolls", Row: "How far the clicks of a day are replaced by sums.", Kept: "Until the day is finished.", Columns: []Columns{business("day_table block")}},
		{
			Name:    "awaited_clicks",
			Row:     "A reported conversion whose click has not arrived yet.",
			Kept:    "24 hours.",
			Deleted: []Erasure{WorkspaceErasure},
			Columns: []Columns{
				pseudonymous([]Subject{Buyer, Visitor}, "click_id", "id of the click", sale(Kept)).
					because("If the click arrives after the erasure of the buyer, the data of the visitor are removed from it."),
				business("workspace_id conversion_id mode created_at expires_at"),
			},
		},
	},
}
