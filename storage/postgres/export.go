package postgres

import (
	"context"
	"fmt"
	"strconv"
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
	// exportRetry is how long who found no place is told to wait.
	exportRetry = 10 * time.Second
)

// exports counts those that run. The zero value is none.
type exports struct {
	mu      sync.Mutex
	all     int
	running map[affiliate.WorkspaceID]int
}

// enter takes a place, unless there is none.
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

// inExport runs fn in a transaction that only reads and may take exportTimeout.
// Nothing is repeated: what fn handed on is out. SERVICE_UNAVAILABLE: as many as
// may run are running, in the process or for the workspace.
func (s *Store) inExport(ctx context.Context, workspace affiliate.WorkspaceID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if !s.exports.enter(workspace) {
		refused := affiliate.Refuse(affiliate.ReasonServiceUnavailable)
		refused.Message = "Too many exports are running."
		refused.Metadata = map[string]string{"retry_after": strconv.Itoa(int(exportRetry / time.Second))}
		return refused
	}
	defer s.exports.leave(workspace)
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d", exportTimeout.Milliseconds())); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}
