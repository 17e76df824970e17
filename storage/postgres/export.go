package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// exportTimeout ends an export that runs for longer, slow readers included.
	exportTimeout = 10 * time.Minute
	// maxExports and maxWorkspaceExports bound the exports of a process at a time.
	// Each holds a connection for as long as its reader takes, and calls, jobs and
	// ingestion share the pool.
	maxExports          = 8
	maxWorkspaceExports = 2
	// exportRetry is when a refused export may be tried again.
	exportRetry = 10 * time.Second
)

// exports counts the running exports. The zero value has none.
type exports struct {
	mu      sync.Mutex
	all     int
	running map[affiliate.WorkspaceID]int
}

// enter takes a place and reports whether one was free.
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

// inExport runs fn in a read-only transaction that may take exportTimeout. It never
// repeats fn, whose rows the reader has received. Errors: SERVICE_UNAVAILABLE if as
// many exports as may run are running, in the process or for the workspace.
func (db *DB) inExport(ctx context.Context, workspace affiliate.WorkspaceID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if !db.exports.enter(workspace) {
		return affiliate.TooManyExports(exportRetry)
	}
	defer db.exports.leave(workspace)
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d", exportTimeout.Milliseconds())); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// errExportStopped ends the transaction of an export whose reader has stopped.
var errExportStopped = errors.New("the reader of the export has stopped")

// Export returns the rows of a query as one snapshot has them. The loop over them
// holds a connection and one of the places for exports until it ends, and reads the
// rows as it consumes them, so its memory does not grow with their number. An error
// is the last element. Errors: SERVICE_UNAVAILABLE if too many exports are running.
func Export[T any](
	ctx context.Context, db *DB, workspace affiliate.WorkspaceID, convert pgx.RowToFunc[T], sql string, args ...any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := db.inExport(ctx, workspace, func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			defer func() {
				cancel() // otherwise Close reads the remaining rows
				rows.Close()
			}()
			for rows.Next() {
				row, err := convert(rows)
				if err != nil {
					return err
				}
				if !yield(row, nil) {
					return errExportStopped
				}
			}
			return rows.Err()
		})
		if err != nil && !errors.Is(err, errExportStopped) {
			var none T
			yield(none, fmt.Errorf("export: %w", err))
		}
	}
}
