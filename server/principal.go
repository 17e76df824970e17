package server

import (
	"context"
	"net/netip"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// Credential is a kind of credential, and in a policy a set of them.
type Credential uint8

// The kinds. Nobody is the absence of a credential.
const (
	Nobody Credential = 1 << iota
	MerchantToken
	PartnerToken
	SecretKey
	PublicKey
)

// Principal is who calls, as the credential and the database say.
type Principal struct {
	Kind Credential
	// User and Session are set for tokens.
	User    affiliate.UserID
	Session affiliate.SessionID
	// Workspace is zero for partners and for nobody.
	Workspace affiliate.WorkspaceID
	// Role is set for merchants; it comes from the database, not from the token.
	Role affiliate.Role
	// Key is set for API keys.
	Key affiliate.APIKeyID
	// Mode is the key's, or what X-Mode says (live when it says nothing).
	Mode affiliate.Mode
}

// Scope is the part of the data that the principal's workspace and mode span.
func (p Principal) Scope() affiliate.Scope {
	return affiliate.Scope{Workspace: p.Workspace, Mode: p.Mode}
}

// caller is what is known of a call besides its principal.
type caller struct {
	requestID string
	address   netip.Addr
}

type (
	principalKey struct{}
	callerKey    struct{}
)

// WithPrincipal is for the interceptor, and for tests of services.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom is who calls. Behind the interceptors it is always set; the
// zero Principal may do nothing.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// ActorFrom is the principal as history and audit log keep it.
func ActorFrom(ctx context.Context) affiliate.Actor {
	p := PrincipalFrom(ctx)
	c := callerFrom(ctx)
	actor := affiliate.Actor{RequestID: c.requestID, AddressPrefix: httpedge.AddressPrefix(c.address)}
	switch p.Kind {
	case MerchantToken, PartnerToken:
		actor.User = &p.User
	case SecretKey, PublicKey:
		actor.Key = &p.Key
	case Nobody:
	}
	return actor
}

// RequestID is the id under which the call is logged.
func RequestID(ctx context.Context) string { return callerFrom(ctx).requestID }

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerFrom(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}
