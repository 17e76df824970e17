package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Allowance is the result of Limiter.Allow for one request.
type Allowance struct {
	Allowed bool
	// Limit is the maximum number of requests in any period of Window seconds. Remaining
	// is the number of requests that are still allowed now.
	Limit     int
	Window    int
	Remaining int
	// RetryAfter is the number of seconds until the next request is allowed. It is at
	// least 1 if Allowed is false.
	RetryAfter int
	// Reset is the number of seconds until all counted requests have left the window.
	Reset int
}

// Limiter counts requests in rolling windows. If it cannot reach the store that all
// processes share, it counts the requests of this process alone. Allow therefore always
// returns a result.
type Limiter interface {
	Allow(ctx context.Context, zone Zone, subject string) Allowance
}

// limit counts one request in its zone. It returns RATE_LIMIT_EXCEEDED if the limit is
// reached. If the limit is not reached, the policy has a second zone and the method accepts
// the credential, the request also counts in the second zone.
func limit(ctx context.Context, limiter Limiter, policy Policy, id identity) error {
	zone, subject := policy.countedAs(ctx, id)
	if zone == ZoneNone {
		return nil
	}
	allowance := limiter.Allow(ctx, zone, subject)
	if second, subject := policy.alsoCountedAs(id); allowance.Allowed && second != ZoneNone {
		zone = second
		allowance = limiter.Allow(ctx, second, subject)
	}
	return allowance.apply(ctx, zone)
}

// CountFailure counts a failed request of a method without a zone, like a request with an
// invalid credential: per client address. It returns RATE_LIMIT_EXCEEDED if the limit is
// reached.
func CountFailure(ctx context.Context, limiter Limiter, zone Zone) error {
	return limiter.Allow(ctx, zone, addressSubject(ctx)).apply(ctx, zone)
}

// CountRenewal counts a renewal of a session in ZoneSession. It returns RATE_LIMIT_EXCEEDED if
// the limit is reached.
func CountRenewal(ctx context.Context, limiter Limiter, session affiliate.SessionID) error {
	return limiter.Allow(ctx, ZoneSession, "session:"+session.String()).apply(ctx, ZoneSession)
}

// apply sets the rate limit headers of the response. It returns RATE_LIMIT_EXCEEDED if the
// request is not allowed.
func (allowance Allowance) apply(ctx context.Context, zone Zone) error {
	reset := allowance.Reset
	if !allowance.Allowed {
		reset = allowance.RetryAfter
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(
		"ratelimit-policy", fmt.Sprintf(`"%s";q=%d;w=%d`, zone, allowance.Limit, allowance.Window),
		"ratelimit", fmt.Sprintf(`"%s";r=%d;t=%d`, zone, allowance.Remaining, reset),
	))
	return allowance.err()
}

func (allowance Allowance) err() error {
	if allowance.Allowed {
		return nil
	}
	refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(allowance.RetryAfter)}
	return refusal
}

// Invitations limits the invitations that the service mails to people who did not ask for
// them.
type Invitations struct {
	Limiter Limiter
	// RequireVerified means that the inviter's address must be verified in live mode. It is
	// false if the service sends no mail, because then no address can be verified.
	RequireVerified bool
}

// Admit checks whether the caller may mail an invitation to an address in lower case, and
// counts the invitation. A transaction calls it after all other checks, so that a refused
// call does not count. Errors: EMAIL_NOT_VERIFIED, RATE_LIMIT_EXCEEDED.
func (i Invitations) Admit(ctx context.Context, tx *postgres.Tx, address string) error {
	caller := PrincipalFrom(ctx)
	if i.RequireVerified && caller.Mode == affiliate.ModeLive {
		inviter, err := accounts.Account(ctx, tx, caller.AccountableUser())
		if err != nil && !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			return err
		}
		if err != nil || !inviter.EmailVerified {
			return affiliate.Refuse(affiliate.ReasonEmailNotVerified)
		}
	}
	if err := i.Limiter.Allow(ctx, ZoneInviteAddress, "address:"+address).err(); err != nil {
		return err
	}
	return i.Limiter.Allow(ctx, ZoneInvites, "workspace:"+caller.Workspace.String()).err()
}

// alsoCountedAs returns the second zone in which a request counts, and the subject for which it counts.
func (p Policy) alsoCountedAs(id identity) (zone Zone, subject string) {
	switch {
	case id.fault != noFault || p.Accept&id.principal.Kind == 0:
		return ZoneNone, ""
	case p.WorkspaceZone != ZoneNone:
		return p.WorkspaceZone, "workspace:" + id.principal.Workspace.String()
	}
	// The calls of a service token count for its creator. Otherwise several tokens would
	// multiply the limit.
	return p.AccountZone, "user:" + id.principal.AccountableUser().String()
}

func addressSubject(ctx context.Context) string {
	return "address:" + httpedge.LimitSubject(callerFrom(ctx).address)
}

// countedAs returns the zone in which a request counts, and the subject for which it counts. If the
// method requires a credential and the request has a valid credential, the subject is its user, API
// key, service token or participant. In every other case, and for all methods in the auth zone, the
// subject is the client's address. This also limits how fast a client can guess credentials.
func (p Policy) countedAs(ctx context.Context, id identity) (zone Zone, subject string) {
	subject = addressSubject(ctx)
	switch {
	case p.Accept&NoCredential != 0, p.Zone == ZoneAuth:
		return p.Zone, subject
	case id.fault != noFault:
		return ZoneGeneral, subject
	case id.principal.Kind&(SecretKey|PublicKey) != 0:
		return p.Zone, "key:" + id.principal.Key.String()
	case id.principal.Kind == ServiceToken:
		return ZoneGeneral, "service:" + id.principal.Service.ID.String()
	case id.principal.Kind == ParticipantToken:
		return ZoneGeneral, "participant:" + id.principal.Participation.Participant.String()
	}
	// All calls of users count in the general zone. This includes calls of methods in the
	// conversions zone. These methods accept only API keys, so a later step rejects such a
	// call.
	return ZoneGeneral, "user:" + id.principal.User.String()
}

// Sealer encrypts and decrypts values. seal.Keys implements it.
type Sealer interface {
	// Seal encrypts plain. The result can be decrypted only with the same additional data
	// (aad).
	Seal(plain, aad []byte) []byte
	// Open decrypts a result of Seal.
	Open(sealed, aad []byte) ([]byte, error)
}

// MailSealer encrypts the tokens of links in mails. seal.Keys implements it.
type MailSealer interface {
	// SealMailToken returns the value for notification.Mail.Secret.
	SealMailToken(mail notification.MailID, token string) []byte
}

// InviteSealer also encrypts the tokens of invitations that are stored under an
// Idempotency-Key. seal.Keys implements it.
type InviteSealer interface {
	MailSealer
	// SealInvite returns a value with the id of an invitation and its encrypted token.
	SealInvite(id affiliate.InviteID, token string) []byte
	// OpenInvite decrypts a result of SealInvite.
	OpenInvite(sealed []byte) (id affiliate.InviteID, token string, err error)
}
