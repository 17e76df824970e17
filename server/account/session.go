package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// RefreshMerchantSession exchanges the refresh token of a merchant's session.
func (s *Service) RefreshMerchantSession(ctx context.Context, req *affiliatev1.RefreshSessionRequest) (*affiliatev1.SessionResponse, error) {
	kind := affiliate.Merchant
	return s.refresh(ctx, req, &kind)
}

// RefreshPartnerSession exchanges the refresh token of a partner's session.
func (s *Service) RefreshPartnerSession(ctx context.Context, req *affiliatev1.RefreshSessionRequest) (*affiliatev1.SessionResponse, error) {
	kind := affiliate.Partner
	return s.refresh(ctx, req, &kind)
}

// RefreshSession exchanges the refresh token of a merchant's or a partner's session.
func (s *Service) RefreshSession(ctx context.Context, req *affiliatev1.RefreshSessionRequest) (*affiliatev1.SessionResponse, error) {
	return s.refresh(ctx, req, nil)
}

// refresh exchanges a refresh token. If kind is not nil, the account must be of this
// kind.
func (s *Service) refresh(ctx context.Context, req *affiliatev1.RefreshSessionRequest, kind *affiliate.AccountKind) (*affiliatev1.SessionResponse, error) {
	invalid := affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)
	used, ok := parseToken(req.GetRefreshToken())
	if !ok {
		return nil, invalid
	}

	at, next := s.currentTime(), newToken()
	var holder account.Account
	var workspace *account.Workspace
	var session account.Session
	var reused bool
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		token, found, err := accounts.LockRefreshToken(ctx, tx, used.digest())
		if err != nil {
			return err
		}
		if !found {
			return invalid
		}
		if reused = token.UsedAt != nil; reused {
			// The revocation must be committed, so refresh returns the error after the
			// transaction.
			return accounts.RevokeSession(ctx, tx, token.ID, at)
		}
		holder, err = accounts.Account(ctx, tx, token.User)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			return invalid
		}
		if err != nil {
			return err
		}
		if session, err = token.Refresh(holder, kind, at); err != nil {
			return err
		}
		if err := accounts.RotateRefreshToken(ctx, tx, session, used.digest(), next.digest(), at); err != nil {
			return err
		}
		if _, err := s.seeDevice(ctx, tx, holder.User.ID, at); err != nil {
			return err
		}
		workspace, err = workspaceOf(ctx, tx, holder)
		return err
	})
	if err != nil {
		return nil, err
	}
	if reused {
		return nil, invalid
	}
	s.storeOrigin(ctx, holder.User, at)
	return s.sessionResponse(holder, workspace, session.ID, next)
}

// Logout revokes the session of the refresh token. It succeeds even if the token is
// unknown.
func (s *Service) Logout(ctx context.Context, req *affiliatev1.LogoutRequest) (*affiliatev1.LogoutResponse, error) {
	if token, ok := parseToken(req.GetRefreshToken()); ok {
		if err := accounts.RevokeSessionOfToken(ctx, s.db, token.digest(), s.currentTime()); err != nil {
			return nil, err
		}
	}
	return &affiliatev1.LogoutResponse{}, nil
}

// workspaceOf returns the workspace of which the account is a member, or nil for a
// partner.
func workspaceOf(ctx context.Context, tx *postgres.Tx, account account.Account) (*account.Workspace, error) {
	if account.Member == nil {
		return nil, nil
	}
	workspace, err := accounts.Workspace(ctx, tx, account.Member.Workspace)
	return &workspace, err
}

// token is a refresh token: 256 random bits.
type token [32]byte

func newToken() token {
	var t token
	_, _ = rand.Read(t[:]) // crypto/rand.Read never fails
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

// digest returns the hash of the token, which is stored instead of the token. SHA-256
// without a salt is secure here, because a token consists of 256 random bits, which
// cannot be guessed.
func (t token) digest() [sha256.Size]byte { return sha256.Sum256(t[:]) }
