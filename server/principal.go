package server

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Credential is a kind of credential. A policy combines several kinds to a set, with the
// operator |.
type Credential uint8

// The kinds of credentials. NoCredential is the kind of calls without a credential.
const (
	NoCredential Credential = 1 << iota
	MerchantToken
	PartnerToken
	SecretKey
	PublicKey
	ServiceToken
	// ParticipantToken is valid for 15 minutes and for one participation.
	ParticipantToken
)

// Principal is the authenticated caller.
type Principal struct {
	Kind Credential
	// User and Session are set if the credential is an access token. User is also set for a
	// participant token: it is the partner.
	User    affiliate.UserID
	Session affiliate.SessionID
	// ExpiresAt is the time at which the access token expires. If the credential is a ticket, ExpiresAt is the
	// time at which the access token that created the ticket expires, and Ticket is the digest of the ticket.
	ExpiresAt time.Time
	Ticket    []byte
	// Workspace is zero for partners and for callers without a credential.
	Workspace affiliate.WorkspaceID
	// Role is set for members of a workspace and for service tokens. It is read from the
	// database for each call and not taken from the token.
	Role affiliate.Role
	// Service is set if the credential is a service token.
	Service *account.ServiceToken
	// Participation is set if the credential is a participant token. The call must not read
	// or change anything outside of this participation.
	Participation *participant.Ref
	// Creator has the id of the member or service token that has created the participant
	// token. It is empty for other credentials.
	Creator affiliate.Actor
	// Key is set if the credential is an API key.
	Key affiliate.APIKeyID
	// Mode is the mode of the API key, service token or participant token. For an access
	// token it is the value of the X-Mode header, or live if the header is absent.
	Mode affiliate.Mode
	// Erased means that the account of an access token was erased. Only the methods whose
	// policy says so accept the token.
	Erased bool
}

// AccountableUser returns the user of an access token, or the user who created the service
// token.
func (p Principal) AccountableUser() affiliate.UserID {
	if p.Service != nil {
		return p.Service.CreatedBy
	}
	return p.User
}

// ProgramFilter returns the programme to which a list is restricted: the requested one,
// which can be nil, or the programme of the participation if the credential is a
// participant token. Errors: NOT_FOUND if the token belongs to another programme.
func (p Principal) ProgramFilter(requested *affiliate.ProgramID) (*affiliate.ProgramID, error) {
	switch {
	case p.Participation == nil:
		return requested, nil
	case requested != nil && *requested != p.Participation.Program:
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return &p.Participation.Program, nil
}

// CheckProgram returns NOT_FOUND if the credential is a participant token of another
// programme.
func (p Principal) CheckProgram(requested affiliate.ProgramID) error {
	_, err := p.ProgramFilter(&requested)
	return err
}

// Scope returns the principal's workspace and mode.
func (p Principal) Scope() affiliate.Scope {
	return affiliate.Scope{Workspace: p.Workspace, Mode: p.Mode}
}

type caller struct {
	requestID string
	address   netip.Addr
}

type (
	principalKey struct{}
	callerKey    struct{}
)

// WithPrincipal returns a context with the principal. The authentication interceptor and
// the tests of services use it.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the principal of the call. The interceptors store it in the
// context before they call the handler. If the context has no principal, the result is
// the zero Principal, which has no permissions.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// ActorFrom returns the caller in the form that commission histories and the audit log
// store. The actor of a participant token is its creator.
func ActorFrom(ctx context.Context) affiliate.Actor {
	p := PrincipalFrom(ctx)
	c := callerFrom(ctx)
	actor := affiliate.Actor{RequestID: c.requestID, AddressPrefix: httpedge.AddressPrefix(c.address)}
	switch p.Kind {
	case MerchantToken, PartnerToken:
		actor.User = &p.User
	case ParticipantToken:
		actor.User, actor.ServiceToken, actor.ParticipantToken = p.Creator.User, p.Creator.ServiceToken, true
	case SecretKey, PublicKey:
		actor.Key = &p.Key
	case ServiceToken:
		actor.ServiceToken = &p.Service.ID
	case NoCredential:
	}
	return actor
}

// RequestID returns the request id of the call. All log lines of the call contain it.
func RequestID(ctx context.Context) string { return callerFrom(ctx).requestID }

func callerFrom(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// LockWorkspace locks the caller's workspace and returns the caller's current role.
// Errors: FORBIDDEN if the caller is no longer a member.
func LockWorkspace(ctx context.Context, tx *postgres.Tx, caller Principal) (affiliate.Role, error) {
	if err := postgres.LockWorkspace(ctx, tx, caller.Workspace); err != nil {
		return "", err
	}
	return CurrentRole(ctx, tx, caller)
}

// CurrentRole returns the role that the caller has now. This role can differ from the
// role with which the call was authorised. The transaction must have locked the
// workspace, so that the role cannot change before the transaction ends. The role of a
// service token never changes. Errors: FORBIDDEN if the caller is no longer a member.
func CurrentRole(ctx context.Context, tx *postgres.Tx, caller Principal) (affiliate.Role, error) {
	if caller.Service != nil {
		return caller.Role, nil
	}
	member, err := accounts.Member(ctx, tx, caller.Workspace, caller.User)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return member.Role, err
}
