// Package click has the SQL of clicks: it stores batches of clicks, finds the targets of clicks, erases
// personal data in clicks, and replaces old clicks by sums. Only erasures and Purge update clicks.
package click

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// DataError reports that Postgres rejected the values of a record. It would reject the same values again.
type DataError struct{ err *pgconn.PgError }

// Error returns the message and the SQLSTATE. It contains none of the values.
func (e *DataError) Error() string { return fmt.Sprintf("%s (SQLSTATE %s)", e.err.Message, e.err.Code) }

// Unwrap returns the driver's error.
func (e *DataError) Unwrap() error { return e.err }

// codeProgramLimit is the SQLSTATE of a value that is too wide for an index.
const codeProgramLimit = "54000"

// dataError returns a DataError for errors that the values of a record have caused: the
// SQLSTATE classes 22 (data exception) and 23 (integrity constraint violation, except
// unique violations), and codeProgramLimit. It returns other errors unchanged.
func dataError(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code == postgres.CodeUniqueViolation {
		return err
	}
	if strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23") || pgErr.Code == codeProgramLimit {
		return &DataError{pgErr}
	}
	return err
}

// Store stores either all clicks or none. A click that is already stored stays unchanged.
// In the same transaction Store updates the click counts and enqueues a job for each
// click that a conversion waits for. The clicks of bots are not counted. It drops clicks
// of test mode that were received before the last deletion of the workspace's test data.
//
// If Postgres rejects the values of a click, the error is a *DataError. After any other error,
// either all clicks are stored or none.
//
// First it copies all clicks straight into the table, which is the fastest way. If a
// click already exists, the copy fails, and Store starts again with the slower
// mergeClicks. If there are clicks to drop, Store starts again without them.
func Store(ctx context.Context, db *postgres.DB, clicks []click.Click) error {
	for len(clicks) > 0 {
		err := storeClicks(ctx, db, clicks)
		var reset *testDataResetError
		if !errors.As(err, &reset) {
			return err
		}
		clicks = slices.DeleteFunc(slices.Clone(clicks), reset.includes)
	}
	return nil
}

// storeClicks does the work of Store, or returns a *testDataResetError and stores
// nothing.
func storeClicks(ctx context.Context, db *postgres.DB, clicks []click.Click) error {
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := copyClicks(ctx, tx, "clicks", clicks); err != nil {
			return err
		}
		return countAndEnqueue(ctx, tx, clicks, clicks)
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == postgres.CodeUniqueViolation {
		err = db.InTx(ctx, func(tx *postgres.Tx) error {
			stored, err := mergeClicks(ctx, tx, clicks)
			if err != nil {
				return err
			}
			return countAndEnqueue(ctx, tx, clicks, stored)
		})
	}
	if err != nil {
		return fmt.Errorf("clicks: %w", dataError(err))
	}
	return nil
}

// testDataResetError rolls back a transaction that has stored clicks of deleted test data. It
// contains the time of the last deletion for each workspace with such clicks.
type testDataResetError struct {
	at map[affiliate.WorkspaceID]time.Time
}

// Error implements error.
func (*testDataResetError) Error() string { return "some clicks belong to deleted test data" }

// includes reports whether a click was received before the last deletion of its workspace's test data.
func (r *testDataResetError) includes(c click.Click) bool {
	at, ok := r.at[c.Workspace]
	return ok && c.Mode == affiliate.ModeTest && !c.ReceivedAt.After(at)
}

// selectResets searches the primary key. Its result is empty unless a click must be dropped.
const selectResets = `
	select w.id, w.test_data_reset_at
	from unnest($1::uuid[], $2::timestamptz[]) as c (workspace_id, received_at)
	join workspaces w on w.id = c.workspace_id and w.test_data_reset_at >= c.received_at`

// queueResets queues a search for clicks of deleted test data, if there are test clicks.
//
// The statement must run after the clicks were inserted, in the same transaction. No click is
// then missed, whatever the order of this transaction and the deletion:
//
//   - If the deletion has committed its time before the statement begins, the statement sees
//     the time.
//   - Otherwise this transaction has locked the table of clicks before the deletion commits
//     its time. After that commit, the deletion waits for the end of all transactions that
//     have locked the table. Then it deletes clicks, and it sees the clicks of this
//     transaction.
func queueResets(batch *pgx.Batch, clicks []click.Click, found *testDataResetError) {
	oldest := map[affiliate.WorkspaceID]time.Time{}
	for n := range clicks {
		c := &clicks[n]
		if c.Mode != affiliate.ModeTest {
			continue
		}
		if at, ok := oldest[c.Workspace]; !ok || c.ReceivedAt.Before(at) {
			oldest[c.Workspace] = c.ReceivedAt
		}
	}
	if len(oldest) == 0 {
		return
	}
	workspaces, times := make([]pgtype.UUID, 0, len(oldest)), make([]time.Time, 0, len(oldest))
	for workspace, at := range oldest {
		workspaces, times = append(workspaces, pgUUID(workspace.UUID)), append(times, at)
	}
	batch.Queue(selectResets, workspaces, times).Query(func(rows pgx.Rows) error {
		found.at = map[affiliate.WorkspaceID]time.Time{}
		var workspace uuid.UUID
		var at time.Time
		_, err := pgx.ForEachRow(rows, []any{&workspace, &at}, func() error {
			found.at[affiliate.WorkspaceID{UUID: workspace}] = at
			return nil
		})
		return err
	})
}

