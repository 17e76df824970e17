package commission

import (
	"context"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// Store reads and changes commissions in the database. The errors with an API error code
// are of type *affiliate.Error.
type Store interface {
	// ProgramScope returns the workspace and the mode of a programme. The programme may
	// belong to any workspace. Errors: NOT_FOUND.
	ProgramScope(ctx context.Context, id affiliate.ProgramID) (affiliate.Scope, error)
	// Commissions returns one page of commissions and the number of commissions on all
	// pages. If the filter has a search text, it stops counting at
	// affiliate.MaxSearchTotal.
	Commissions(ctx context.Context, scope affiliate.Scope, filter commission.Filter, order commission.Order, page affiliate.Page) ([]commission.Item, int64, error)
	// CommissionStats counts the commissions that match the filter and sums their
	// amounts. If the filter has a search text, it stops at affiliate.MaxSearchTotal
	// commissions. Errors: NOT_FOUND for the filter's programme.
	CommissionStats(ctx context.Context, scope affiliate.Scope, filter commission.Filter) (commission.Stats, error)
	// ExportCommissions returns all commissions that match the filter, from one snapshot
	// of the database. The caller must not use a row after it has read the next row. The
	// iteration uses a database connection until it ends. Errors: NOT_FOUND for the
	// filter's participant, SERVICE_UNAVAILABLE if too many exports are running.
	ExportCommissions(ctx context.Context, scope affiliate.Scope, filter commission.Filter, order commission.Order) iter.Seq2[*commission.Row, error]
	// Commission reads one commission of a programme. Errors: NOT_FOUND.
	Commission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (commission.Detail, error)
	// ProgramOfCommission returns the programme of a commission. Errors: NOT_FOUND.
	ProgramOfCommission(ctx context.Context, scope affiliate.Scope, id affiliate.CommissionID) (affiliate.ProgramID, error)
	// DueCommissions returns at most limit commissions, from all workspaces, that are due
	// for automatic approval at the given time. They follow the commission in cursor, or
	// are the first commissions if cursor is zero. The commissions are not locked, so
	// they may change before the caller locks them.
	DueCommissions(ctx context.Context, now time.Time, cursor commission.DueCommission, limit int) ([]commission.DueCommission, error)
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockCommission locks a commission of a programme. Errors: NOT_FOUND.
	LockCommission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (commission.Locked, error)
	// TryLockCommission locks a commission without waiting for a lock. Errors: NOT_FOUND
	// if the commission does not exist or another transaction has locked it.
	TryLockCommission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (commission.Locked, error)
	// ApplyCommissionChanges writes changes of locked commissions, together with the
	// resulting history entries, ledger entries, counts, events and audit records.
	ApplyCommissionChanges(ctx context.Context, changes ...commission.Change) error
	// CommissionDetail reads a commission, including the changes of this transaction.
	CommissionDetail(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (commission.Detail, error)
}
