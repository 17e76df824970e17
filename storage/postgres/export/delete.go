package export

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// DropExport deletes an export with its bundle and tokens, if the process with the lease
// e.Lease is making the bundle.
func DropExport(ctx context.Context, tx *postgres.Tx, e privacy.Export) error {
	const lock = `select e.id from exports e where e.subject_id = $1 and e.id = $2 and e.lease = $3 and e.ready_at is null for update`
	return drop(ctx, tx, lock, e.SubjectID, e.ID, e.Lease)
}

// DeleteExportsWithParticipant deletes all bundles that contain data of a participant: of the
// participant, of the partner and of the workspace. A bundle that is being made is deleted too, and its
// process stops. If a job is making the workspace's bundle, it begins again. The links no longer work.
func DeleteExportsWithParticipant(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.ParticipantID) error {
	const lock = `
		select e.id from exports e
		where e.subject_id in (
			select unnest(array[$1, $2]::uuid[])
			union all
			select t.partner_id from participants t where t.workspace_id = $1 and t.mode in ('test', 'live') and t.id = $2
		)
		order by e.id
		for update`
	return dropOrRestart(ctx, tx, lock, workspace, id)
}

// DeleteExportsWithPartner deletes all bundles that contain data of a partner's account: of the
// partner, of the partner's participants, and of the workspaces that have the partner in a
// programme or have invited the partner. EraseAccountTraces has replaced the address in the
// invitations by the pseudonym.
func DeleteExportsWithPartner(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const lock = `
		select e.id from exports e
		where e.partner_id = $1 or e.subject_id in (
			select t.workspace_id from participants t where t.partner_id = $1 and t.mode in ('test', 'live')
			union all
			select i.workspace_id from participant_invites i where i.email = $2 and i.mode in ('test', 'live')
		)
		order by e.id
		for update`
	return dropOrRestart(ctx, tx, lock, user, privacy.Pseudonym(user.UUID))
}

// DeleteExportsOfWorkspace deletes the bundles of a workspace and of its participants. The
// bundles of its partners stay.
func DeleteExportsOfWorkspace(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) error {
	const lock = `
		select e.id from exports e
		where e.workspace_id = $1 and e.subject_id is not null
		order by e.id
		for update`
	return drop(ctx, tx, lock, id)
}

// DeleteExportsWithSales deletes the bundles of a workspace and of its participants, which
// contain ids of sales. The bundle of a workspace that a job is making begins again.
func DeleteExportsWithSales(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) error {
	const lock = `
		select e.id from exports e
		where e.workspace_id = $1 and e.subject_id is not null
		order by e.id
		for update`
	return dropOrRestart(ctx, tx, lock, id)
}

// DeleteTestExports deletes the bundles of a workspace that contain data of test mode: of
// participants of test mode, and of the workspace.
func DeleteTestExports(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) error {
	const lock = `
		select e.id from exports e
		where e.workspace_id = $1 and (e.mode = 'test' or e.subject_id = $1)
		order by e.id
		for update`
	return drop(ctx, tx, lock, id)
}

// dropOrRestart deletes the exports whose ids a statement returns and locks. An export of a
// workspace that a job is making for a person starts again, so that the person gets the mail.
func dropOrRestart(ctx context.Context, tx *postgres.Tx, lock string, args ...any) error {
	const (
		// No process has the lease uuid.Nil, so a process that is making the bundle stops.
		restart = `
			update exports e set progress = $3, lease = $2
			where e.subject_id is not null and e.id = any($1) and e.kind = 'merchant' and e.queued and e.ready_at is null
			returning e.workspace_id as workspace, e.id as export`
		deleteChunks = `delete from export_chunks where export_id = $1`
	)
	ids, err := postgres.Values[privacy.ExportID](ctx, tx, lock, args...)
	if err != nil {
		return err
	}
	restarted, err := postgres.List[privacy.BuildExport](ctx, tx, restart, ids, uuid.Nil, privacy.ExportProgress{})
	if err != nil {
		return err
	}
	for _, job := range restarted {
		ids = slices.DeleteFunc(ids, func(id privacy.ExportID) bool { return id == job.Export })
		if _, err := tx.Exec(ctx, deleteChunks, job.Export); err != nil {
			return err
		}
		if err := tx.Enqueue(ctx, job); err != nil {
			return err
		}
	}
	return dropIDs(ctx, tx, ids)
}

// drop deletes the exports whose ids a statement returns and locks.
func drop(ctx context.Context, tx *postgres.Tx, lock string, args ...any) error {
	ids, err := postgres.Values[privacy.ExportID](ctx, tx, lock, args...)
	if err != nil {
		return err
	}
	return dropIDs(ctx, tx, ids)
}

// dropIDs deletes locked exports with their pieces, tokens and recipients.
func dropIDs(ctx context.Context, tx *postgres.Tx, ids []privacy.ExportID) error {
	if len(ids) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	batch.Queue(`delete from export_chunks where export_id = any($1)`, ids)
	batch.Queue(`delete from export_tokens where export_id = any($1)`, ids)
	batch.Queue(`delete from export_recipients where export_id = any($1)`, ids)
	batch.Queue(`delete from exports e where e.subject_id is not null and e.id = any($1)`, ids)
	return tx.SendBatch(ctx, batch).Close()
}

const (
	expired   = `select e.id from exports e where e.subject_id is not null and e.expires_at <= $1 order by e.expires_at limit 1 for update skip locked`
	abandoned = `select e.id from exports e where e.subject_id is not null and e.ready_at is null and e.created_at <= $1 order by e.created_at limit 1 for update skip locked`
)

// maxChunks is the maximum number of pieces that one transaction of dropOld deletes.
const maxChunks = 200

// DeleteExpiredExports deletes at most limit exports that expired before the given time. It
// returns the number of deleted exports.
func DeleteExpiredExports(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	return dropOld(ctx, db, expired, now, limit)
}

// DeleteAbandonedExports deletes at most limit exports that began before the given time and
// are not complete. It returns the number of deleted exports.
func DeleteAbandonedExports(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return dropOld(ctx, db, abandoned, before, limit)
}

// dropOld deletes at most limit exports, one after another. A large bundle takes several
// transactions.
func dropOld(ctx context.Context, db *postgres.DB, lock string, at time.Time, limit int) (dropped int64, err error) {
	for dropped < int64(limit) {
		var found, complete bool
		err := db.InTx(ctx, func(tx *postgres.Tx) error {
			ids, err := postgres.Values[privacy.ExportID](ctx, tx, lock, at)
			if found = len(ids) > 0; err != nil || !found {
				return err
			}
			const chunks = `
				delete from export_chunks
				where export_id = $1 and number in (select number from export_chunks where export_id = $1 limit $2)`
			tag, err := tx.Exec(ctx, chunks, ids[0], maxChunks)
			if complete = tag.RowsAffected() < maxChunks; err != nil || !complete {
				return err
			}
			return dropIDs(ctx, tx, ids)
		})
		if err != nil || !found {
			return dropped, err
		}
		if complete {
			dropped++
		}
	}
	return dropped, nil
}
