package affiliate

// ApproveDueCommissions approves commissions whose hold has elapsed. It names
// none: what is due is looked up when the job runs.
type ApproveDueCommissions struct{}

// Kind names the job.
func (ApproveDueCommissions) Kind() string { return "approve_due_commissions" }

// CommissionSweep is what one run of ApproveDueCommissions did.
type CommissionSweep struct {
	Approved int
	// Left are commissions that were no longer due, or in somebody's hands, when
	// their turn came.
	Left int
	// Failed are those that an accident kept from being approved; FirstFailure
	// is the first.
	Failed       int
	FirstFailure error
}
