package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
)

// CredentialStore answers for credentials as the database holds them now:
// logout, removal, a change of role and revocation act on the next request.
type CredentialStore interface {
	// LiveSession is the user of a session that has neither ended nor been
	// revoked, with the workspace and role of a merchant; ok is false when there
	// is none.
	LiveSession(ctx context.Context, id affiliate.SessionID, now time.Time) (user affiliate.User, member *affiliate.Member, ok bool, err error)
	// LiveKey is the key with that digest unless it is revoked or expired. It
	// notes the use, at most once a minute.
	LiveKey(ctx context.Context, digest [sha256.Size]byte, now time.Time) (key affiliate.APIKey, ok bool, err error)
}

// fault is what is wrong with a credential.
type fault int

const (
	noFault fault = iota
	// missing: no authorization at all.
	missing
	// bad: malformed, forged, unknown, revoked.
	bad
	// expired: an access token of ours whose time is over.
	expired
)

// identity is the outcome of authentication: a principal, or what is wrong.
type identity struct {
	principal Principal
	fault     fault
	// badMode: X-Mode is there and is neither test nor live.
	badMode bool
}

type authenticator struct {
	store  CredentialStore
	tokens *TokenKeys
	now    func() time.Time
}

func (a *authenticator) identify(ctx context.Context) (identity, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	id := identity{principal: Principal{Kind: Nobody, Mode: affiliate.ModeLive}, fault: missing}
	switch mode := md.Get("x-mode"); {
	case len(mode) == 0 || mode[0] == "":
	case len(mode) > 1 || !affiliate.Mode(mode[0]).Valid():
		id.badMode = true
	default:
		id.principal.Mode = affiliate.Mode(mode[0])
	}
	switch values := md.Get("authorization"); {
	case len(values) == 0 || values[0] == "":
		return id, nil
	case len(values) > 1:
		id.fault = bad
		return id, nil
	default:
		scheme, text, ok := strings.Cut(values[0], " ")
		text = strings.TrimSpace(text)
		if !ok || !strings.EqualFold(scheme, "bearer") || text == "" {
			id.fault = bad
			return id, nil
		}
		if affiliate.LooksLikeKey(text) {
			return a.identifyKey(ctx, id, text)
		}
		return a.identifyToken(ctx, id, text)
	}
}

func (a *authenticator) identifyKey(ctx context.Context, id identity, text string) (identity, error) {
	id.fault = bad
	parsed, ok := affiliate.ParseKey(text)
	if !ok {
		return id, nil
	}
	key, ok, err := a.store.LiveKey(ctx, parsed.Digest(), a.now())
	if err != nil {
		return id, fmt.Errorf("look up key: %w", err)
	}
	if !ok {
		return id, nil
	}
	id.principal.Kind = SecretKey
	if key.Kind == affiliate.PublicKey {
		id.principal.Kind = PublicKey
	}
	id.principal.Workspace = key.Scope.Workspace
	id.principal.Mode = key.Scope.Mode
	id.principal.Key = key.ID
	// Keys carry their mode and ignore the header.
	id.fault, id.badMode = noFault, false
	return id, nil
}

func (a *authenticator) identifyToken(ctx context.Context, id identity, text string) (identity, error) {
	id.fault = bad
	session, err := a.tokens.verify(text)
	if err != nil {
		if errors.Is(err, errTokenExpired) {
			id.fault = expired
		}
		return id, nil
	}
	user, member, ok, err := a.store.LiveSession(ctx, session, a.now())
	if err != nil {
		return id, fmt.Errorf("look up session: %w", err)
	}
	if !ok {
		return id, nil
	}
	id.principal.Kind = PartnerToken
	if user.Kind == affiliate.Merchant {
		if member == nil {
			// Removed from the workspace: nothing is left to act on.
			return id, nil
		}
		id.principal.Kind = MerchantToken
		id.principal.Workspace = member.Workspace
		id.principal.Role = member.Role
	}
	id.principal.User = user.ID
	id.principal.Session = session
	id.fault = noFault
	return id, nil
}
