package affiliate

import "time"

// CheckAccounts is the job that checks the bookkeeping. It compares data that is stored
// in two places, such as the ledger and the balances. It does not concern user accounts.
type CheckAccounts struct{}

// Kind returns the name of the job.
func (CheckAccounts) Kind() string { return "check_books" }

// CheckResult is the result of one comparison.
type CheckResult struct {
	Name     string
	Compares string // which two sources the check compares
	Compared int64  // number of items that were compared
	Violated int64  // number of items that differ
	// Violations describes the first differences in words.
	Violations []string
}

// LatestCheck is the stored result of the latest run of a consistency check.
type LatestCheck struct {
	Name      string
	Violated  int64      // number of items that differ
	CheckedAt *time.Time // nil if the check has never run
}
