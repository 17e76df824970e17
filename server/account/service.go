// Package account opens, proves and ends sessions.
//
// A session is a family of refresh tokens: each works once, and the reuse of a
// spent one ends the family. Access tokens name their session, which the core
// reads on every request, so ending it ends them.
//
// It guarantees that an unknown address and a wrong password cannot be told
// apart by answer or by time, that an invitation makes one member however often
// it is accepted, and that no clear-text password or token is stored or logged. It does not verify that an address belongs to its owner.
package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Failed logins on one address (DECISIONS.md section 11): after freeFailures in
// failureWindow each further try has to wait, twice as long each time.
const (
	freeFailures  = 10
	failureWindow = 15 * time.Minute
	longestWait   = time.Minute
)

// New workspaces start with these.
const (
	defaultCurrency = "USD"
	defaultTimezone = "UTC"
)

// Signer makes access tokens.
type Signer interface {
	Sign(user affiliate.User, session affiliate.SessionID, member *affiliate.Member) (string, error)
}

// Service implements affiliate.v1.AccountService.
type Service struct {
	affiliatev1.UnimplementedAccountServiceServer
	store   Store
	signer  Signer
	hashKey []byte
	hashes  *passwordHasher
	now     func() time.Time
}

// New makes the service. hashKey keys the digests under which failed logins are
// counted.
func New(store Store, signer Signer, hashKey []byte, now func() time.Time) *Service {
	return &Service{store: store, signer: signer, hashKey: hashKey, hashes: newPasswordHasher(), now: now}
}

// Check refuses passwords that everybody tries first, and addresses with more
// than an address in them.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if r, ok := req.(interface {
		proto.Message
		GetPassword() string
		GetName() string
	}); ok && r.GetPassword() != "" && affiliate.CommonPassword(r.GetPassword()) {
		found.Add("password", "is one of the most common passwords")
	}
	switch r := req.(type) {
	case *affiliatev1.RegisterMerchantRequest:
		checkAddress(r.GetEmail(), &found)
	case *affiliatev1.RegisterPartnerRequest:
		checkAddress(r.GetEmail(), &found)
	}
	return found
}

func checkAddress(email string, found *affiliate.Violations) {
	if !affiliate.BareAddress(email) {
		found.Add("email", "must be a bare e-mail address")
	}
}

