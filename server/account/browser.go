package account

import (
	"context"
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// extensionStep is the least time by which a renewal moves the end of the idle time. Renewals at
// about the same time, for example of several tabs, therefore write once.
const extensionStep = time.Minute

// BindBrowser exchanges the refresh token of a session for the secret of a browser. The call
// that opened the session was counted, so only calls with an invalid token are counted.
func (s *Service) BindBrowser(ctx context.Context, req *affiliatev1.BindBrowserRequest) (*affiliatev1.BindBrowserResponse, error) {
	at, secret, kind := s.currentTime(), newToken(), affiliate.AccountKind(server.EnumName(req.GetKind()))
	var session account.Session
	err := s.exchange(ctx, req.GetRefreshToken(), at, func(tx *postgres.Tx, used token, stored account.RefreshToken, owner account.Account) (err error) {
		if session, err = stored.BindBrowser(owner, kind, secret.digest(), req.GetKeepLoggedIn(), at); err != nil {
			return err
		}
		return accounts.BindBrowser(ctx, tx, session, used.digest(), at)
	})
	if err != nil {
		return nil, s.countInvalid(ctx, err)
	}
	return &affiliatev1.BindBrowserResponse{
		BrowserSecret: secret.text(),
		IdleExpiresIn: int64(session.IdleExpiresAt.Sub(at).Seconds()),
		ExpiresIn:     int64(session.ExpiresAt.Sub(at).Seconds()),
	}, nil
}

// RenewBrowserSession returns an access token for the secret of a browser. It needs no
// transaction: if the session ends at the same time, the access token does not work.
func (s *Service) RenewBrowserSession(ctx context.Context, req *affiliatev1.RenewBrowserSessionRequest) (*affiliatev1.SessionResponse, error) {
	at := s.currentTime()
	secret, _ := parseToken(req.GetBrowserSecret()) // no session has the zero secret
	session, holder, found, err := accounts.BrowserSession(ctx, s.DB, secret.digest())
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, s.countInvalid(ctx, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid))
	}
	kind := affiliate.AccountKind(server.EnumName(req.GetKind()))
	renewed, err := session.Refresh(holder, &kind, server.ActorFrom(ctx).AddressPrefix, at)
	if err != nil {
		return nil, s.countInvalid(ctx, err)
	}
	if err := server.CountRenewal(ctx, s.Limiter, session.ID); err != nil {
		return nil, err
	}
	if renewed.IdleExpiresAt.Sub(session.IdleExpiresAt) >= extensionStep {
		extended, err := accounts.ExtendSession(ctx, s.DB, renewed, session.IdleExpiresAt)
		if err != nil {
			return nil, err
		}
		// The device and the network change seldom, so they are stored once an hour.
		if hour := session.IdleExpiresAt.Truncate(time.Hour); extended && !renewed.IdleExpiresAt.Truncate(time.Hour).Equal(hour) {
			if err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
				_, err := s.seeDevice(ctx, tx, holder.ID, at)
				return err
			}); err != nil {
				return nil, err
			}
			s.storeOrigin(ctx, holder.User, at)
		}
	}
	workspace, err := workspaceOf(ctx, s.DB, holder)
	if err != nil {
		return nil, err
	}
	return s.sessionResponse(holder, workspace, session.ID, "")
}

// EndBrowserSession revokes the session of a browser. It succeeds even if the secret is unknown.
func (s *Service) EndBrowserSession(ctx context.Context, req *affiliatev1.EndBrowserSessionRequest) (*affiliatev1.EndBrowserSessionResponse, error) {
	if secret, ok := parseToken(req.GetBrowserSecret()); ok {
		if err := accounts.EndBrowserSession(ctx, s.DB, secret.digest(), s.currentTime()); err != nil {
			return nil, err
		}
	}
	return &affiliatev1.EndBrowserSessionResponse{}, nil
}

// countInvalid counts a call with an invalid token or secret for the client's address, in the
// zone of logins. It returns the given error, or RATE_LIMIT_EXCEEDED.
func (s *Service) countInvalid(ctx context.Context, err error) error {
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)) {
		if limited := server.CountFailure(ctx, s.Limiter, server.ZoneAuth); limited != nil {
			return limited
		}
	}
	return err
}
