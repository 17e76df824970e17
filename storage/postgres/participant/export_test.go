package participant

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

const participantPageSize = 20

// Statements whose query plans a test checks.
var (
	ListInvitesSQL  = listInvites
	CountInGroupSQL = countInGroup
	CountInvitesSQL = countInvites
)

// ParticipantListSQL returns the statement for the first page. With a search, it returns
// the statement that the store uses for more than affiliate.MaxSearchTotal matches.
func ParticipantListSQL(
	scope affiliate.Scope, programs []affiliate.ProgramID, filter participant.Filter, order participant.Order,
) (string, pgx.NamedArgs) {
	search := ""
	if filter.Search != "" {
		search = participantsMatching(filter)
	}
	return participantListSQL(programs, filter, search, order), participantListArgs(scope, programs, filter, affiliate.Page{Number: 1, Size: participantPageSize})
}

// CountParticipantsSQL returns the statement that counts the rows of a filter with an
// external id.
func CountParticipantsSQL(programs []affiliate.ProgramID, filter participant.Filter) string {
	return countParticipantsSQL(ofProgram(programs), filter)
}

// ParticipantSearchSQL returns the statement that finds the matches of a search.
func ParticipantSearchSQL(scope affiliate.Scope, programs []affiliate.ProgramID, filter participant.Filter) (string, pgx.NamedArgs) {
	return participantSearchSQL(ofProgram(programs), filter), participantListArgs(scope, programs, filter, affiliate.Page{Number: 1, Size: participantPageSize})
}
