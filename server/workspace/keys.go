package workspace

import (
	"context"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// GetApiKeys reads the keys of the mode. Of public keys in their grace it shows
// none: what is published should be the newest.
func (s *Service) GetApiKeys(ctx context.Context, _ *affiliatev1.GetApiKeysRequest) (*affiliatev1.ApiKeys, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	keys, err := s.store.APIKeys(ctx, scope, s.at())
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.ApiKeys{Mode: server.FromWord[affiliatev1.Mode](scope.Mode)}
	for _, key := range keys {
		switch {
		case key.Kind == affiliate.SecretKey:
			resp.SecretKeys = append(resp.SecretKeys, &affiliatev1.ApiKey{
				Id:         key.ID.String(),
				Name:       key.Name,
				Prefix:     key.Prefix,
				Last4:      key.Last4,
				CreatedAt:  server.Timestamp(key.CreatedAt),
				LastUsedAt: server.OptionalTimestamp(key.LastUsedAt),
				ExpiresAt:  server.OptionalTimestamp(key.ExpiresAt),
			})
		case key.RolledAt == nil:
			resp.PublicKey, resp.PublicKeyId = key.PublicText, key.ID.String()
		}
	}
	return resp, nil
}

// CreateApiKey makes a secret key and shows it.
func (s *Service) CreateApiKey(ctx context.Context, req *affiliatev1.CreateApiKeyRequest) (*affiliatev1.CreatedApiKey, error) {
	shown, key := newKey(affiliate.SecretKey, server.PrincipalFrom(ctx).Scope(), s.at())
	key.Name = req.GetName()
	if req.GetExpiresAt() != nil {
		expires := req.GetExpiresAt().AsTime().Truncate(time.Millisecond)
		key.ExpiresAt = &expires
	}
	if err := s.store.CreateSecretKey(ctx, key, server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return created(shown, key.APIKey), nil
}

// RollApiKey makes a key's successor and shows it.
func (s *Service) RollApiKey(ctx context.Context, req *affiliatev1.RollApiKeyRequest) (*affiliatev1.CreatedApiKey, error) {
	id, err := server.PathID[affiliate.APIKey](req.GetKeyId())
	if err != nil {
		return nil, err
	}
	// What it is says which kind of key to make, and never changes.
	scope, at := server.PrincipalFrom(ctx).Scope(), s.at()
	keys, err := s.store.APIKeys(ctx, scope, at)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(keys, func(key affiliate.APIKey) bool { return key.ID == id })
	if i < 0 {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	grace := affiliate.DefaultRollGrace
	if req.GraceHours != nil {
		grace = time.Duration(req.GetGraceHours()) * time.Hour
	}
	shown, successor := newKey(keys[i].Kind, scope, at)
	rolled, err := s.store.RollKey(ctx, id, successor, grace, server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return created(shown, rolled), nil
}

// RevokeApiKey stops a secret key.
func (s *Service) RevokeApiKey(ctx context.Context, req *affiliatev1.RevokeApiKeyRequest) (*affiliatev1.RevokeApiKeyResponse, error) {
	id, err := server.PathID[affiliate.APIKey](req.GetKeyId())
	if err != nil {
		return nil, err
	}
	if err := s.store.RevokeSecretKey(ctx, server.PrincipalFrom(ctx).Scope(), id, s.at(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return &affiliatev1.RevokeApiKeyResponse{}, nil
}

// newKey makes a key without a name, in clear and as it is stored.
func newKey(kind affiliate.KeyKind, scope affiliate.Scope, at time.Time) (affiliate.Key, affiliate.NewAPIKey) {
	shown := affiliate.NewKey(kind, scope.Mode)
	key := affiliate.NewAPIKey{
		Digest: shown.Digest(),
		APIKey: affiliate.APIKey{
			ID:        affiliate.NewID[affiliate.APIKey](at),
			Scope:     scope,
			Kind:      kind,
			Prefix:    shown.Prefix(),
			Last4:     shown.Last4(),
			CreatedAt: at,
		},
	}
	if kind == affiliate.PublicKey {
		key.PublicText = shown.Reveal()
	}
	return shown, key
}

func created(shown affiliate.Key, key affiliate.APIKey) *affiliatev1.CreatedApiKey {
	resp := &affiliatev1.CreatedApiKey{
		Id:        key.ID.String(),
		Name:      key.Name,
		Prefix:    key.Prefix,
		Last4:     key.Last4,
		CreatedAt: server.Timestamp(key.CreatedAt),
		ExpiresAt: server.OptionalTimestamp(key.ExpiresAt),
	}
	text := shown.Reveal()
	if key.Kind == affiliate.PublicKey {
		resp.PublicKey = &text
	} else {
		resp.SecretKey = &text
	}
	return resp
}
