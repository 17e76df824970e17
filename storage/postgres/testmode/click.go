package testmode

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// No index of clicks and events contains the mode. The rows of a workspace are therefore read
// in the order of their ids, in both modes, and only the rows of test mode are deleted.
// The caller stores the last id of each page, so that no row is read twice.

const setResetAt = `
	update workspaces set test_data_reset_at = $2
	where id = $1 and (test_data_reset_at is null or test_data_reset_at < $2)`

// SetResetAt stores the time of a deletion. Clicks of test mode that were received until this time are not stored
// any more. The time never moves back.
func SetResetAt(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, at time.Time) error {
	return postgres.Exec(ctx, tx, setResetAt, workspace, at)
}

// clickWriters selects the transactions that write clicks, by their locks of the table. A transaction holds this
// lock from its first write to the table until it ends.
const clickWriters = `
	select distinct virtualtransaction from pg_locks
	where locktype = 'relation' and database = (select oid from pg_database where datname = current_database())
		and relation = 'clicks'::regclass and mode = 'RowExclusiveLock' and granted and pid is distinct from pg_backend_pid()`

// ClickWriters returns the names of the running transactions that write clicks. The name of
// a transaction is never used again.
func ClickWriters(ctx context.Context, db *postgres.DB) ([]string, error) {
	return postgres.Values[string](ctx, db, clickWriters)
}

const clickPage = `
	select id, clicked_at, mode from clicks
	where workspace_id = $1 and id > $2
	order by id
	limit $3`

// deleteClicks deletes clicks of one day, so that Postgres searches only the partition of
// this day. The join makes Postgres search the index once for each id. With a list of ids,
// it could compare each click of the day with the list.
const deleteClicks = `
	delete from clicks c
	using unnest($4::uuid[]) as x (id)
	where c.workspace_id = $1 and c.mode = 'test' and c.clicked_at >= $2 and c.clicked_at < $3 and c.id = x.id
	returning c.referral_code, c.ip_hash, c.ua_hash, c.received_at, c.consent, c.is_bot`

type clickRow struct {
	ID        affiliate.ClickID
	ClickedAt time.Time
	Mode      affiliate.Mode
}

type deletedClickRow struct {
	ReferralCode string
	IPHash       []byte `db:"ip_hash"`
	UAHash       []byte `db:"ua_hash"`
	ReceivedAt   time.Time
	Consent      click.Consent
	IsBot        bool
}

// DeleteClicks reads at most limit clicks of a workspace in the order of their ids, starting after the given id, and
// deletes the clicks of test mode. It returns the id of the last click that it has read, the number of clicks that
// it has read, and the deleted clicks. The deleted clicks contain only the fields that visitors.Delete needs to
// identify their visitors.
func DeleteClicks(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, after affiliate.ClickID, limit int,
) (last affiliate.ClickID, read int, deleted []click.Click, err error) {
	page, err := postgres.List[clickRow](ctx, tx, clickPage, workspace, after, limit)
	if err != nil || len(page) == 0 {
		return after, 0, nil, err
	}
	days := map[time.Time][]affiliate.ClickID{}
	for _, click := range page {
		if click.Mode == affiliate.ModeTest {
			day := click.ClickedAt.UTC().Truncate(24 * time.Hour)
			days[day] = append(days[day], click.ID)
		}
	}
	batch := &pgx.Batch{}
	for day, ids := range days {
		batch.Queue(deleteClicks, workspace, day, day.Add(24*time.Hour), uuids(ids)).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, pgx.RowToStructByName[deletedClickRow])
			for _, c := range found {
				deleted = append(deleted, click.Click{
					Scope:        affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeTest},
					ReferralCode: c.ReferralCode, IPHash: c.IPHash, UAHash: c.UAHash, ReceivedAt: c.ReceivedAt.UTC(), Consent: c.Consent, IsBot: c.IsBot,
				})
			}
			return err
		})
	}
	if batch.Len() > 0 {
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return after, 0, nil, err
		}
	}
	return page[len(page)-1].ID, len(page), deleted, nil
}

const (
	eventPage = `
		select id, mode from events
		where workspace_id = $1 and id > $2
		order by id
		limit $3`
	// deleteEvents needs no condition on the day, because there are only about six
	// partitions.
	deleteEvents = `
		delete from events e
		using unnest($2::uuid[]) as x (id)
		where e.workspace_id = $1 and e.mode = 'test' and e.id = x.id`
)

type eventRow struct {
	ID   affiliate.EventID
	Mode affiliate.Mode
}

// DeleteEvents reads at most limit events of a workspace in the order of their ids, starting after the given id, and
// deletes the events of test mode. It returns the id of the last event that it has read, and the numbers of events
// that it has read and deleted.
func DeleteEvents(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, after affiliate.EventID, limit int,
) (last affiliate.EventID, read int, deleted int64, err error) {
	page, err := postgres.List[eventRow](ctx, tx, eventPage, workspace, after, limit)
	if err != nil || len(page) == 0 {
		return after, 0, 0, err
	}
	var ids []affiliate.EventID
	for _, event := range page {
		if event.Mode == affiliate.ModeTest {
			ids = append(ids, event.ID)
		}
	}
	if len(ids) > 0 {
		tag, err := tx.Exec(ctx, deleteEvents, workspace, uuids(ids))
		if err != nil {
			return after, 0, 0, err
		}
		deleted = tag.RowsAffected()
	}
	return page[len(page)-1].ID, len(page), deleted, nil
}
