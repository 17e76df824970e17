package workspace_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestSecretKeys(t *testing.T) {
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	clock := func() time.Time { return now }
	ws := affiliate.NewID[affiliate.Workspace](now)
	if _, err := conn.Exec(t.Context(), `insert into workspaces values ($1, 'Shop', 'USD', 'UTC', $2)`, ws, now); err != nil {
		t.Fatal(err)
	}
	service := workspace.New(store, clock)
	as := func(mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{
			Kind: server.MerchantToken, User: affiliate.NewID[affiliate.User](now), Workspace: ws, Role: affiliate.RoleOwner, Mode: mode,
		})
	}

	created, err := service.CreateApiKey(as(affiliate.ModeTest), &affiliatev1.CreateApiKeyRequest{
		Name: "server", ExpiresAt: timestamppb.New(now.Add(time.Hour)),
	})
	if err != nil {
		t.Fatal(err)
	}
	key, ok := affiliate.ParseKey(created.SecretKey)
	if !ok || key.Kind != affiliate.SecretKey || key.Mode != affiliate.ModeTest || created.Prefix != "sk_test_" || created.Last4 != key.Last4() {
		t.Fatalf("created %v", created)
	}
	var found int
	if err := conn.QueryRow(t.Context(), `select count(*) from api_keys k where k::text like '%' || $1 || '%'`, created.SecretKey[8:]).Scan(&found); err != nil || found != 0 {
		t.Errorf("the secret is in the table: %d, %v", found, err)
	}

	live, ok, err := store.LiveKey(t.Context(), key.Digest(), now)
	if err != nil || !ok || live.Scope != (affiliate.Scope{Workspace: ws, Mode: affiliate.ModeTest}) {
		t.Fatalf("live key %v, %v, %v", live, ok, err)
	}
	keys, err := service.GetApiKeys(as(affiliate.ModeTest), nil)
	if err != nil || len(keys.SecretKeys) != 1 || keys.SecretKeys[0].LastUsedAt.AsTime() != now.Truncate(time.Minute) {
		t.Errorf("listed %v, %v", keys, err)
	}
	if other, err := service.GetApiKeys(as(affiliate.ModeLive), nil); err != nil || len(other.SecretKeys) != 0 {
		t.Errorf("the other mode lists %v, %v", other, err)
	}
	now = now.Add(time.Hour)
	if _, ok, _ := store.LiveKey(t.Context(), key.Digest(), now); ok {
		t.Error("the key outlived its end")
	}
	if v := service.Check(&affiliatev1.CreateApiKeyRequest{ExpiresAt: timestamppb.New(now)}); len(v) != 1 || v[0].Field != "expires_at" {
		t.Errorf("born expired: %v", v)
	}

	// The expired one does not count; 20 ask at once for the ten places.
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for range cap(results) {
		wg.Go(func() {
			_, err := service.CreateApiKey(as(affiliate.ModeTest), &affiliatev1.CreateApiKeyRequest{Name: "many"})
			results <- err
		})
	}
	wg.Wait()
	close(results)
	made := 0
	for err := range results {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)):
			t.Error(err)
		}
	}
	if made != affiliate.MaxSecretKeys {
		t.Errorf("%d keys made, want %d", made, affiliate.MaxSecretKeys)
	}
}
