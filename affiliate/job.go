package affiliate

import "time"

// Job is background work. A job is enqueued in the transaction of the change that
// requires it. storage/postgres inserts jobs, and packages under server execute them;
// both use the types of this package. Arguments contain ids but no personal data, so an
// erasure of personal data does not have to search the queue. A job may run more than
// once, and it may run after a newer job of the same kind.
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

// AttributeLateClick is the job that attributes conversions again when the click that
// their reports named has arrived after the reports.
type AttributeLateClick struct{ AwaitedClick }

// AwaitedClick identifies a click that was not stored yet when conversions that name it
// were recorded. It may have been stored since then.
type AwaitedClick struct {
	Workspace WorkspaceID `json:"workspace"`
	Click     ClickID     `json:"click"`
}

// Kind returns the name of the job.
func (AttributeLateClick) Kind() string { return "attribute_awaited" }

// Upkeep is the job that creates the partitions of the next days and deletes expired
// data.
type Upkeep struct{}

// Kind returns the name of the job.
func (Upkeep) Kind() string { return "upkeep" }

// CancelDeliveries is the job that sets the status of the waiting deliveries of a
// disabled or deleted endpoint to canceled. The sender ignores these deliveries even
// before the job runs.
type CancelDeliveries struct {
	Workspace WorkspaceID `json:"workspace"`
	Mode      Mode        `json:"mode"`
	Endpoint  EndpointID  `json:"endpoint"`
}

// Kind returns the name of the job.
func (CancelDeliveries) Kind() string { return "cancel_deliveries" }

// RecoverDeliveries is the job that sends deliveries of an endpoint again, each with a
// new schedule of attempts. It selects the deliveries that had one of Statuses when the
// recovery was requested.
type RecoverDeliveries struct {
	Workspace   WorkspaceID      `json:"workspace"`
	Mode        Mode             `json:"mode"`
	Endpoint    EndpointID       `json:"endpoint"`
	Since       time.Time        `json:"since"` // earliest time of the event, inclusive
	Until       time.Time        `json:"until"` // latest time of the event, exclusive
	Statuses    []DeliveryStatus `json:"statuses"`
	RequestedAt time.Time        `json:"requested_at"` // deliveries that ended later are not recovered
}

// Kind returns the name of the job.
func (RecoverDeliveries) Kind() string { return "recover_deliveries" }

// NotifyPeriodically is the job that creates the notifications that are repeated every
// week or month.
type NotifyPeriodically struct{}

// Kind returns the name of the job.
func (NotifyPeriodically) Kind() string { return "notify_periodically" }

// SendDigests is the job that sends mails with gathered notifications.
type SendDigests struct{}

// Kind returns the name of the job.
func (SendDigests) Kind() string { return "send_digests" }

// JobQueueStats is the state of a queue of jobs.
type JobQueueStats struct {
	Queue string
	// OldestWaiting is the time since which the oldest waiting job could run; nil if no job
	// waits.
	OldestWaiting *time.Time
	// Retrying is the number of jobs that wait for another attempt.
	Retrying int64
}