// RegisterMerchant makes a user, a workspace, the public keys of both modes and
// a session, all or nothing.
func (s *Service) RegisterMerchant(ctx context.Context, req *affiliatev1.RegisterMerchantRequest) (*affiliatev1.SessionResponse, error) {
	user, hash, err := s.newUser(ctx, affiliate.Merchant, req.GetEmail(), req.GetPassword(), req.GetName())
	if err != nil {
		return nil, err
	}
	member := &affiliate.Member{
		Workspace: affiliate.Workspace{
			ID:             affiliate.NewID[affiliate.Workspace](user.CreatedAt),
			Name:           req.GetWorkspaceName(),
			Currency:       defaultCurrency,
			Timezone:       defaultTimezone,
			AllowedOrigins: []string{},
			OriginPolicy:   affiliate.ObserveOrigins,
			Version:        1,
			CreatedAt:      user.CreatedAt,
			UpdatedAt:      user.CreatedAt,
		},
		Role: affiliate.RoleOwner,
	}
	var keys []affiliate.NewAPIKey
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		keys = append(keys, publicKey(member.Workspace.ID, mode, user.CreatedAt))
	}
	session, token := newSession(user)
	if err := s.store.CreateMerchant(ctx, user, hash, *member, keys, session, token.digest(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return s.respond(user, member, session.ID, token)
}

// RegisterPartner makes a user and a session.
func (s *Service) RegisterPartner(ctx context.Context, req *affiliatev1.RegisterPartnerRequest) (*affiliatev1.SessionResponse, error) {
	user, hash, err := s.newUser(ctx, affiliate.Partner, req.GetEmail(), req.GetPassword(), req.GetName())
	if err != nil {
		return nil, err
	}
	user.Country = req.Country
	session, token := newSession(user)
	if err := s.store.CreatePartner(ctx, user, hash, session, token.digest(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	s.noteOrigin(ctx, user, user.CreatedAt)
	return s.respond(user, nil, session.ID, token)
}

func (s *Service) newUser(ctx context.Context, kind affiliate.AccountKind, email, password, name string) (affiliate.User, string, error) {
	hash, err := s.hashes.hash(ctx, password)
	if err != nil {
		return affiliate.User{}, "", err
	}
	now := s.now().UTC().Truncate(time.Millisecond)
	return affiliate.User{
		ID:        affiliate.NewID[affiliate.User](now),
		Kind:      kind,
		Email:     strings.ToLower(email),
		Name:      name,
		CreatedAt: now,
	}, hash, nil
}

// AcceptInvite makes the invited member and a session. The invitation says which
// address and role; the token is what proves it.
func (s *Service) AcceptInvite(ctx context.Context, req *affiliatev1.AcceptInviteRequest) (*affiliatev1.SessionResponse, error) {
	digest := affiliate.DigestInviteToken(req.GetToken())
	// Asked twice, so that a guess does not cost us the hashing of a password.
	open, err := s.store.MemberInviteOpen(ctx, digest, s.now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return nil, err
	}
	if !open {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	user, hash, err := s.newUser(ctx, affiliate.Merchant, "", req.GetPassword(), req.GetName())
	if err != nil {
		return nil, err
	}
	session, token := newSession(user)
	account, err := s.store.AcceptMemberInvite(ctx, digest, user, hash, session, token.digest(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return s.respond(account.User, account.Member, session.ID, token)
}

func publicKey(workspace affiliate.WorkspaceID, mode affiliate.Mode, now time.Time) affiliate.NewAPIKey {
	key := affiliate.NewKey(affiliate.PublicKey, mode)
	return affiliate.NewAPIKey{
		Digest: key.Digest(),
		APIKey: affiliate.APIKey{
			ID:         affiliate.NewID[affiliate.APIKey](now),
			Scope:      affiliate.Scope{Workspace: workspace, Mode: mode},
			Kind:       affiliate.PublicKey,
			Name:       "Public key",
			PublicText: key.Reveal(),
			Prefix:     key.Prefix(),
			Last4:      key.Last4(),
			CreatedAt:  now,
		},
	}
}

// LoginMerchant opens a session of a merchant.
func (s *Service) LoginMerchant(ctx context.Context, req *affiliatev1.LoginRequest) (*affiliatev1.SessionResponse, error) {
	return s.login(ctx, affiliate.Merchant, req)
}

// LoginPartner opens a session of a partner.
func (s *Service) LoginPartner(ctx context.Context, req *affiliatev1.LoginRequest) (*affiliatev1.SessionResponse, error) {
	return s.login(ctx, affiliate.Partner, req)
}

func (s *Service) login(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.LoginRequest) (*affiliatev1.SessionResponse, error) {
	email := strings.ToLower(req.GetEmail())
	subject := s.subject(kind, email)
	now := s.now().UTC().Truncate(time.Millisecond)
	if err := s.throttle(ctx, subject, now); err != nil {
		return nil, err
	}
	// From here on the try counts as failed, until the session is open.
	account, known, err := s.store.Account(ctx, kind, email)
	if err != nil {
		return nil, err
	}
	matches, stale, err := s.hashes.matches(ctx, req.GetPassword(), account.PasswordHash, known)
	if err != nil {
		return nil, err
	}
	if !matches || kind == affiliate.Merchant && account.Member == nil {
		return nil, affiliate.Refuse(affiliate.ReasonInvalidCredentials)
	}
	renewed := ""
	if stale {
		if renewed, err = s.hashes.hash(ctx, req.GetPassword()); err != nil {
			return nil, err
		}
	}
	session, token := newSessionAt(account.User.ID, now)
	if err := s.store.OpenSession(ctx, session, token.digest(), subject, renewed); err != nil {
		return nil, err
	}
	s.noteOrigin(ctx, account.User, now)
	return s.respond(account.User, account.Member, session.ID, token)
}

// throttle slows down guessing at one address, known or unknown alike. The try is
// noted before the others are counted, so that of tries at the same time no more
// get through than one after another would.
func (s *Service) throttle(ctx context.Context, subject []byte, now time.Time) error {
	try := affiliate.NewID[affiliate.LoginTry](now)
	failures, last, err := s.store.NoteLogin(ctx, try, subject, now, now.Add(-failureWindow))
	if err != nil || failures < freeFailures {
		return err
	}
	wait := longestWait
	if doublings := failures - freeFailures; doublings < 6 {
		wait = time.Second << doublings
	}
	left := last.Add(wait).Sub(now)
	if left <= 0 {
		return nil
	}
	// A try that was not made does not lengthen the wait.
	if err := s.store.WithdrawLogin(ctx, try); err != nil {
		return err
	}
	refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
	seconds := int((left + time.Second - 1) / time.Second)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(seconds)}
	return refusal
}

func (s *Service) subject(kind affiliate.AccountKind, email string) []byte {
	mac := hmac.New(sha256.New, s.hashKey)
	mac.Write([]byte("login:" + string(kind) + ":" + email))
	return mac.Sum(nil)
}

// RefreshMerchantSession swaps a merchant's refresh token.
func (s *Service) RefreshMerchantSession(ctx context.Context, req *affiliatev1.RefreshSessionRequest) (*affiliatev1.SessionResponse, error) {
	kind := affiliate.Merchant
	return s.refresh(ctx, req, &kind)
}

// RefreshPartnerSession swaps a partner's refresh token.
func (s *Service) RefreshPartnerSession(ctx context.Context, req *affiliatev1.RefreshSessionRequest) (*affiliatev1.SessionResponse, error) {
	kind := affiliate.Partner
	return s.refresh(ctx, req, &kind)
}

// RefreshSession swaps a refresh token of either kind.
func (s *Service) RefreshSession(ctx context.Context, req *affiliatev1.RefreshSessionRequest) (*affiliatev1.SessionResponse, error) {
	return s.refresh(ctx, req, nil)
}

func (s *Service) refresh(ctx context.Context, req *affiliatev1.RefreshSessionRequest, kind *affiliate.AccountKind) (*affiliatev1.SessionResponse, error) {
	spent, ok := parseToken(req.GetRefreshToken())
	if !ok {
		return nil, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)
	}
	fresh, now := newToken(), s.now().UTC().Truncate(time.Millisecond)
	account, session, err := s.store.RotateRefreshToken(ctx, spent.digest(), fresh.digest(), kind, now)
	if err != nil {
		return nil, err
	}
	s.noteOrigin(ctx, account.User, now)
	return s.respond(account.User, account.Member, session, fresh)
}

// Logout ends the token's session, if it has one.
func (s *Service) Logout(ctx context.Context, req *affiliatev1.LogoutRequest) (*affiliatev1.LogoutResponse, error) {
	if token, ok := parseToken(req.GetRefreshToken()); ok {
		if err := s.store.EndSession(ctx, token.digest(), s.now().UTC().Truncate(time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return &affiliatev1.LogoutResponse{}, nil
}

// token is a refresh token: 256 random bits.
type token [32]byte

func newToken() token {
	var t token
	_, _ = rand.Read(t[:])
	return t
}

func parseToken(text string) (token, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(token{}) {
		return token{}, false
	}
	return token(raw), true
}

func (t token) text() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// digest is what is stored: SHA-256 suffices for 256 random bits.
func (t token) digest() [sha256.Size]byte { return sha256.Sum256(t[:]) }

func newSession(user affiliate.User) (affiliate.Session, token) {
	return newSessionAt(user.ID, user.CreatedAt)
}

func newSessionAt(user affiliate.UserID, now time.Time) (affiliate.Session, token) {
	return affiliate.Session{
		ID:            affiliate.NewID[affiliate.Session](now),
		User:          user,
		CreatedAt:     now,
		IdleExpiresAt: now.Add(affiliate.RefreshTokenIdle),
		ExpiresAt:     now.Add(affiliate.RefreshTokenAbsolute),
	}, newToken()
}
