package postgres

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// exportTimeout is the maximum duration of an export. It includes the time that a
	// slow reader needs.
	exportTimeout = 10 * time.Minute
	// maxExports and maxWorkspaceExports limit how many exports a process runs at the
	// same time, in total and for one workspace. Each export uses a connection until
	// its reader has finished, and the pool also serves calls, jobs and ingestion.
	maxExports          = 8
	maxWorkspaceExports = 2
	// exportRetry is the time after which a client may repeat an export that was
	// rejected.
	exportRetry = 10 * time.Second
)

// exports counts the running exports. The zero value is ready to use.
type exports struct {
	mu      sync.Mutex
	all     int
	running map[affiliate.WorkspaceID]int
}

// enter reserves an export slot. It returns false if no slot is free.
func (e *exports) enter(workspace affiliate.WorkspaceID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all >= maxExports || e.running[workspace] >= maxWorkspaceExports {
		return false
	}
	if e.running == nil {
		e.running = map[affiliate.WorkspaceID]int{}
	}
	e.all++
	e.running[workspace]++
	return true
}

func (e *exports) leave(workspace affiliate.WorkspaceID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all--
	if e.running[workspace]--; e.running[workspace] == 0 {
		delete(e.running, workspace)
	}
}

// Export returns the rows of a query, read in one snapshot. A loop over the result uses
// a connection and an export slot until the loop ends. Each row is read when the loop
// needs it, so memory use does not grow with the number of rows. If there is an error,
// it is the last element. Errors: SERVICE_UNAVAILABLE if too many exports are running.
func Export[T any](
	ctx context.Context, db *DB, workspace affiliate.WorkspaceID, convert pgx.RowToFunc[T], sql string, args ...any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		tx, end, err := db.BeginExport(ctx, workspace)
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		defer end()
		ExportRows(ctx, tx, convert, sql, args...)(yield)
	}
}

// BeginExport begins a read-only transaction whose statements read one snapshot and may run for
// exportTimeout. The result end frees the connection and the export slot. Errors:
// SERVICE_UNAVAILABLE if the process or the workspace has no free export slot.
func (db *DB) BeginExport(ctx context.Context, workspace affiliate.WorkspaceID) (tx pgx.Tx, end func(), err error) {
	if !db.exports.enter(workspace) {
		return nil, nil, affiliate.TooManyExports(exportRetry)
	}
	tx, err = db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		db.exports.leave(workspace)
		return nil, nil, fmt.Errorf("begin export: %w", err)
	}
	end = func() {
		_ = tx.Rollback(ctx) // nothing to commit
		db.exports.leave(workspace)
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d", exportTimeout.Milliseconds())); err != nil {
		end()
		return nil, nil, fmt.Errorf("begin export: %w", err)
	}
	return tx, end, nil
}

// ExportRows returns the rows of a query in an export's transaction. If the loop stops
// before the last row, the connection is closed.
func ExportRows[T any](ctx context.Context, tx pgx.Tx, convert pgx.RowToFunc[T], sql string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		ctx, cancel := context.WithCancel(ctx)
		rows, _ := tx.Query(ctx, sql, args...)
		defer rows.Close()
		defer cancel() // otherwise Close reads the remaining rows
		for rows.Next() {
			row, err := convert(rows)
			if err != nil {
				yield(zero, fmt.Errorf("export rows: %w", err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(zero, fmt.Errorf("export rows: %w", err))
		}
	}
}

// ExportPlan makes Postgres read the rows from an index in the requested order and look
// up the names row by row. Without these settings, Postgres sometimes chooses a scan of
// all workspaces' rows, or sorts a million rows before it sends the first row. A search
// does not use ExportPlan, because it finds few rows, which are sorted quickly.
const ExportPlan = `set local enable_sort = off; set local enable_seqscan = off`
