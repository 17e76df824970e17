package server

import (
	"context"
	"net/netip"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// Credential is a kind of credential. In a policy it is a set of kinds, combined with |.
type Credential uint8

// The kinds of credentials. The kind Nobody is for calls without a credential.
const (
	NoCredential Credential = 1 << iota
	MerchantToken
	PartnerToken
	SecretKey
	PublicKey
)

// Principal is the authenticated caller.
type Principal struct {
	Kind Credential
	// User and Session are set for tokens.
	User    affiliate.UserID
	Session affiliate.SessionID
	// Workspace is zero for partners and for callers without a credential.
	Workspace affiliate.WorkspaceID
	// Role is set for merchants. It comes from the database, not from the token.
	Role affiliate.Role
	// Key is set for API keys.
	Key affiliate.APIKeyID
	// Mode is the mode of the API key. For tokens it is the X-Mode header, or live if the
	// header is absent.
	Mode affiliate.Mode
}

// Scope returns the principal's workspace and mode.
func (p Principal) Scope() affiliate.Scope {
	return affiliate.Scope{Workspace: p.Workspace, Mode: p.Mode}
}

// caller is the metadata of a call that does not belong to its principal.
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

// PrincipalFrom returns the caller's principal. The interceptors set it for every call
// of a handler. The zero Principal has no permissions.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// ActorFrom returns the caller in the form that the history and the audit log store.
func ActorFrom(ctx context.Context) affiliate.Actor {
	p := PrincipalFrom(ctx)
	c := callerFrom(ctx)
	actor := affiliate.Actor{RequestID: c.requestID, AddressPrefix: httpedge.AddressPrefix(c.address)}
	switch p.Kind {
	case MerchantToken, PartnerToken:
		actor.User = &p.User
	case SecretKey, PublicKey:
		actor.Key = &p.Key
	case NoCredential:
	}
	return actor
}

// RequestID returns the request id, which the log lines of the call contain.
func RequestID(ctx context.Context) string { return callerFrom(ctx).requestID }

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerFrom(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}
