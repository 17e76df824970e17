package affiliate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// AccountKind distinguishes merchants from partners. One e-mail address can have one
// account of each kind.
type AccountKind string

// The two kinds of account.
const (
	Merchant AccountKind = "merchant"
	Partner  AccountKind = "partner"
)

// Role determines what a member may do in a workspace. docs/contract.md#permissions lists
// the permissions.
type Role string

// The six roles.
const (
	RoleOwner     Role = "owner"
	RoleAdmin     Role = "admin"
	RoleManager   Role = "manager"
	RoleFinance   Role = "finance"
	RoleDeveloper Role = "developer"
	RoleViewer    Role = "viewer"
)

// Roles returns all roles, from the one with the most permissions to the one with
// the fewest.
func Roles() []Role {
	return []Role{RoleOwner, RoleAdmin, RoleManager, RoleFinance, RoleDeveloper, RoleViewer}
}

// MayManage reports whether a member of role r may invite, change and remove members of the
// given role, and may assign the given role. Owners manage all roles. Admins manage all roles
// except owner.
func (r Role) MayManage(other Role) bool {
	return r == RoleOwner || r == RoleAdmin && other != RoleOwner
}

// UnmanageableRoles returns the roles that a member of role r cannot manage.
func (r Role) UnmanageableRoles() []Role { return slices.DeleteFunc(Roles(), r.MayManage) }

// CheckRoleChange checks whether a caller of role r may change a member's role from one role to
// another. The parameter owners is the number of owners in the workspace. Errors: FORBIDDEN;
// LAST_OWNER if the workspace would have no owner left.
func (r Role) CheckRoleChange(from, to Role, owners int) error {
	if !r.MayManage(from) || !r.MayManage(to) {
		return Refuse(ReasonForbidden)
	}
	if from != to && from == RoleOwner && owners < 2 {
		return Refuse(ReasonLastOwner)
	}
	return nil
}

// CheckRemoval checks whether a caller of role r may remove a member with the given role. The
// parameter owners is the number of owners in the workspace. Errors: FORBIDDEN; LAST_OWNER if
// the workspace would have no owner left.
func (r Role) CheckRemoval(member Role, owners int) error {
	if !r.MayManage(member) {
		return Refuse(ReasonForbidden)
	}
	if member == RoleOwner && owners < 2 {
		return Refuse(ReasonLastOwner)
	}
	return nil
}

// MayManageKeys reports whether a member of role r may create, roll and revoke
// API keys.
func (r Role) MayManageKeys() bool {
	return r == RoleOwner || r == RoleAdmin || r == RoleDeveloper
}

// Actor identifies who made a change. Histories and the audit log store it.
type Actor struct {
	// User is set for a person, Key for an API key, and ServiceToken for a service token.
	// All three are nil for the service itself.
	User         *UserID
	Key          *APIKeyID
	ServiceToken *ServiceTokenID
	// ParticipantToken means that the change was made with a participant token that the
	// actor has created.
	ParticipantToken bool
	// AddressPrefix is the shortened client address (/24 or /48), and RequestID the id
	// of the request. Both are empty for the service itself.
	AddressPrefix string
	RequestID     string
}

// System is the actor of changes that the service makes itself.
var System = Actor{}

// ID returns the id of the user, the key or the token. It is nil for the service itself.
func (a Actor) ID() *ActorID {
	switch {
	case a.User != nil:
		return &ActorID{a.User.UUID}
	case a.Key != nil:
		return &ActorID{a.Key.UUID}
	case a.ServiceToken != nil:
		return &ActorID{a.ServiceToken.UUID}
	}
	return nil
}

// String returns the id of the user, the key or the token, or "system".
func (a Actor) String() string {
	if id := a.ID(); id != nil {
		return id.String()
	}
	return "system"
}

// AuditID identifies an entry of the audit log.
type AuditID = ID[AuditEntry]

// AuditEntry is an entry of the audit log: who changed which part of a workspace.
// Entries are never changed.
type AuditEntry struct {
	ID   AuditID
	Mode *Mode // nil if the entry is about the workspace as a whole
	At   time.Time
	// Actor is the id of a user, an API key or a service token, or "system". ActorName is the
	// current name of this actor. It is nil for "system", and for an actor that no longer
	// exists or has left the workspace.
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

// AccountAuditLine is an audit log entry about the account of a partner, which belongs to no
// workspace. It is written in the transaction of the change that it records.
type AccountAuditLine struct {
	User   UserID
	Actor  Actor
	At     time.Time
	Action string // noun.verb
	// Before and After hold the changed parts. Values other than nil are encoded as
	// JSON.
	Before, After any
}
