package commission

import (
	"context"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error.
type Store interface {
	// ProgramScope returns the workspace and mode of a programme of any workspace.
	// Errors: NOT_FOUND.
	ProgramScope(ctx context.Context, id affiliate.ProgramID) (affiliate.Scope, error)
	// Commissions reads one page and counts all pages; with a search up to
	// affiliate.MaxSearchTotal.
	Commissions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder, page affiliate.Page) ([]affiliate.CommissionItem, int64, error)
	// CommissionStats counts and sums them; with a search up to
	// affiliate.MaxSearchTotal. Errors: NOT_FOUND for the filter's programme.
	CommissionStats(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter) (affiliate.CommissionStats, error)
	// ExportCommissions returns all of these commissions as one snapshot has them.
	// Each element is valid until the next one. The loop over them holds a
	// connection. Errors: NOT_FOUND for the filter's participant,
	// SERVICE_UNAVAILABLE if too many exports are running.
	ExportCommissions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder) iter.Seq2[*affiliate.CommissionRow, error]
	// Commission reads one commission of a programme. Errors: NOT_FOUND.
	Commission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.CommissionDetail, error)
	// DueCommissions reads, without a lock, up to limit commissions of all workspaces
	// that look due for automatic approval at now, from the one after the given one on.
	DueCommissions(ctx context.Context, now time.Time, after affiliate.DueCommission, limit int) ([]affiliate.DueCommission, error)
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockCommission locks a commission of a programme. Errors: NOT_FOUND.
	LockCommission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.LockedCommission, error)
	// TryLockCommission does not wait: a locked commission is NOT_FOUND.
	TryLockCommission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.LockedCommission, error)
	// ApplyCommissionChanges writes changes of locked commissions with their history,
	// ledger entries, counts, events and audit lines.
	ApplyCommissionChanges(ctx context.Context, changes ...affiliate.CommissionChange) error
	// CommissionDetail reads a commission as the transaction has left it.
	CommissionDetail(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.CommissionDetail, error)
}
