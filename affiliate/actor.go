package affiliate

import "slices"

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

// MayManage reports whether a member of role r may invite, change and remove members of
// another role, and may assign that role. Owners manage all roles. Admins manage all
// roles except owner.
func (r Role) MayManage(other Role) bool {
	return r == RoleOwner || r == RoleAdmin && other != RoleOwner
}

// UnmanageableRoles returns the roles that a member of role r cannot manage.
func (r Role) UnmanageableRoles() []Role { return slices.DeleteFunc(Roles(), r.MayManage) }

// CheckRoleChange checks whether a caller of role r may change the role of a member.
// owners is the number of owners in the workspace. Errors: FORBIDDEN; LAST_OWNER if the
// workspace would have no owner left.
func (r Role) CheckRoleChange(from, to Role, owners int) error {
	if !r.MayManage(from) || !r.MayManage(to) {
		return Refuse(ReasonForbidden)
	}
	if from != to && from == RoleOwner && owners < 2 {
		return Refuse(ReasonLastOwner)
	}
	return nil
}

// CheckRemoval checks whether a caller of role r may remove a member of another role.
// owners is the number of owners in the workspace. Errors: FORBIDDEN; LAST_OWNER if the
// workspace would have no owner left.
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
