package affiliate

// ParticipantFilter restricts a list of a programme's participants. A participant must
// match all fields that are set; a zero field matches every participant.
type ParticipantFilter struct {
	Status ParticipantStatus
	Group  *GroupID
	// ExternalID is the merchant's own id of the partner. The comparison is exact.
	ExternalID string
	// Tag is a tag of the participant. The comparison is exact.
	Tag string
	// Search is a prefix of the partner's name or e-mail address, of a present or
	// former referral code, or of the participant id. Case does not matter.
	Search string
	// HideEmails excludes e-mail addresses from the search, as in CommissionFilter.
	HideEmails bool
}

// ParticipantSort is a column by which a list of participants can be sorted.
type ParticipantSort string

// The sortable columns, by their names in the API.
const (
	ParticipantsByAge         ParticipantSort = "createdAt"
	ParticipantsByName        ParticipantSort = "partnerName" // case does not matter
	ParticipantsByClicks      ParticipantSort = "clicks"
	ParticipantsByConversions ParticipantSort = "conversions"
	ParticipantsByRevenue     ParticipantSort = "revenueCents"
	ParticipantsByCommission  ParticipantSort = "commissionCents"
)

// ParticipantOrder is the order of a list. In both directions, rows with equal values
// are sorted by age, the newest first. Lists that are sorted by a count use sums that a
// job updates, so the order can be based on slightly older counts than the rows show.
type ParticipantOrder struct {
	By        ParticipantSort
	Ascending bool
}
