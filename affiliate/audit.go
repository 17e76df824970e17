package affiliate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// AuditID identifies a line of the audit log.
type AuditID = ID[AuditEntry]

// AuditEntry is a line of the audit log: who changed what of a workspace. It is
// never changed itself.
type AuditEntry struct {
	ID   AuditID
	Mode *Mode // nil: of the workspace as a whole
	At   time.Time
	// Actor is a user's id, a key's id, or system. ActorName is the name of the
	// two, as it is now; nil for system and for who is gone.
	Actor        string
	ActorName    *string
	Action       string // noun.verb
	ResourceType string
	ResourceID   uuid.UUID
	// Before and After are the changed parts of the resource, JSON; nil where there
	// was none.
	Before json.RawMessage
	After  json.RawMessage
	// IPPrefix is the shortened client address (/24 or /48); nil for system.
	IPPrefix  *string
	RequestID *string
}

// AuditFilter selects entries of the audit log that match all fields that are set.
type AuditFilter struct {
	Actor string
	// Action is a whole action, ActionNoun the part before its dot.
	Action       string
	ActionNoun   string
	ResourceType string
	ResourceID   *uuid.UUID
	At           Period
}

// AuditLine is an entry to be written in the transaction of the change that it
// records.
type AuditLine struct {
	Workspace    WorkspaceID
	Mode         *Mode // nil: of the workspace as a whole
	Actor        Actor
	At           time.Time
	Action       string // noun.verb
	ResourceType string
	ResourceID   fmt.Stringer
	// Before and After are the changed parts of the resource. They are encoded as
	// JSON, unless they are nil.
	Before, After any
}

// AccountAuditLine is an entry in the audit log of an account that belongs to no
// workspace, written in the transaction of the change that it records.
type AccountAuditLine struct {
	User   UserID
	Actor  Actor
	At     time.Time
	Action string // noun.verb
	// Before and After are the changed parts. They are encoded as JSON, unless they
	// are nil.
	Before, After any
}
