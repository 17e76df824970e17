package account

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Statements whose query plans the tests check.
const (
	DeleteOldOriginsSQL = deleteOldOrigins
	DeleteOldDevicesSQL = deleteOldDevices
	ActorKnownSQL       = actorKnown
	ResourceKnownSQL    = resourceKnown
)

var (
	ListInvitesSQL  = listInvites
	CountInvitesSQL = countInvites
	CountMembersSQL = countMembers
)

// AuditSQL returns the statements that read a page, count the entries and export the
// entries of the audit log with a filter. It also returns their arguments.
func AuditSQL(scope affiliate.Scope, filter affiliate.AuditFilter, limit int) (page, count, export string, args pgx.NamedArgs) {
	query := newAuditQuery(scope, filter)
	query.args["limit"], query.args["offset"] = limit, 0
	return query.page, query.count, query.all, query.args
}
