package mail

import (
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
func LogSQL(workspace affiliate.WorkspaceID, filter notification.MailLogFilter, pageSize int) (page, count string, pageArgs, countArgs []any) {
	where := logConditions(workspace, filter)
	page, count = logSQL(where)
	return page, count, append(where.Args[:len(where.Args):len(where.Args)], pageSize, 0), where.Args
}