// countAndEnqueue adds to the counts the clicks of the parameter stored, which were not in the
// table before. For each click of the parameter clicks that a conversion waits for, it enqueues a
// job, which needs a second round trip. It returns a *testDataResetError if clicks must be dropped.
func countAndEnqueue(ctx context.Context, tx *postgres.Tx, clicks, stored []click.Click) error {
	const anyAwaited = `select exists (select from awaited_clicks)`
	batch := &pgx.Batch{}
	var reset testDataResetError
	queueResets(batch, clicks, &reset)
	queueClickCounts(batch, stored)
	postgres.QueueClickLog(batch, stored)
	erased := map[participantKey]bool{}
	queueErased(batch, clicks, erased)
	var anyWaiting bool
	batch.Queue(anyAwaited).QueryRow(func(row pgx.Row) error { return row.Scan(&anyWaiting) })
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if len(reset.at) > 0 {
		return &reset
	}
	if err := eraseClicks(ctx, tx, clicks, erased); err != nil || !anyWaiting {
		return err
	}
	return enqueueAwaited(ctx, tx, clicks)
}

// pgUUID converts a UUID without formatting it as text. The zero UUID becomes null.
func pgUUID(u uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: u != uuid.Nil} }

// mergeClicks stores the clicks that are not in the table yet. It returns the clicks that
// it stored. They contain only the fields that the counts and the analytics need.
func mergeClicks(ctx context.Context, tx *postgres.Tx, clicks []click.Click) ([]click.Click, error) {
	const stage = `create temporary table clicks_incoming (like clicks) on commit drop`
	if _, err := tx.Exec(ctx, stage); err != nil {
		return nil, err
	}
	if err := copyClicks(ctx, tx, "clicks_incoming", clicks); err != nil {
		return nil, err
	}
	merge := `
		insert into clicks (` + clickColumns + `)
		select ` + clickColumns + ` from clicks_incoming
		on conflict (workspace_id, id, clicked_at) do nothing
		returning ` + postgres.CountedClickColumns
	rows, _ := tx.Query(ctx, merge)
	return pgx.CollectRows(rows, postgres.CountedClick)
}

// queueClickCounts adds clicks, except those of bots, to the counts of their participants
// and links, with one row of stats_deltas for each.
func queueClickCounts(batch *pgx.Batch, clicks []click.Click) {
	const insert = `
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, currency, clicks)
		select workspace_id, id, mode, program_id, participant_id, link_id, '', clicks
		from unnest(
			@workspaces::uuid[], @ids::uuid[], @modes::text[], @programs::uuid[], @participants::uuid[], @links::uuid[], @clicks::bigint[])
			as d (workspace_id, id, mode, program_id, participant_id, link_id, clicks)`
	type countKey struct {
		scope       affiliate.Scope
		program     affiliate.ProgramID
		participant affiliate.ParticipantID
		link        affiliate.LinkID
	}
	// count is the number of clicks, and the time of receipt of the first of them.
	type count struct {
		clicks int64
		at     time.Time
	}
	counts := make(map[countKey]*count)
	for n := range clicks {
		c := &clicks[n]
		if c.IsBot {
			continue
		}
		key := countKey{c.Scope, c.Program, c.Participant, c.Link}
		counted := counts[key]
		if counted == nil {
			counted = &count{at: c.ReceivedAt}
			counts[key] = counted
		}
		counted.clicks++
	}
	if len(counts) == 0 {
		return
	}
	var (
		workspaces, ids, programs, participants, links = uuids(counts), uuids(counts), uuids(counts), uuids(counts), uuids(counts)
		modes                                          = make([]string, 0, len(counts))
		numbers                                        = make([]int64, 0, len(counts))
	)
	for key, counted := range counts {
		workspaces = append(workspaces, pgUUID(key.scope.Workspace.UUID))
		ids = append(ids, pgUUID(affiliate.NewID[affiliate.ID[analytics.StatsDelta]](counted.at).UUID))
		modes = append(modes, string(key.scope.Mode))
		programs = append(programs, pgUUID(key.program.UUID))
		participants = append(participants, pgUUID(key.participant.UUID))
		links = append(links, pgUUID(key.link.UUID))
		numbers = append(numbers, counted.clicks)
	}
	batch.Queue(insert, pgx.NamedArgs{
		"workspaces": workspaces, "ids": ids, "modes": modes, "programs": programs, "participants": participants, "links": links,
		"clicks": numbers,
	})
}

