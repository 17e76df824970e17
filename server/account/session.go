package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
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
	at, next := s.currentTime(), newToken()
	var holder account.Account
	var workspace *account.Workspace
	var session account.Session
	err := s.exchange(ctx, req.GetRefreshToken(), at, func(tx *postgres.Tx, used token, stored account.RefreshToken, owner account.Account) (err error) {
		holder = owner
		if session, err = stored.Refresh(holder, kind, server.ActorFrom(ctx).AddressPrefix, at); err != nil {
			return err
		}
		if err := accounts.RotateRefreshToken(ctx, tx, session, used.digest(), next.digest(), at); err != nil {
			return err
		}
		if _, err := s.seeDevice(ctx, tx, holder.ID, at); err != nil {
			return err
		}
		workspace, err = workspaceOf(ctx, tx, holder)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.storeOrigin(ctx, holder.User, at)
	return s.sessionResponse(holder, workspace, session.ID, next.text())
}

// exchange calls the function use with a refresh token that was not used before, and with the
// account of its session. The transaction has locked the token and the session. If the token was
// used before, exchange revokes the session. Errors: REFRESH_TOKEN_INVALID.
func (s *Service) exchange(
	ctx context.Context, text string, at time.Time,
	use func(tx *postgres.Tx, used token, stored account.RefreshToken, owner account.Account) error,
) error {
	invalid := affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)
	used, ok := parseToken(text)
	if !ok {
		return invalid
	}
	var reused bool
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		stored, found, err := accounts.LockRefreshToken(ctx, tx, used.digest())
		if err != nil {
			return err
		}
		if !found {
			return invalid
		}
		if reused = stored.UsedAt != nil; reused {
			// The revocation must be committed, so exchange returns the error after the
			// transaction.
			return accounts.RevokeSession(ctx, tx, stored.ID, at)
		}
		owner, err := accounts.Account(ctx, tx, stored.User)
		if isNotFound(err) {
			return invalid
		}
		if err != nil {
			return err
		}
		return use(tx, used, stored, owner)
	})
	if err == nil && reused {
		err = invalid
	}
	return err
}

// Logout revokes the session of the refresh token. It succeeds even if the token is
// unknown.
func (s *Service) Logout(ctx context.Context, req *affiliatev1.LogoutRequest) (*affiliatev1.LogoutResponse, error) {
	if token, ok := parseToken(req.GetRefreshToken()); ok {
		if err := accounts.RevokeSessionOfToken(ctx, s.DB, token.digest(), s.currentTime()); err != nil {
			return nil, err
		}
	}
	return &affiliatev1.LogoutResponse{}, nil
}

// ListMerchantSessions returns one page of the caller's sessions.
func (s *Service) ListMerchantSessions(ctx context.Context, req *affiliatev1.ListSessionsRequest) (*affiliatev1.ListSessionsResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	sessions, total, err := accounts.LiveSessions(ctx, s.DB, caller.User, s.currentTime(), page)
	if err != nil {
		return nil, err
	}
	toProto := func(session account.Session) *affiliatev1.AccountSession {
		return &affiliatev1.AccountSession{
			Id:         session.ID.String(),
			CreatedAt:  server.Timestamp(session.CreatedAt),
			LastUsedAt: server.Timestamp(session.LastUsedAt),
			ExpiresAt:  server.Timestamp(session.IdleExpiresAt),
			Device:     session.Device,
			Network:    session.Network,
			Current:    session.ID == caller.Session,
		}
	}
	return &affiliatev1.ListSessionsResponse{
		Data: server.ConvertAll(sessions, toProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// ListPartnerSessions returns one page of the caller's sessions.
func (s *Service) ListPartnerSessions(ctx context.Context, req *affiliatev1.ListSessionsRequest) (*affiliatev1.ListSessionsResponse, error) {
	return s.ListMerchantSessions(ctx, req)
}

// EndMerchantSession ends a session of the caller.
func (s *Service) EndMerchantSession(ctx context.Context, req *affiliatev1.EndSessionRequest) (*affiliatev1.EndSessionResponse, error) {
	user, at := server.PrincipalFrom(ctx).User, s.currentTime()
	return &affiliatev1.EndSessionResponse{}, s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		session := server.PathID[affiliate.SessionID](req.GetSessionId())
		found, err := accounts.EndSession(ctx, tx, user, session, at)
		if err != nil {
			return err
		}
		if !found {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		holder, err := accounts.Account(ctx, tx, user)
		if err != nil {
			return err
		}
		return recordChange(ctx, tx, holder, change{action: "account.end_session", before: map[string]string{"session": session.String()}}, at)
	})
}

// EndPartnerSession ends a session of the caller.
func (s *Service) EndPartnerSession(ctx context.Context, req *affiliatev1.EndSessionRequest) (*affiliatev1.EndSessionResponse, error) {
	return s.EndMerchantSession(ctx, req)
}

// EndOtherMerchantSessions ends all sessions of the caller except the session of the call.
func (s *Service) EndOtherMerchantSessions(ctx context.Context, _ *affiliatev1.EndOtherSessionsRequest) (*affiliatev1.EndOtherSessionsResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	return &affiliatev1.EndOtherSessionsResponse{}, s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := accounts.RevokeOtherSessions(ctx, tx, caller.User, &caller.Session, at); err != nil {
			return err
		}
		holder, err := accounts.Account(ctx, tx, caller.User)
		if err != nil {
			return err
		}
		return recordChange(ctx, tx, holder, change{action: "account.end_other_sessions"}, at)
	})
}

