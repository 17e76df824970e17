package workspace

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

// GetApiKeys returns the active keys of the mode. A public key that was rolled has a
// successor. It still works until its grace period ends, but GetApiKeys returns only the
// successor, because new web pages should use the successor.
func (s *Service) GetApiKeys(ctx context.Context, _ *affiliatev1.GetApiKeysRequest) (*affiliatev1.ApiKeys, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	keys, err := accounts.ActiveKeys(ctx, s.db, scope, s.currentTime())
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.ApiKeys{Mode: server.EnumValue[affiliatev1.Mode](scope.Mode)}
	for _, key := range keys {
		switch {
		case key.Kind == account.SecretKey:
			resp.SecretKeys = append(resp.SecretKeys, keyToProto(key))
		case key.RolledAt == nil:
			resp.PublicKey, resp.PublicKeyId = key.PublicText, key.ID.String()
		}
	}
	return resp, nil
}

func keyObject(key account.APIKey) map[string]string {
	return map[string]string{"name": key.Name, "prefix": key.Prefix, "last4": key.Last4}
}

// lockToManageKeys locks the caller's workspace, so that concurrent changes of its keys
// run one after the other. Errors: FORBIDDEN if the caller's current role does not permit
// managing keys.
func lockToManageKeys(ctx context.Context, tx *postgres.Tx, caller server.Principal) error {
	role, err := server.LockWorkspace(ctx, tx, caller)
	if err == nil && !role.MayManageKeys() {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return err
}

func checkSecretKeyLimit(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, at time.Time) error {
	count, err := accounts.CountSecretKeys(ctx, tx, scope, at)
	if err != nil {
		return err
	}
	return account.CheckKeys(count, account.MaxSecretKeys)
}

// CreateApiKey creates a secret key. The response contains the key. No other response
// contains it.
func (s *Service) CreateApiKey(ctx context.Context, req *affiliatev1.CreateApiKeyRequest) (*affiliatev1.CreatedApiKey, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	scope := caller.Scope()
	text, key := account.GenerateAPIKey(account.SecretKey, scope, req.GetName(), at)
	if req.GetExpiresAt() != nil {
		expires := req.GetExpiresAt().AsTime().Truncate(time.Millisecond)
		key.ExpiresAt = &expires
	}
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.CreatedApiKey, error) {
		if err := lockToManageKeys(ctx, tx, caller); err != nil {
			return nil, err
		}
		if err := checkSecretKeyLimit(ctx, tx, scope, at); err != nil {
			return nil, err
		}
		if err := accounts.InsertKey(ctx, tx, key); err != nil {
			return nil, err
		}
		if err := tx.Notify(ctx, account.KeyNotification(notification.NotifyKeyCreated, key, caller.AccountableUser(), at)...); err != nil {
			return nil, err
		}
		return createdToProto(text, key), tx.Audit(ctx, affiliate.AuditLine{
			Workspace: scope.Workspace, Mode: &scope.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "api_key.create", ResourceType: "api_key", ResourceID: key.ID, After: keyObject(key),
		})
	})
}

// RollApiKey creates a successor of a key, with the same kind, name and expiry. The
// response contains the new key. If it is a secret key, no other response contains it.
// The old key works until the grace period ends.
func (s *Service) RollApiKey(ctx context.Context, req *affiliatev1.RollApiKeyRequest) (*affiliatev1.CreatedApiKey, error) {
	id := server.PathID[affiliate.APIKeyID](req.GetKeyId())
	grace := account.DefaultRollGrace
	if req.GraceHours != nil {
		grace = time.Duration(req.GetGraceHours()) * time.Hour
	}
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	scope := caller.Scope()
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.CreatedApiKey, error) {
		if err := lockToManageKeys(ctx, tx, caller); err != nil {
			return nil, err
		}
		before, err := accounts.LockKey(ctx, tx, scope, id)
		if err != nil {
			return nil, err
		}
		after, err := before.Roll(grace, at)
		if err != nil {
			return nil, err
		}
		if err := accounts.UpdateKey(ctx, tx, after); err != nil {
			return nil, err
		}
		text, successor := account.GenerateAPIKey(before.Kind, scope, before.Name, at)
		successor.ExpiresAt = before.ExpiresAt
		if successor.Kind == account.SecretKey {
			if err := checkSecretKeyLimit(ctx, tx, scope, at); err != nil {
				return nil, err
			}
		}
		if err := accounts.InsertKey(ctx, tx, successor); err != nil {
			return nil, err
		}
		object := keyObject(successor)
		object["successor"] = successor.ID.String()
		if after.RevokedAt != nil {
			object["revoked_at"] = affiliate.FormatTime(at)
		} else {
			object["expires_at"] = affiliate.FormatTime(*after.ExpiresAt)
		}
		if err := tx.Notify(ctx, account.KeyNotification(notification.NotifyKeyRolled, before, caller.AccountableUser(), at)...); err != nil {
			return nil, err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: scope.Workspace, Mode: &scope.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "api_key.roll", ResourceType: "api_key", ResourceID: id, Before: keyObject(before), After: object,
		}); err != nil {
			return nil, err
		}
		if successor.Kind == account.PublicKey {
			return createdToProto(text, successor), tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: scope.Workspace})
		}
		return createdToProto(text, successor), nil
	})
}

// RevokeApiKey revokes a secret key.
func (s *Service) RevokeApiKey(ctx context.Context, req *affiliatev1.RevokeApiKeyRequest) (*affiliatev1.RevokeApiKeyResponse, error) {
	id := server.PathID[affiliate.APIKeyID](req.GetKeyId())
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	scope := caller.Scope()
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := lockToManageKeys(ctx, tx, caller); err != nil {
			return err
		}
		before, err := accounts.LockKey(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		after, err := before.Revoke(at)
		if err != nil {
			return err
		}
		if err := accounts.UpdateKey(ctx, tx, after); err != nil {
			return err
		}
		if err := tx.Notify(ctx, account.KeyNotification(notification.NotifyKeyRevoked, before, caller.AccountableUser(), at)...); err != nil {
			return err
		}
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: scope.Workspace, Mode: &scope.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "api_key.revoke", ResourceType: "api_key", ResourceID: id, Before: keyObject(before),
		})
	})
	return &affiliatev1.RevokeApiKeyResponse{}, err
}

func keyToProto(key account.APIKey) *affiliatev1.ApiKey {
	return &affiliatev1.ApiKey{
		Id:         key.ID.String(),
		Name:       key.Name,
		Prefix:     key.Prefix,
		Last4:      key.Last4,
		CreatedAt:  server.Timestamp(key.CreatedAt),
		LastUsedAt: server.OptionalTimestamp(key.LastUsedAt),
		ExpiresAt:  server.OptionalTimestamp(key.ExpiresAt),
	}
}

func createdToProto(text account.Key, key account.APIKey) *affiliatev1.CreatedApiKey {
	resp := &affiliatev1.CreatedApiKey{}
	server.CopyShared(resp.ProtoReflect(), keyToProto(key).ProtoReflect())
	revealed := text.Reveal()
	if key.Kind == account.PublicKey {
		resp.PublicKey = &revealed
	} else {
		resp.SecretKey = &revealed
	}
	return resp
}
