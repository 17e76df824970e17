package notification

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The number of recipients is only in the audit record, which has the time of the announcement. The
// page is limited before the records and the names are read.
var (
	listAnnouncements  = selectAnnouncements("order by created_at desc, id desc limit $4 offset $5")
	getAnnouncement    = selectAnnouncements("and id = $4")
	countAnnouncements = postgres.CountUpTo(affiliate.MaxTotal, `from announcements where workspace_id = $1 and mode = $2 and program_id = $3`)
)

// selectAnnouncements returns the statement that reads the announcements of a programme. rest is the
// rest of their condition, or their order and the page.
func selectAnnouncements(rest string) string {
	return `
	select a.id, a.program_id, a.title, a.body, a.created_by, ` + postgres.ActorName("a.created_by::text", "a.workspace_id") + ` as created_by_name, a.created_at,
		(
			select (l.after->>'recipients')::bigint from audit_log l
			where l.workspace_id = a.workspace_id and l.resource_id = a.program_id and l.at = a.created_at
				and l.action = 'program.announce' and l.after->>'announcement' = a.id::text
			limit 1
		) as recipients
	from (
		select * from announcements
		where workspace_id = $1 and mode = $2 and program_id = $3 ` + rest + `
	) a
	order by a.created_at desc, a.id desc`
}

// GetAnnouncement returns a programme's announcement. Errors: NOT_FOUND.
func GetAnnouncement(ctx context.Context, db postgres.Queryer, a notification.Announcement) (notification.SentAnnouncement, error) {
	return postgres.OneRow[notification.SentAnnouncement](db.Query(ctx, getAnnouncement, a.Scope.Workspace, a.Scope.Mode, a.Program, a.ID))
}

// ListAnnouncements returns one page of a programme's announcements, newest first, and their number.
func ListAnnouncements(
	ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, page affiliate.Page,
) ([]notification.SentAnnouncement, int64, error) {
	sent, err := postgres.List[notification.SentAnnouncement](ctx, db, listAnnouncements, scope.Workspace, scope.Mode, program, page.Size, page.Offset())
	if err != nil {
		return nil, 0, err
	}
	total, err := postgres.Value[int64](ctx, db, countAnnouncements, scope.Workspace, scope.Mode, program)
	return sent, total, err
}
