package affiliate

import "time"

// ApproveDueCommissions approves commissions whose hold has elapsed. It names
// none: what is due is looked up when the job runs.
type ApproveDueCommissions struct{}

// Kind names the job.
func (ApproveDueCommissions) Kind() string { return "approve_due_commissions" }

// DueCommission is a commission that looked due for automatic approval when it was
// read without a lock.
type DueCommission struct {
	Workspace     WorkspaceID
	Mode          Mode
	Program       ProgramID
	ID            CommissionID
	AutoApproveAt time.Time
}

// CommissionSweep counts the outcomes of one run of ApproveDueCommissions.
type CommissionSweep struct {
	Approved int
	// Skipped were no longer due once locked, or were locked by another transaction.
	Skipped int
	// Failed met an internal error, the first of which is FirstFailure.
	Failed       int
	FirstFailure error
}
