package affiliate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// AuditID identifies an entry of the audit log.
type AuditID = ID[AuditEntry]

// AuditEntry is an entry of the audit log: who changed which part of a workspace.
// Entries are never changed.
type AuditEntry struct {
	ID   AuditID
	Mode *Mode // nil if the entry is about the workspace as a whole
	At   time.Time
	// Actor is a user's id, a key's id, or "system". ActorName is the present name of
	// that user or key. It is nil for "system", and for users and keys that no longer
	// exist.
	Actor        string
	ActorName    *string
	Action       string // noun.verb
	ResourceType string
	ResourceID   uuid.UUID
	// Before and After hold the changed parts of the resource as JSON, with their
	// values before and after the action. Either is nil if there are no values to show,
	// for example Before of an action that created the resource.
	Before json.RawMessage
	After  json.RawMessage
	// IPPrefix is the shortened client address (/24 or /48); nil for "system".
	IPPrefix  *string
	RequestID *string
}

// AuditFilter selects entries of the audit log that match all fields that are set.
type AuditFilter struct {
	Actor string
	// Action is a complete action such as "commission.approve". ActionNoun is only the
	// part before the dot.
	Action       string
	ActionNoun   string
	ResourceType string
	ResourceID   *uuid.UUID
	At           Period
}

// AuditLine is an audit log entry to write. It is written in the transaction of the
// change that it records.
type AuditLine struct {
	Workspace    WorkspaceID
	Mode         *Mode // nil if the entry is about the workspace as a whole
	Actor        Actor
	At           time.Time
	Action       string // noun.verb
	ResourceType string
	ResourceID   fmt.Stringer
	// Before and After hold the changed parts of the resource. Values other than nil
	// are encoded as JSON.
	Before, After any
}

// AccountAuditLine is an audit log entry about an account that belongs to no workspace.
// It is written in the transaction of the change that it records.
type AccountAuditLine struct {
	User   UserID
	Actor  Actor
	At     time.Time
	Action string // noun.verb
	// Before and After hold the changed parts. Values other than nil are encoded as
	// JSON.
	Before, After any
}
