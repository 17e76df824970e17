package participant

import (
	"github.com/tributary-hq/tributary/affiliate"
)

// Filter restricts a list of a programme's participants. A participant must
// match all fields that are set; a zero field matches every participant.
type Filter struct {
	Status Status
	Group  *affiliate.GroupID
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

// Sort is a column by which a list of participants can be sorted.
type Sort string

// The sortable columns, by their names in the API.
const (
	ParticipantsByAge         Sort = "createdAt"
	ParticipantsByName        Sort = "partnerName" // case does not matter
	ParticipantsByClicks      Sort = "clicks"
	ParticipantsByConversions Sort = "conversions"
	ParticipantsByRevenue     Sort = "revenueCents"
	ParticipantsByCommission  Sort = "commissionCents"
)

// Order is the order of a list. In both directions, rows with equal values
// are sorted by age, the newest first. Lists that are sorted by a count use sums that a
// job updates, so the order can be based on slightly older counts than the rows show.
type Order struct {
	By        Sort
	Ascending bool
}
