package mail

import (
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// These statements are exported for the tests of their plans.
const (
	SelectMailSQL     = selectMail
	EndLostMailsSQL   = endLostMails
	DeleteOldMailsSQL = deleteOldMails
	SelectLogEntrySQL = selectLogEntry
)

// LogSQL returns the statements of the list with their arguments.
func LogSQL(workspace affiliate.WorkspaceID, filter notification.MailLogFilter, pageSize int) (page, count string, args pgx.NamedArgs) {
	query := newLogQuery(workspace, filter)
	args = maps.Clone(query.args)
	args["limit"], args["offset"] = pageSize, 0
	return query.page, query.count, args
}