// EndOtherPartnerSessions ends all sessions of the caller except the session of the call.
func (s *Service) EndOtherPartnerSessions(ctx context.Context, req *affiliatev1.EndOtherSessionsRequest) (*affiliatev1.EndOtherSessionsResponse, error) {
	return s.EndOtherMerchantSessions(ctx, req)
}

// CreateDownloadTicket creates a ticket for one download by a browser.
func (s *Service) CreateDownloadTicket(ctx context.Context, _ *affiliatev1.CreateDownloadTicketRequest) (*affiliatev1.DownloadTicket, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	text, digest := notification.NewDownloadTicket()
	ticket := notification.StreamTicket{
		Digest: digest, Session: caller.Session, Kind: affiliate.Merchant, Mode: caller.Mode, CreatedAt: at, ExpiresAt: at.Add(notification.StreamTicketLife),
	}
	if err := notifications.InsertTicket(ctx, s.DB, ticket); err != nil {
		return nil, err
	}
	return &affiliatev1.DownloadTicket{Ticket: text, ExpiresAt: server.Timestamp(ticket.ExpiresAt)}, nil
}

// newSession returns a session of a user that begins with this call.
func newSession(ctx context.Context, user affiliate.UserID, at time.Time) account.Session {
	return account.NewSession(user, server.ActorFrom(ctx).AddressPrefix, agentFrom(ctx), at)
}

// UpdateMerchantAccount changes the fields that the update mask names. The audit record has the
// names of the changed fields, but not their values, because an erasure could not remove them.
func (s *Service) UpdateMerchantAccount(ctx context.Context, req *affiliatev1.UpdateMerchantAccountRequest) (*affiliatev1.User, error) {
	user, at := server.PrincipalFrom(ctx).User, s.currentTime()
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.User, error) {
		if err := accounts.LockUserByID(ctx, tx, user); err != nil {
			return nil, err
		}
		holder, err := accounts.Account(ctx, tx, user)
		if err != nil {
			return nil, err
		}
		var changed []string
		paths := req.GetUpdateMask().GetPaths()
		if name := req.GetName(); slices.Contains(paths, "name") && name != holder.Name {
			holder.Name, changed = name, append(changed, "name")
		}
		if locale := account.Locale(req.GetLocale()); slices.Contains(paths, "locale") && locale != holder.Locale {
			holder.Locale, changed = locale, append(changed, "locale")
		}
		if len(changed) == 0 {
			return userToProto(holder), nil
		}
		if err := accounts.UpdateUser(ctx, tx, holder.User); err != nil {
			return nil, err
		}
		return userToProto(holder), recordChange(ctx, tx, holder, change{action: "account.update", after: map[string][]string{"changed": changed}}, at)
	})
}

func userToProto(holder account.Account) *affiliatev1.User {
	user := &affiliatev1.User{
		Id:            holder.ID.String(),
		Kind:          server.EnumValue[affiliatev1.AccountKind](holder.Kind),
		Email:         holder.Email,
		EmailVerified: holder.EmailVerified,
		SecondFactor:  holder.SecondFactor,
		Name:          holder.Name,
		Country:       holder.Country,
		Locale:        string(cmp.Or(holder.Locale, account.English)),
		CreatedAt:     server.Timestamp(holder.CreatedAt),
	}
	if holder.Member != nil {
		user.Role = server.EnumValue[affiliatev1.Role](holder.Member.Role)
	}
	return user
}

// workspaceOf returns the workspace of which the account is a member, or nil for a
// partner.
func workspaceOf(ctx context.Context, db postgres.Queryer, account account.Account) (*account.Workspace, error) {
	if account.Member == nil {
		return nil, nil
	}
	workspace, err := accounts.Workspace(ctx, db, account.Member.Workspace)
	return &workspace, err
}

// token is a refresh token or the secret of a browser: 256 random bits.
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

// seeDevice stores the device of a call that opens or refreshes a session. known is true if
// the user has used the device within the last account.DeviceMemory.
func (s *Service) seeDevice(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) (known bool, err error) {
	device := account.DeviceHash(s.HashKeys, user, server.ActorFrom(ctx).AddressPrefix, agentFrom(ctx))
	return accounts.SeeDevice(ctx, tx, user, device, at, at.Add(-account.DeviceMemory))
}

func (s *Service) notifyNewDevice(ctx context.Context, tx *postgres.Tx, holder account.Account, at time.Time) error {
	known, err := s.seeDevice(ctx, tx, holder.ID, at)
	if err != nil || known {
		return err
	}
	facts := map[string]string{}
	if network := server.ActorFrom(ctx).AddressPrefix; network != "" {
		facts["network"] = network
	}
	return tx.Notify(ctx, account.Notification(holder, notification.NotifyNewDevice, at, facts)...)
}

func agentFrom(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if agents := md.Get("x-user-agent"); len(agents) > 0 {
		return agents[0]
	}
	return ""
}

// storeOrigin stores the network and the browser from which a partner opened or refreshed
// a session. The fraud rules use this data. If the data cannot be stored, storeOrigin
// logs the error but does not return it, because the session has already been opened or
// refreshed.
func (s *Service) storeOrigin(ctx context.Context, user account.User, at time.Time) {
	network := server.ActorFrom(ctx).AddressPrefix
	if user.Kind != affiliate.Partner || network == "" {
		return
	}
	origin := fraud.Origin{User: user.ID, IPPrefix: network, SeenAt: at}
	if agent := agentFrom(ctx); agent != "" {
		origin.AgentHash = fraud.AgentHash(s.HashKeys, agent, at).First()
	}
	if err := accounts.StoreOrigin(ctx, s.DB, origin); err != nil {
		slog.WarnContext(ctx, "the origin of a partner's session was not stored", "error", err)
	}
}
