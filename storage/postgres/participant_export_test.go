package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The statements whose plans are asserted.
const (
	ListInvitesSQL      = listParticipantInvites
	participantPageSize = 20
)

// The statements for totals whose plans are asserted.
var (
	CountInGroupSQL = countInGroup
	CountInvitesSQL = countParticipantInvites
)

// ParticipantListSQL is the statement of a first page. With a search it is the
// statement for more than affiliate.MaxSearchTotal matches.
func ParticipantListSQL(
	scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.ParticipantFilter, order affiliate.ParticipantOrder,
) (string, pgx.NamedArgs) {
	search := ""
	if filter.Search != "" {
		search = participantsMatching(filter)
	}
	return participantListSQL(filter, search, order), participantListArgs(scope, program, filter, affiliate.Page{Number: 1, Size: participantPageSize})
}

// ParticipantSearchSQL is the statement that finds what a search matches.
func ParticipantSearchSQL(scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.ParticipantFilter) (string, pgx.NamedArgs) {
	return participantSearchSQL(filter), participantListArgs(scope, program, filter, affiliate.Page{Number: 1, Size: participantPageSize})
}
