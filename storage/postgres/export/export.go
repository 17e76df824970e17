// Package export has the SQL for exports of personal data: the rows of the exports, the
// pieces of their bundles, and the statements that read the records of a bundle.
//
// The package reads, locks and stores rows. Its callers decide what is exported and encrypt it.
// A function with the parameter tx runs in the caller's transaction. The other functions run on
// their own.
package export

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var insertExport = postgres.RowsOf[privacy.Export](`
	insert into exports ({columns}) values {rows} on conflict (subject_id) where ready_at is null do nothing`)

var exportColumns = postgres.Columns[privacy.Export]("e")

// LockExport locks and returns the newest export of a subject that is being made or can be
// downloaded. It returns nil if there is none.
func LockExport(ctx context.Context, tx *postgres.Tx, subject privacy.ExportSubject, now time.Time) (*privacy.Export, error) {
	lock := `
		select ` + exportColumns + `
		from exports e
		where e.subject_id = $1 and e.kind = $2 and (e.ready_at is null or e.expires_at > $3)
		order by e.created_at desc
		limit 1
		for no key update`
	rows, _ := tx.Query(ctx, lock, subject.SubjectID, subject.Kind, now)
	found, err := pgx.CollectOneRow(rows, pgx.RowToAddrOfStructByName[privacy.Export])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nil means that there is none
	}
	return found, err
}

// InsertExport stores a new export. inserted is false if another export of the subject is
// being made.
func InsertExport(ctx context.Context, tx *postgres.Tx, e privacy.Export) (inserted bool, err error) {
	n, err := insertExport.Exec(ctx, tx, e)
	return n == 1, err
}

// TakeExport gives a locked export that is not complete to the process that e.Lease names,
// and stores e.Queued.
func TakeExport(ctx context.Context, tx *postgres.Tx, e privacy.Export) error {
	const take = `update exports set lease = $3, lease_until = $4, queued = $5 where subject_id = $1 and id = $2`
	return postgres.Exec(ctx, tx, take, e.SubjectID, e.ID, e.Lease, e.LeaseUntil, e.Queued)
}

// SaveProgress stores pieces of a bundle and the progress. It also extends the lease.
// saved is false if the export was deleted, or if another process makes the bundle.
func SaveProgress(ctx context.Context, tx *postgres.Tx, e privacy.Export, chunks [][]byte) (saved bool, err error) {
	const save = `
		update exports set progress = $4, lease_until = $5
		where subject_id = $1 and id = $2 and lease = $3 and ready_at is null`
	tag, err := tx.Exec(ctx, save, e.SubjectID, e.ID, e.Lease, e.Progress, e.LeaseUntil)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	first := e.Progress.Chunks - len(chunks)
	for i, chunk := range chunks {
		const insert = `insert into export_chunks (export_id, number, data) values ($1, $2, $3)`
		if _, err := tx.Exec(ctx, insert, e.ID, first+i, chunk); err != nil {
			return false, err
		}
	}
	return true, nil
}

// CompleteExport stores that a bundle is complete. completed is false if the export was
// deleted, or if another process makes the bundle.
func CompleteExport(ctx context.Context, tx *postgres.Tx, e privacy.Export) (completed bool, err error) {
	const complete = `
		update exports set ready_at = $4, expires_at = $5, lease_until = $4
		where subject_id = $1 and id = $2 and lease = $3 and ready_at is null`
	tag, err := tx.Exec(ctx, complete, e.SubjectID, e.ID, e.Lease, e.ReadyAt, e.ExpiresAt)
	return tag.RowsAffected() == 1, err
}

// InsertToken stores a token of an export.
func InsertToken(ctx context.Context, tx *postgres.Tx, token privacy.ExportToken, digest [sha256.Size]byte) error {
	const insert = `insert into export_tokens (digest, export_id, created_at, expires_at) values ($1, $2, $3, $4)`
	return postgres.Exec(ctx, tx, insert, digest[:], token.Export, token.CreatedAt, token.ExpiresAt)
}

// AddRecipient adds a member to whom the link is mailed when the bundle is complete.
func AddRecipient(ctx context.Context, tx *postgres.Tx, id privacy.ExportID, user affiliate.UserID, at time.Time) error {
	const insert = `insert into export_recipients (export_id, user_id, requested_at) values ($1, $2, $3) on conflict do nothing`
	return postgres.Exec(ctx, tx, insert, id, user, at)
}

// Recipients returns the members to whom the link of an export is mailed. A user who has left
// the workspace is not among them.
func Recipients(ctx context.Context, tx *postgres.Tx, e privacy.Export) ([]privacy.ExportRecipient, error) {
	const read = `
		select u.id as user, u.name, u.email as address, m.role
		from export_recipients r
		join members m on m.workspace_id = $2 and m.user_id = r.user_id
		join users u on u.id = r.user_id
		where r.export_id = $1 and u.erased_at is null
		order by u.id`
	return postgres.List[privacy.ExportRecipient](ctx, tx, read, e.ID, e.WorkspaceID)
}

// ExportOfJob returns the export of a workspace. Errors: NOT_FOUND.
func ExportOfJob(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id privacy.ExportID) (privacy.Export, error) {
	read := `
		select ` + exportColumns + `
		from exports e
		where e.subject_id = $1 and e.id = $2`
	return postgres.OneRow[privacy.Export](db.Query(ctx, read, workspace, id))
}

// ExportOfToken returns the complete export of a token that has not expired. Errors:
// NOT_FOUND.
func ExportOfToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, now time.Time) (privacy.Export, error) {
	read := `
		select ` + exportColumns + `
		from export_tokens t
		join exports e on e.id = t.export_id
		where t.digest = $1 and t.expires_at > $2 and e.expires_at > $2`
	return postgres.OneRow[privacy.Export](db.Query(ctx, read, digest[:], now))
}

// Chunk returns a piece of a bundle. Errors: NOT_FOUND.
func Chunk(ctx context.Context, db *postgres.DB, id privacy.ExportID, number int) ([]byte, error) {
	const read = `select c.data from export_chunks c where c.export_id = $1 and c.number = $2`
	row, err := postgres.OneRow[struct{ Data []byte }](db.Query(ctx, read, id, number))
	return row.Data, err
}
