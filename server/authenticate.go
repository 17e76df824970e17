package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

type fault int

const (
	noFault fault = iota
	// faultMissing means that the call has no authorization metadata.
	faultMissing
	// faultInvalid means that the credential is malformed, forged, unknown or revoked.
	faultInvalid
	// faultExpired means that the access token has a correct signature but has expired.
	faultExpired
	// faultErased means that the account of the access token was erased. Only methods
	// whose policy has Erased accept such a token.
	faultErased
)

type identity struct {
	principal Principal
	fault     fault // noFault if the credential was accepted
	// emailVerified is true if the credential is an access token or a stream ticket, and its user
	// has a verified e-mail address. It is also true for a service token, because the address
	// of its creator was checked when the token was created.
	emailVerified bool
	// factorMissing is true if the credential is an access token or a stream ticket of a member
	// without a second factor, and the workspace requires one.
	factorMissing bool
	// invalidMode is true if the X-Mode header is neither test nor live.
	invalidMode bool
}

// authenticator checks the credentials of calls. It reads them from the database in each
// call, so that a logout, the removal of a member, a change of a role and the revocation of
// a key take effect on the next call.
type authenticator struct {
	db     *postgres.DB
	keys   *accounts.Keys
	tokens *TokenKeys
	now    func() time.Time
}

func (a *authenticator) identify(ctx context.Context) (identity, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	id := identity{principal: Principal{Kind: NoCredential, Mode: affiliate.ModeLive}, fault: faultMissing}
	switch mode := md.Get("x-mode"); {
	case len(mode) == 0 || mode[0] == "":
	case len(mode) > 1 || !affiliate.Mode(mode[0]).Valid():
		id.invalidMode = true
	default:
		id.principal.Mode = affiliate.Mode(mode[0])
	}
	values := md.Get("authorization")
	if len(values) == 0 || values[0] == "" {
		return id, nil
	}
	id.fault = faultInvalid
	scheme, text, ok := strings.Cut(values[0], " ")
	text = strings.TrimSpace(text)
	switch {
	case len(values) > 1 || !ok || !strings.EqualFold(scheme, "bearer") || text == "":
		return id, nil
	case account.LooksLikeKey(text):
		return a.identifyKey(ctx, id, text)
	}
	return a.identifyToken(ctx, id, text)
}

// identifyKey identifies the caller by a key. A key, a service token and a participant token
// determine the mode, so the X-Mode header is not used.
func (a *authenticator) identifyKey(ctx context.Context, id identity, text string) (identity, error) {
	parsed, ok := account.ParseKey(text)
	if !ok {
		return id, nil
	}
	if parsed.Kind == account.ServiceKey {
		return a.identifyService(ctx, id, parsed)
	}
	key, ok, err := a.keys.Use(ctx, parsed.Digest(), a.now())
	if err != nil {
		return id, fmt.Errorf("look up key: %w", err)
	}
	if !ok {
		return id, nil
	}
	kind := SecretKey
	if key.Kind == account.PublicKey {
		kind = PublicKey
	}
	return identity{principal: Principal{Kind: kind, Workspace: key.Workspace, Mode: key.Mode, Key: key.ID}}, nil
}

func (a *authenticator) identifyService(ctx context.Context, id identity, parsed account.Key) (identity, error) {
	token, ok, err := accounts.ActiveServiceToken(ctx, a.db, parsed.Digest(), httpedge.AddressPrefix(callerFrom(ctx).address), a.now())
	if err != nil {
		return id, fmt.Errorf("look up service token: %w", err)
	}
	if !ok {
		return id, nil
	}
	principal := Principal{Kind: ServiceToken, Service: &token, Workspace: token.Workspace, Mode: token.Mode, Role: token.Role}
	return identity{principal: principal, emailVerified: true}, nil
}

func (a *authenticator) identifyToken(ctx context.Context, id identity, text string) (identity, error) {
	token, err := a.tokens.verify(text)
	if err != nil {
		if errors.Is(err, errTokenExpired) {
			id.fault = faultExpired
		}
		return id, nil
	}
	id.principal.ExpiresAt = token.expiresAt
	if token.participant != nil {
		return a.identifyParticipant(ctx, id, *token.participant)
	}
	return a.identifySession(ctx, id, token.session)
}

// identifyParticipant identifies the caller by a participant token. The participant is read
// for each call, so that a suspension or an erasure acts at once.
func (a *authenticator) identifyParticipant(ctx context.Context, id identity, token participantClaim) (identity, error) {
	ref, verified, ok, err := accounts.ActiveParticipant(ctx, a.db, token.workspace, token.id)
	if err != nil {
		return id, fmt.Errorf("look up participant: %w", err)
	}
	if !ok {
		return id, nil
	}
	return identity{principal: Principal{
		Kind: ParticipantToken, Participation: &ref, User: ref.Partner, Mode: ref.Scope.Mode, Creator: token.creator, ExpiresAt: id.principal.ExpiresAt,
	}, emailVerified: verified}, nil
}

// identifyTicket identifies the caller by a ticket for a stream, or by one for a download, which
// it deletes. The ticket determines the mode, so the X-Mode header is not used.
func (a *authenticator) identifyTicket(ctx context.Context, id identity, text string, download bool) (identity, error) {
	id.fault, id.invalidMode = faultInvalid, false
	if notification.IsDownloadTicket(text) != download {
		return id, nil
	}
	find := notifications.StreamTicket
	if download {
		find = notifications.TakeTicket
	}
	ticket, found, err := find(ctx, a.db, notification.DigestStreamTicket(text))
	if err != nil {
		return id, fmt.Errorf("look up ticket: %w", err)
	}
	if !found || !ticket.Usable(a.now()) {
		return id, nil
	}
	id.principal.Mode, id.principal.ExpiresAt, id.principal.Ticket = ticket.Mode, ticket.ExpiresAt, ticket.Digest
	return a.identifySession(ctx, id, ticket.Session)
}

func (a *authenticator) identifySession(ctx context.Context, id identity, session affiliate.SessionID) (identity, error) {
	user, member, ok, err := accounts.ActiveSession(ctx, a.db, session, a.now())
	if err != nil {
		return id, fmt.Errorf("look up session: %w", err)
	}
	if !ok {
		return a.identifyErased(ctx, id, session)
	}
	id.principal.Kind = PartnerToken
	if user.Kind == affiliate.Merchant {
		if member == nil {
			// The user was removed from the workspace.
			return id, nil
		}
		id.principal.Kind = MerchantToken
		id.principal.Workspace = member.Workspace
		id.principal.Role = member.Role
		id.factorMissing = member.SecondFactorRequired && !user.SecondFactor
	}
	id.principal.User = user.ID
	id.principal.Session = session
	id.emailVerified = user.EmailVerified
	id.fault = noFault
	return id, nil
}

func (a *authenticator) identifyErased(ctx context.Context, id identity, session affiliate.SessionID) (identity, error) {
	user, ok, err := accounts.ErasedSession(ctx, a.db, session, a.now())
	if err != nil {
		return id, fmt.Errorf("look up session of an erased account: %w", err)
	}
	if !ok {
		return id, nil
	}
	id.principal.Kind = PartnerToken
	if user.Kind == affiliate.Merchant {
		id.principal.Kind = MerchantToken
	}
	id.principal.User, id.principal.Session, id.principal.Erased = user.ID, session, true
	id.fault = faultErased
	return id, nil
}
