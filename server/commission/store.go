package commission

import (
	"context"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is the service's access to the database. An error of the API is an
// *affiliate.Error.
type Store interface {
	// ProgramScope returns the scope of a programme, which may belong to any workspace.
	// Errors: NOT_FOUND.
	ProgramScope(ctx context.Context, id affiliate.ProgramID) (affiliate.Scope, error)
	// Commissions returns one page of commissions and the number of commissions on all
	// pages. With a search, it counts up to affiliate.MaxSearchTotal.
	Commissions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder, page affiliate.Page) ([]affiliate.CommissionItem, int64, error)
	// CommissionStats counts the commissions and sums their amounts. With a search, it
	// counts up to affiliate.MaxSearchTotal. Errors: NOT_FOUND for the filter's programme.
	CommissionStats(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter) (affiliate.CommissionStats, error)
	// ExportCommissions returns all commissions of the filter from one snapshot. A row is
	// valid only until the next row is read. The iteration uses a database connection
	// until it ends. Errors: NOT_FOUND for the filter's participant, SERVICE_UNAVAILABLE
	// if too many exports are running.
	ExportCommissions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder) iter.Seq2[*affiliate.CommissionRow, error]
	// Commission reads one commission of a programme. Errors: NOT_FOUND.
	Commission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.CommissionDetail, error)
	// DueCommissions returns up to limit commissions of all workspaces that are due for
	// automatic approval at the time now. The page starts after the commission after. The
	// commissions are not locked, so they may have changed when the caller locks them.
	DueCommissions(ctx context.Context, now time.Time, after affiliate.DueCommission, limit int) ([]affiliate.DueCommission, error)
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockCommission locks a commission of a programme. Errors: NOT_FOUND.
	LockCommission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.LockedCommission, error)
	// TryLockCommission locks a commission without waiting. Errors: NOT_FOUND, also if
	// another transaction has locked it.
	TryLockCommission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.LockedCommission, error)
	// ApplyCommissionChanges writes changes of locked commissions with their history,
	// ledger entries, counts, events and audit lines.
	ApplyCommissionChanges(ctx context.Context, changes ...affiliate.CommissionChange) error
	// CommissionDetail reads a commission with the changes of this transaction.
	CommissionDetail(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.CommissionDetail, error)
}
