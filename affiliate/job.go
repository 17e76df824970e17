package affiliate

import "time"

// Job is background work. A job is enqueued in the transaction of the change that requires it.
// storage/postgres inserts jobs, and packages under server execute them; both use the types of
// this package and the packages below it. Arguments contain ids but no personal data, so an
// erasure of personal data does not have to search the queue. A job may run more than once, and
// it may run after a newer job of the same kind.
type Job interface{ Kind() string }

// SyncDirectory is the job that updates the edge directory, which is the list of public
// keys and codes that collectors read from Redis. It updates one programme
// with all its codes if Program is set, the codes of one participant if Participant is
// set, and the workspace's public keys if neither is set.
type SyncDirectory struct {
	Workspace   WorkspaceID    `json:"workspace"`
	Program     *ProgramID     `json:"program,omitempty"`
	Participant *ParticipantID `json:"participant,omitempty"`
}

// DirectoryQueue is the queue of SyncDirectory. It has its own queue because collectors
// must see a change within a second, no matter how many other jobs are waiting.
const DirectoryQueue = "directory"

// Kind returns the name of the job.
func (SyncDirectory) Kind() string { return "sync_directory" }

// Upkeep is the job that creates the partitions of the next days and deletes expired
// data.
type Upkeep struct{}

// Kind returns the name of the job.
func (Upkeep) Kind() string { return "upkeep" }

// JobQueueStats is the state of a queue of jobs.
type JobQueueStats struct {
	Queue string
	// OldestWaiting is the time from which the oldest waiting job was allowed to run; nil if no
	// job waits.
	OldestWaiting *time.Time
	// Retrying is the number of jobs that wait for another attempt.
	Retrying int64
}

// CheckBooks is the job that checks the bookkeeping. It compares data that is stored
// in two places, such as the ledger and the balances. It does not concern user accounts.
type CheckBooks struct{}

// Kind returns the name of the job.
func (CheckBooks) Kind() string { return "check_books" }

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
