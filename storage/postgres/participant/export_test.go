package participant

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const participantPageSize = 20

// ExportPlan is the statement with the planner settings of an export.
const ExportPlan = postgres.ExportPlan

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
	search, args := searchOf(scope, programs, filter)
	return participantListSQL(programs, filter, search, order), args
}

// ParticipantExportSQL returns the statement for all rows, as ParticipantListSQL does.
func ParticipantExportSQL(
	scope affiliate.Scope, programs []affiliate.ProgramID, filter participant.Filter, order participant.Order,
) (string, pgx.NamedArgs) {
	search, args := searchOf(scope, programs, filter)
	return participantExportSQL(programs, filter, search, order), args
}

func searchOf(scope affiliate.Scope, programs []affiliate.ProgramID, filter participant.Filter) (search string, args pgx.NamedArgs) {
	args = participantListArgs(scope, programs, filter, affiliate.Page{Number: 1, Size: participantPageSize})
	args["large"], args["found"] = programs, []affiliate.ParticipantID{}
	if filter.Search != "" {
		search = participantsMatching(filter)
	}
	return search, args
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