// uuids returns an empty slice with capacity for one UUID per key of m.
func uuids[K comparable, V any](m map[K]V) []pgtype.UUID { return make([]pgtype.UUID, 0, len(m)) }

// enqueueAwaited enqueues a job for each of the given clicks that a conversion waits for.
// It searches the index of awaited_clicks once per click.
func enqueueAwaited(ctx context.Context, tx *postgres.Tx, clicks []click.Click) error {
	const awaited = `
		select distinct a.workspace_id as workspace, a.click_id as click
		from unnest($1::uuid[], $2::uuid[]) as c (workspace_id, click_id)
		join awaited_clicks a on a.workspace_id = c.workspace_id and a.click_id = c.click_id`
	workspaces, ids := make([]pgtype.UUID, len(clicks)), make([]pgtype.UUID, len(clicks))
	for n := range clicks {
		workspaces[n], ids[n] = pgUUID(clicks[n].Workspace.UUID), pgUUID(clicks[n].ID.UUID)
	}
	found, err := postgres.List[click.AwaitedClick](ctx, tx, awaited, workspaces, ids)
	if err != nil {
		return err
	}
	jobs := make([]affiliate.Job, len(found))
	for n, c := range found {
		jobs[n] = conversion.AttributeLateClick{AwaitedClick: c}
	}
	return tx.Enqueue(ctx, jobs...)
}

// Resolve finds the link of each click by the click's public API key and referral
// code. It returns one result per source, in the order of the sources. The statement has
// no condition on workspace and mode, because the API keys determine them. If Postgres rejects
// the values of a source, the error is a *DataError.
func Resolve(ctx context.Context, db *postgres.DB, sources []click.Source) ([]click.Resolution, error) {
	const resolve = `
		select k.workspace_id, coalesce(k.mode, '') as mode, p.id as program_id, r.participant_id, l.id as link_id,
			coalesce(p.attribution_window_days, 0) as window_days
		from unnest($1::bytea[], $2::text[]) with ordinality as s (digest, code, n)
		left join api_keys k on k.digest = s.digest and k.kind = 'public' and k.revoked_at is null
		left join referral_codes r on r.workspace_id = k.workspace_id and r.mode = k.mode and r.code = s.code
		left join programs p on p.workspace_id = r.workspace_id and p.id = r.program_id and p.status = 'active'
		left join links l on l.workspace_id = r.workspace_id and l.id = r.link_id and l.deleted_at is null
		order by s.n`
	digests, codes := make([][]byte, len(sources)), make([]string, len(sources))
	for n := range sources {
		digests[n], codes[n] = sources[n].KeyDigest[:], sources[n].Code
	}
	targets, err := postgres.List[click.Target](ctx, db, resolve, digests, codes)
	if err != nil {
		return nil, fmt.Errorf("resolve clicks: %w", dataError(err))
	}
	found := make([]click.Resolution, len(targets))
	for n, target := range targets {
		switch {
		case target.Workspace.IsZero():
			found[n].DeadReason = click.KeyUnknown
		case target.Program.IsZero() || target.Link.IsZero():
			found[n].DeadReason = click.CodeUnknown
		default:
			found[n].Target = target
		}
	}
	return found, nil
}

// StoreDeadLetters stores records that could not be stored as clicks. It ignores dead letters
// whose ids are already stored. If Postgres rejects the values of a dead letter, the error is a
// *DataError.
func StoreDeadLetters(ctx context.Context, db *postgres.DB, letters []click.DeadLetter) error {
	const insert = `
		insert into click_dead_letters (id, reason, record, created_at)
		values ($1, $2, $3, $4)
		on conflict (id) do nothing`
	batch := &pgx.Batch{} // its statements are one transaction
	for _, letter := range letters {
		record := letter.Record
		if record == nil {
			record = []byte{}
		}
		batch.Queue(insert, letter.ID, letter.Reason, record, letter.At)
	}
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("dead letters: %w", dataError(err))
	}
	return nil
}
