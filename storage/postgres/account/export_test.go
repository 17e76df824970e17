package account

import (
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
func AuditSQL(scope affiliate.Scope, filter affiliate.AuditFilter, limit int) (page, count, export string, pageArgs, args []any) {
	where := auditConditions(scope, filter)
	page, count, export = auditSQL(where)
	return page, count, export, append(where.Args[:len(where.Args):len(where.Args)], limit, 0), where.Args
}
