package mail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// logColumns are the columns of an entry in a list. The index mails_log contains the
// columns that a filter needs.
const logColumns = `
	id, type, category, recipient, status, coalesce(redirected_to, '') as redirected_to, coalesce(reason, '') as reason,
	created_at, coalesce(sender, '') as sender, coalesce(subject, '') as subject`

// logQuery holds the statements for one filter. page selects a page. count counts the
// entries and stops after affiliate.MaxTotal.
type logQuery struct {
	page, count string
	args        pgx.NamedArgs
}

func newLogQuery(workspace affiliate.WorkspaceID, filter notification.MailLogFilter) logQuery {
	where := []string{"workspace_id = @workspace", "logged", "status <> 'pending'"}
	args := pgx.NamedArgs{"workspace": workspace}
	add := func(condition, name string, value any) {
		where = append(where, condition)
		args[name] = value
	}
	if filter.Status != "" {
		add("status = @status", "status", filter.Status)
	}
	if filter.Type != "" {
		add("type = @type", "type", filter.Type)
	}
	if filter.Recipient != "" {
		add("starts_with(recipient, @recipient)", "recipient", filter.Recipient)
	}
	if filter.CreatedAt.From != nil {
		add("created_at >= @from", "from", *filter.CreatedAt.From)
	}
	if filter.CreatedAt.Before != nil {
		add("created_at < @before", "before", *filter.CreatedAt.Before)
	}
	from := ` from mails where ` + strings.Join(where, " and ")
	return logQuery{
		page:  `select ` + logColumns + `, '' as html, '' as text` + from + ` order by created_at desc, id desc limit @limit offset @offset`,
		count: postgres.CountUpTo(affiliate.MaxTotal, from),
		args:  args,
	}
}

// Log returns one page of the notification log of a workspace, newest first, and the
// number of all matching entries, up to affiliate.MaxTotal. The entries have no HTML and
// no text.
func Log(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, filter notification.MailLogFilter, page affiliate.Page) ([]notification.MailLogEntry, int64, error) {
	query := newLogQuery(workspace, filter)
	args := maps.Clone(query.args)
	args["limit"], args["offset"] = page.Size, page.Offset()
	rows, _ := db.Query(ctx, query.page, postgres.PlanForArgs, args)
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByName[notification.MailLogEntry])
	if err != nil {
		return nil, 0, fmt.Errorf("notification log: %w", err)
	}
	if n := int64(len(entries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return entries, page.Offset() + n, nil
	}
	var total int64
	err = db.QueryRow(ctx, query.count, postgres.PlanForArgs, query.args).Scan(&total)
	return entries, total, err
}

const selectLogEntry = `
	select ` + logColumns + `, coalesce(html, '') as html, coalesce(text, '') as text
	from mails
	where workspace_id = $1 and id = $2 and logged and status <> 'pending'`

// LogEntry returns an entry of the notification log. Errors: NOTIFICATION_LOG_NOT_FOUND.
func LogEntry(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id notification.MailID) (notification.MailLogEntry, error) {
	entry, err := postgres.OneRow[notification.MailLogEntry](db.Query(ctx, selectLogEntry, workspace, id))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonNotificationLogNotFound)
	}
	return entry, err
}
