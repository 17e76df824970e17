// Package servicetoken manages the service tokens of a workspace.
//
// The package guarantees that a token is returned once and stored only as a digest, and
// that each mode has at most 20 active tokens, even if requests run in parallel. A change
// locks the workspace and then reads the caller's role again. A change is therefore
// rejected if the caller has lost the role while the call waited for the lock. The
// interceptors of package server authenticate tokens and check their permissions.
//
// The package does not revoke tokens when the member who created them leaves the
// workspace, because the tokens belong to the workspace.
package servicetoken

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Service implements affiliate.v1.ServiceTokenService.
type Service struct {
	affiliatev1.UnimplementedServiceTokenServiceServer
	db  *postgres.DB
	now func() time.Time
}

// New returns a Service. now is the clock.
func New(db *postgres.DB, now func() time.Time) *Service { return &Service{db: db, now: now} }

func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) } // the precision of the API

// ListServiceTokens returns the active tokens, newest first.
func (s *Service) ListServiceTokens(ctx context.Context, req *affiliatev1.ListServiceTokensRequest) (*affiliatev1.ListServiceTokensResponse, error) {
	page, modes := server.PageOf(req), []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive}
	if req.Mode != nil {
		modes = []affiliate.Mode{affiliate.Mode(server.EnumName(req.GetMode()))}
	}
	tokens, total, err := accounts.ServiceTokens(ctx, s.db, server.PrincipalFrom(ctx).Workspace, modes, s.currentTime(), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListServiceTokensResponse{
		Data: server.ConvertAll(tokens, listedToProto), Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// CreateServiceToken creates a token. No other response contains it.
func (s *Service) CreateServiceToken(ctx context.Context, req *affiliatev1.CreateServiceTokenRequest) (*affiliatev1.CreatedServiceToken, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	fields := account.ServiceToken{
		Scope: caller.Scope(), Name: req.GetName(), Role: affiliate.Role(server.EnumName(req.GetRole())),
		AllowPayouts: req.GetAllowPayouts(), CreatedBy: caller.User,
	}
	if req.Mode != nil {
		fields.Mode = affiliate.Mode(server.EnumName(req.GetMode()))
	}
	if req.GetExpiresAt() != nil {
		fields.ExpiresAt = req.GetExpiresAt().AsTime().Truncate(time.Millisecond)
	}
	text, token, err := account.GenerateServiceToken(fields, at)
	if err != nil {
		return nil, err
	}
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.CreatedServiceToken, error) {
		role, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return nil, err
		}
		if err := token.CheckManageable(role); err != nil {
			return nil, err
		}
		if err := insert(ctx, tx, token, at); err != nil {
			return nil, err
		}
		if err := tx.Notify(ctx, token.Notification(notification.NotifyServiceTokenCreated, caller.User, at)); err != nil {
			return nil, err
		}
		return createdToProto(text, token), tx.Audit(ctx, affiliate.AuditLine{
			Workspace: token.Workspace, Mode: &token.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "service_token.create", ResourceType: "service_token", ResourceID: token.ID, After: token.AuditObject(),
		})
	})
}

// RollServiceToken creates a successor of a token. No other response contains the
// successor. The old token works until the grace period ends.
func (s *Service) RollServiceToken(ctx context.Context, req *affiliatev1.RollServiceTokenRequest) (*affiliatev1.CreatedServiceToken, error) {
	id := server.PathID[affiliate.ServiceTokenID](req.GetServiceTokenId())
	grace := account.DefaultRollGrace
	if req.GraceHours != nil {
		grace = time.Duration(req.GetGraceHours()) * time.Hour
	}
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.CreatedServiceToken, error) {
		role, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return nil, err
		}
		before, err := accounts.LockServiceToken(ctx, tx, caller.Workspace, id)
		if err != nil {
			return nil, err
		}
		if err := before.CheckManageable(role); err != nil {
			return nil, err
		}
		after, text, successor, err := before.Roll(grace, caller.User, at)
		if err != nil {
			return nil, err
		}
		if err := accounts.UpdateServiceToken(ctx, tx, after); err != nil {
			return nil, err
		}
		if err := insert(ctx, tx, successor, at); err != nil {
			return nil, err
		}
		if err := tx.Notify(ctx, before.Notification(notification.NotifyServiceTokenRolled, caller.User, at)); err != nil {
			return nil, err
		}
		object := successor.AuditObject()
		object["successor"] = successor.ID
		return createdToProto(text, successor), tx.Audit(ctx, affiliate.AuditLine{
			Workspace: before.Workspace, Mode: &before.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "service_token.roll", ResourceType: "service_token", ResourceID: id, Before: before.AuditObject(), After: object,
		})
	})
}

// RevokeServiceToken revokes a token.
func (s *Service) RevokeServiceToken(ctx context.Context, req *affiliatev1.RevokeServiceTokenRequest) (*affiliatev1.RevokeServiceTokenResponse, error) {
	id := server.PathID[affiliate.ServiceTokenID](req.GetServiceTokenId())
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		role, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return err
		}
		if role != affiliate.RoleOwner && role != affiliate.RoleAdmin {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		before, err := accounts.LockServiceToken(ctx, tx, caller.Workspace, id)
		if err != nil {
			return err
		}
		after, err := before.Revoke(at)
		if err != nil {
			return err
		}
		if err := accounts.UpdateServiceToken(ctx, tx, after); err != nil {
			return err
		}
		if err := tx.Notify(ctx, before.Notification(notification.NotifyServiceTokenRevoked, caller.User, at)); err != nil {
			return err
		}
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: before.Workspace, Mode: &before.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "service_token.revoke", ResourceType: "service_token", ResourceID: id, Before: before.AuditObject(),
		})
	})
	return &affiliatev1.RevokeServiceTokenResponse{}, err
}

func insert(ctx context.Context, tx *postgres.Tx, token account.ServiceToken, at time.Time) error {
	active, err := accounts.CountServiceTokens(ctx, tx, token.Scope, at)
	if err != nil {
		return err
	}
	if err := account.CheckKeys(active, account.MaxServiceTokens); err != nil {
		return err
	}
	return accounts.InsertServiceToken(ctx, tx, token)
}

func listedToProto(t account.ListedServiceToken) *affiliatev1.ServiceToken {
	out := toProto(t.ServiceToken)
	out.CreatedByName = t.CreatedByName
	return out
}

func toProto(t account.ServiceToken) *affiliatev1.ServiceToken {
	return &affiliatev1.ServiceToken{
		Id:               t.ID.String(),
		Name:             t.Name,
		Role:             server.EnumValue[affiliatev1.Role](t.Role),
		Mode:             server.EnumValue[affiliatev1.Mode](t.Mode),
		AllowPayouts:     t.AllowPayouts,
		Prefix:           t.Prefix,
		Last4:            t.Last4,
		CreatedBy:        t.CreatedBy.String(),
		CreatedAt:        server.Timestamp(t.CreatedAt),
		ExpiresAt:        server.Timestamp(t.ExpiresAt),
		LastUsedAt:       server.OptionalTimestamp(t.LastUsedAt),
		LastUsedIpPrefix: t.LastUsedIPPrefix,
	}
}

func createdToProto(text account.Key, t account.ServiceToken) *affiliatev1.CreatedServiceToken {
	out := &affiliatev1.CreatedServiceToken{Token: text.Reveal()}
	server.CopyShared(out.ProtoReflect(), toProto(t).ProtoReflect())
	return out
}
