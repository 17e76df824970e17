package commission

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// ApproveDueCommissions is the job that approves commissions whose hold period has
// ended. It has no arguments; the job looks up the due commissions when it runs.
type ApproveDueCommissions struct{}

// Kind returns the name of the job.
func (ApproveDueCommissions) Kind() string { return "approve_due_commissions" }

// DueCommission is a commission that was due for automatic approval when it was read. It
// was read without a lock, so it may have changed since then.
type DueCommission struct {
	affiliate.Scope
	Program       affiliate.ProgramID `db:"program_id"`
	ID            affiliate.CommissionID
	AutoApproveAt time.Time
}

// ApprovalCounts counts the outcomes of one run of ApproveDueCommissions.
type ApprovalCounts struct {
	Approved int
	// Skipped counts commissions that were no longer due when the job locked them, or
	// that another transaction had locked.
	Skipped int
	// Failed counts internal errors. FirstFailure is the first of them.
	Failed       int
	FirstFailure error
}
