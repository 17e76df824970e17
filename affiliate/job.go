package affiliate

import "time"

// Job is background work that is enqueued in the transaction of the change that causes
// it. Packages under server work jobs, and storage/postgres inserts them; both use
// these names and arguments. Arguments contain ids but no personal data, so an erasure
// does not have to search the queue. A job may run more than once, and after a newer
// job of its kind.
type Job interface{ Kind() string }

// SyncDirectory is the job that updates the edge directory. It updates one programme
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

// AttributeLateClick is the job that attributes conversions again after a click that they
// name has arrived late.
type AttributeLateClick struct {
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
// disabled or deleted endpoint to canceled. These deliveries are already not sent any
// more when the job starts.
type CancelDeliveries struct {
	Workspace WorkspaceID `json:"workspace"`
	Mode      Mode        `json:"mode"`
	Endpoint  EndpointID  `json:"endpoint"`
}

// Kind returns the name of the job.
func (CancelDeliveries) Kind() string { return "cancel_deliveries" }

// RecoverDeliveries is the job that sends deliveries of an endpoint again, each with a
// new schedule of attempts. It takes the deliveries that had one of the statuses when
// the recovery was requested.
type RecoverDeliveries struct {
	Workspace   WorkspaceID      `json:"workspace"`
	Mode        Mode             `json:"mode"`
	Endpoint    EndpointID       `json:"endpoint"`
	Since       time.Time        `json:"since"` // earliest time of the event, inclusive
	Until       time.Time        `json:"until"` // latest time of the event, exclusive
	Statuses    []DeliveryStatus `json:"statuses"`
	RequestedAt time.Time        `json:"asked_at"` // deliveries that ended later are not recovered
}

// Kind returns the name of the job.
func (RecoverDeliveries) Kind() string { return "recover_deliveries" }
