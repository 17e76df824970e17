package affiliate

import "time"

// Job is work that follows from a change and commits with it. Workers live in
// server/, the insertion in storage/postgres; both need the names and the
// arguments, which hold ids only, so that erasure never has to search a queue.
// A job may run more than once, and later than a newer one of its kind.
type Job interface{ Kind() string }

// DispatchEvents takes committed events of one workspace on to whoever follows
// them.
type DispatchEvents struct {
	Workspace WorkspaceID `json:"workspace"`
	Events    []EventID   `json:"events"`
}

// Kind names the job.
func (DispatchEvents) Kind() string { return "dispatch_events" }

// ConvertedClick is a click as an event tells that it has converted.
type ConvertedClick struct {
	Event EventID
	Click ClickID
	At    time.Time // of the conversion
	// MayCome: where the click is not stored, it may still be on its way.
	MayCome bool
}

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
