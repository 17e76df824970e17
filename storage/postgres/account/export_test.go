package account

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The statements whose plans are asserted.
const (
	ListInvitesSQL      = listInvites
	DeleteOldOriginsSQL = deleteOldOrigins
	ActorKnownSQL       = actorKnown
	ResourceKnownSQL    = resourceKnown
)

// The statements for totals whose plans are asserted.
var (
	CountInvitesSQL = countInvites
	CountMembersSQL = countMembers
)

// AuditSQL returns the statements of the audit log with their arguments.
func AuditSQL(scope affiliate.Scope, filter affiliate.AuditFilter, limit int) (page, count, all string, args pgx.NamedArgs) {
	query := newAuditQuery(scope, filter)
	query.args["limit"], query.args["offset"] = limit, 0
	return query.page, query.count, query.all, query.args
}
