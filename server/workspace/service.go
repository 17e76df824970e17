// Package workspace manages what belongs to a merchant as a whole: its API keys.
//
// It guarantees that a secret key is shown once, at its creation, and stored as
// a digest only, and that a mode never has more than ten active ones, however
// many are asked for at the same time.
package workspace

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Store keeps API keys.
type Store interface {
	// APIKeys lists the keys of a mode that open something at now, newest first.
	APIKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]affiliate.APIKey, error)
	// CreateSecretKey refuses with API_KEY_LIMIT_EXCEEDED.
	CreateSecretKey(ctx context.Context, key affiliate.NewAPIKey, actor affiliate.Actor) error
}

// Service implements affiliate.v1.WorkspaceService.
type Service struct {
	affiliatev1.UnimplementedWorkspaceServiceServer
	store Store
	now   func() time.Time
}

// New makes the service.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// Check refuses a key that would be born expired.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if r, ok := req.(*affiliatev1.CreateApiKeyRequest); ok && r.GetExpiresAt() != nil && !r.GetExpiresAt().AsTime().After(s.now()) {
		found.Add("expires_at", "must lie in the future")
	}
	return found
}

// GetApiKeys reads the keys of the mode.
func (s *Service) GetApiKeys(ctx context.Context, _ *affiliatev1.GetApiKeysRequest) (*affiliatev1.ApiKeys, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	keys, err := s.store.APIKeys(ctx, scope, s.now())
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.ApiKeys{Mode: server.FromWord[affiliatev1.Mode](scope.Mode)}
	for _, key := range keys {
		if key.Kind == affiliate.PublicKey {
			resp.PublicKey = key.PublicText
			continue
		}
		resp.SecretKeys = append(resp.SecretKeys, &affiliatev1.ApiKey{
			Id:         key.ID.String(),
			Name:       key.Name,
			Prefix:     key.Prefix,
			Last4:      key.Last4,
			CreatedAt:  server.Timestamp(key.CreatedAt),
			LastUsedAt: server.OptionalTimestamp(key.LastUsedAt),
			ExpiresAt:  server.OptionalTimestamp(key.ExpiresAt),
		})
	}
	return resp, nil
}

// CreateApiKey makes a secret key and shows it.
func (s *Service) CreateApiKey(ctx context.Context, req *affiliatev1.CreateApiKeyRequest) (*affiliatev1.CreatedApiKey, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	now := s.now().UTC().Truncate(time.Millisecond)
	secret := affiliate.NewKey(affiliate.SecretKey, scope.Mode)
	key := affiliate.NewAPIKey{
		Digest: secret.Digest(),
		APIKey: affiliate.APIKey{
			ID:        affiliate.NewID[affiliate.APIKey](now),
			Scope:     scope,
			Kind:      affiliate.SecretKey,
			Name:      req.GetName(),
			Prefix:    secret.Prefix(),
			Last4:     secret.Last4(),
			CreatedAt: now,
		},
	}
	if req.GetExpiresAt() != nil {
		expires := req.GetExpiresAt().AsTime().Truncate(time.Millisecond)
		key.ExpiresAt = &expires
	}
	if err := s.store.CreateSecretKey(ctx, key, server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	text := secret.Reveal()
	return &affiliatev1.CreatedApiKey{
		Id:        key.ID.String(),
		Name:      key.Name,
		Prefix:    key.Prefix,
		Last4:     key.Last4,
		CreatedAt: server.Timestamp(key.CreatedAt),
		ExpiresAt: server.OptionalTimestamp(key.ExpiresAt),
		SecretKey: &text,
	}, nil
}
