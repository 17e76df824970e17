package affiliate

// ParticipantFilter narrows a list of a programme's participants. The zero value
// of each field narrows nothing; what is given has to hold all at once.
type ParticipantFilter struct {
	Status ParticipantStatus
	Group  *GroupID
	// Search is a prefix of the partner's name or e-mail address, of a referral
	// code, replaced ones too, or of the participant id; case does not matter.
	Search string
	// HideEmails keeps e-mail addresses out of the search, as in
	// CommissionFilter.
	HideEmails bool
}

// ParticipantSort is what a list of participants can be sorted by.
type ParticipantSort string

// The sort keys, by their names in the contract.
const (
	ParticipantsByAge         ParticipantSort = "createdAt"
	ParticipantsByName        ParticipantSort = "partnerName" // whatever the case
	ParticipantsByClicks      ParticipantSort = "clicks"
	ParticipantsByConversions ParticipantSort = "conversions"
	ParticipantsByRevenue     ParticipantSort = "revenueCents"
	ParticipantsByCommission  ParticipantSort = "commissionCents"
)

// ParticipantOrder is how a list is sorted. Ties fall to the newest, whichever
// way the list runs. Counts sort by their sums as last folded, which follow what
// the rows show by a moment.
type ParticipantOrder struct {
	By        ParticipantSort
	Ascending bool
}
