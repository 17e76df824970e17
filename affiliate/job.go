package affiliate

import "time"

// Job is work that follows from a change and commits with it. Workers live in
// server/, the insertion in storage/postgres; both need the names and the
// arguments, which hold ids only, so that erasure never has to search a queue.
// A job may run more than once, and later than a newer one of its kind.
type Job interface{ Kind() string }

// SyncDirectory brings the edge directory up to date: with one programme and
// all its codes, or with one participant's codes, or, with neither, with the
// workspace's public keys.
type SyncDirectory struct {
	Workspace   WorkspaceID    `json:"workspace"`
	Program     *ProgramID     `json:"program,omitempty"`
	Participant *ParticipantID `json:"participant,omitempty"`
}

// DirectoryQueue is the queue of SyncDirectory: the edge has to hear of a change
// within a second, however much other work waits.
const DirectoryQueue = "directory"

// Kind names the job.
func (SyncDirectory) Kind() string { return "sync_directory" }

// AttributeAwaited decides anew about the conversions that named a click which
// has arrived only now.
type AttributeAwaited struct {
	Workspace WorkspaceID `json:"workspace"`
	Click     ClickID     `json:"click"`
}

// Kind names the job.
func (AttributeAwaited) Kind() string { return "attribute_awaited" }

// Upkeep makes the partitions of the days ahead and forgets what has ended.
type Upkeep struct{}

// Kind names the job.
func (Upkeep) Kind() string { return "upkeep" }

// CancelDeliveries marks the waiting deliveries of an endpoint that was turned off
// or deleted as canceled; none of them is sent from the moment of that change.
type CancelDeliveries struct {
	Workspace WorkspaceID `json:"workspace"`
	Mode      Mode        `json:"mode"`
	Endpoint  EndpointID  `json:"endpoint"`
}

// Kind names the job.
func (CancelDeliveries) Kind() string { return "cancel_deliveries" }

// RecoverDeliveries sends deliveries of an endpoint again that had one of these
// states when that was asked for, each with a new schedule of attempts.
type RecoverDeliveries struct {
	Workspace WorkspaceID      `json:"workspace"`
	Mode      Mode             `json:"mode"`
	Endpoint  EndpointID       `json:"endpoint"`
	Since     time.Time        `json:"since"` // of the event, inclusive
	Until     time.Time        `json:"until"` // exclusive
	Statuses  []DeliveryStatus `json:"statuses"`
	AskedAt   time.Time        `json:"asked_at"` // what ended later is left alone
}

// Kind names the job.
func (RecoverDeliveries) Kind() string { return "recover_deliveries" }
