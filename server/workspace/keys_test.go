package workspace_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	directories "github.com/tributary-hq/tributary/storage/postgres/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) createKey(expires *time.Time) *affiliatev1.CreatedApiKey {
	f.Helper()
	req := &affiliatev1.CreateApiKeyRequest{Name: "server"}
	if expires != nil {
		req.ExpiresAt = timestamppb.New(*expires)
	}
	created, err := f.service.CreateApiKey(f.asOwner(), req)
	if err != nil {
		f.Fatal(err)
	}
	return created
}

func (f *fixture) roll(id string, hours *int32) (*affiliatev1.CreatedApiKey, error) {
	return f.service.RollApiKey(f.asOwner(), &affiliatev1.RollApiKeyRequest{KeyId: id, GraceHours: hours})
}

// keyWorks reports whether a call with the key would be accepted now.
func (f *fixture) keyWorks(text string) bool {
	f.Helper()
	key, ok := account.ParseKey(text)
	if !ok {
		f.Fatalf("%q is not a key", text)
	}
	_, active, err := accounts.NewKeys(f.DB).Use(f.Context(), key.Digest(), f.Now())
	if err != nil {
		f.Fatal(err)
	}
	return active
}

func (f *fixture) keys() *affiliatev1.ApiKeys {
	f.Helper()
	keys, err := f.service.GetApiKeys(f.asOwner(), nil)
	if err != nil {
		f.Fatal(err)
	}
	return keys
}

func TestCreateApiKey(t *testing.T) {
	f := newFixture(t)
	end := f.Now().Add(time.Hour)
	created := f.createKey(&end)
	key, ok := account.ParseKey(created.GetSecretKey())
	if !ok || key.Kind != account.SecretKey || key.Mode != affiliate.ModeTest || created.PublicKey != nil || created.Prefix != "sk_test_" || created.Last4 != key.Last4() {
		t.Fatalf("CreateApiKey returned %v, want a secret key of test mode", created)
	}
	if found := f.Count(`select count(*) from api_keys k where k::text like '%' || $1 || '%'`, created.GetSecretKey()[8:]); found != 0 {
		t.Error("the secret is in the table")
	}

	live, ok, err := accounts.NewKeys(f.DB).Use(t.Context(), key.Digest(), f.Now())
	if err != nil || !ok || live.Scope != f.Scope {
		t.Fatalf("the key was found as %v, %v, %v, want the scope %v", live, ok, err, f.Scope)
	}
	if keys := f.keys(); len(keys.SecretKeys) != 1 || keys.SecretKeys[0].LastUsedAt.AsTime() != f.Now().Truncate(time.Minute) {
		t.Errorf("listed %v, want one key, last used at %v", keys, f.Now().Truncate(time.Minute))
	}
	other, err := f.service.GetApiKeys(f.asOwnerInLiveMode(), nil)
	if err != nil || len(other.SecretKeys) != 0 {
		t.Errorf("the other mode lists %v, %v, want no key", other, err)
	}
	f.clock.Set(end)
	if f.keyWorks(created.GetSecretKey()) {
		t.Error("the key works after its expiry")
	}
	if v := f.service.Check(&affiliatev1.CreateApiKeyRequest{ExpiresAt: timestamppb.New(f.Now())}); len(v) != 1 || v[0].Field != "expires_at" {
		t.Errorf("an expiry in the past has the violations %v, want one of expires_at", v)
	}

	// 20 requests run in parallel, but a mode can have only ten keys. The expired key is
	// not one of them.
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for range cap(results) {
		wg.Go(func() {
			_, err := f.service.CreateApiKey(f.asOwner(), &affiliatev1.CreateApiKeyRequest{Name: "many"})
			results <- err
		})
	}
	wg.Wait()
	close(results)
	succeeded := 0
	for err := range results {
		switch {
		case err == nil:
			succeeded++
		case !errors.Is(err, affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)):
			t.Error(err)
		}
	}
	if succeeded != account.MaxSecretKeys {
		t.Errorf("%d keys created, want %d", succeeded, account.MaxSecretKeys)
	}
}

func TestApiKey_LastUseIsStoredOncePerMinute(t *testing.T) {
	f := newFixture(t)
	created := f.createKey(nil)
	version := func() int {
		return f.Count(`select xmin::text::int from api_keys where id = $1`, created.Id)
	}
	initial := version()
	f.keyWorks(created.GetSecretKey())
	first := version()
	f.clock.Set(f.Now().Truncate(time.Minute).Add(time.Minute - time.Millisecond))
	f.keyWorks(created.GetSecretKey())
	if second := version(); first == initial || second != first {
		t.Errorf("the row has the versions %d before, %d after one use and %d after two uses in a minute, want a change by the first use only", initial, first, second)
	}
	f.clock.Advance(2 * time.Minute)
	f.keyWorks(created.GetSecretKey())
	if version() == first {
		t.Error("a use of the key more than a minute after the first use is not stored")
	}
}

func TestRollApiKey_OldSecretKeyWorksInTheGracePeriod(t *testing.T) {
	f := newFixture(t)
	old := f.createKey(nil)
	f.keyWorks(old.GetSecretKey())
	fresh, err := f.roll(old.Id, nil)
	if err != nil || fresh.Id == old.Id || fresh.Name != "server" || fresh.GetSecretKey() == "" || fresh.GetSecretKey() == old.GetSecretKey() ||
		fresh.PublicKey != nil || fresh.ExpiresAt != nil || fresh.LastUsedAt != nil {
		t.Fatalf("RollApiKey returned %v, %v, want a new key without an expiry", fresh, err)
	}
	keys := f.keys().SecretKeys
	if len(keys) != 2 {
		t.Fatalf("listed %v, want two keys", keys)
	}
	for _, key := range keys {
		want := (*timestamppb.Timestamp)(nil)
		if key.Id == old.Id {
			want = timestamppb.New(f.Now().Add(24 * time.Hour))
		}
		if !proto.Equal(key.ExpiresAt, want) {
			t.Errorf("%s expires at %v, want %v", key.Id, key.ExpiresAt, want)
		}
	}
	_, err = f.roll(old.Id, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	f.clock.Advance(24*time.Hour - time.Millisecond)
	if !f.keyWorks(old.GetSecretKey()) || !f.keyWorks(fresh.GetSecretKey()) {
		t.Error("a key does not work within the grace period")
	}
	f.clock.Advance(time.Millisecond)
	if f.keyWorks(old.GetSecretKey()) || !f.keyWorks(fresh.GetSecretKey()) {
		t.Error("after the grace period only the new key must work")
	}

	at := f.Now()
	newest, err := f.roll(fresh.Id, proto.Int32(0))
	if err != nil || f.keyWorks(fresh.GetSecretKey()) || !f.keyWorks(newest.GetSecretKey()) {
		t.Errorf("after a roll without a grace period (%v) only the newest key must work", err)
	}
	_, err = f.roll(fresh.Id, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if n := f.Count(`select count(*) from api_keys where id = $1 and revoked_at = $2 and rolled_at = $2 and expires_at is null`, fresh.Id, at); n != 1 {
		t.Error("the key without a grace period is not revoked")
	}
	for _, id := range []string{"x", affiliate.NewID[affiliate.APIKeyID](f.Now()).String()} {
		_, err = f.roll(id, nil)
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	_, err = f.service.RollApiKey(f.asOwnerInLiveMode(), &affiliatev1.RollApiKeyRequest{KeyId: newest.Id})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if n := f.countAudit("api_key.roll"); n != 2 {
		t.Errorf("%d audit records, want 2", n)
	}
	if n := f.countDirectoryJobs(); n != 0 {
		t.Errorf("%d jobs for the edge directory, want none, because it has no secret keys", n)
	}
}

func TestRollApiKey_NewKeyHasTheSameExpiry(t *testing.T) {
	f := newFixture(t)
	soon, late := f.Now().Add(time.Hour), f.Now().Add(100*time.Hour)
	for _, tc := range []struct{ expiry, oldKeyExpiry time.Time }{
		{soon, soon},
		{late, f.Now().Add(24 * time.Hour)},
	} {
		old := f.createKey(&tc.expiry)
		fresh, err := f.roll(old.Id, proto.Int32(24))
		if err != nil || !fresh.ExpiresAt.AsTime().Equal(tc.expiry) {
			t.Fatalf("RollApiKey returned %v, %v, want a key that expires at %v", fresh, err, tc.expiry)
		}
		if n := f.Count(`select count(*) from api_keys where id = $1 and expires_at = $2`, old.Id, tc.oldKeyExpiry); n != 1 {
			t.Errorf("the old key, whose expiry was %v, must now expire at %v", tc.expiry, tc.oldKeyExpiry)
		}
	}
	expired := f.createKey(&soon)
	f.clock.Set(soon)
	_, err := f.roll(expired.Id, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestRollApiKey_KeysInTheGracePeriodCountTowardsTheLimit(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for range account.MaxSecretKeys - 1 {
		ids = append(ids, f.createKey(nil).Id)
	}
	// Nine keys are rolled at the same time. In the grace period, the old key and the new
	// key exist, and only one more key is allowed.
	var wg sync.WaitGroup
	results := make(chan error, len(ids))
	for _, id := range ids {
		wg.Go(func() {
			_, err := f.roll(id, nil)
			results <- err
		})
	}
	wg.Wait()
	close(results)
	rolled := 0
	for err := range results {
		switch {
		case err == nil:
			rolled++
		case !errors.Is(err, affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)):
			t.Error(err)
		}
	}
	if n := len(f.keys().SecretKeys); rolled != 1 || n != account.MaxSecretKeys {
		t.Errorf("%d keys were rolled and %d exist, want 1 and %d", rolled, n, account.MaxSecretKeys)
	}
	if n := f.Count(`select count(*) from api_keys where rolled_at is not null`); n != 1 {
		t.Errorf("%d keys are marked as rolled, want 1", n)
	}
	// Without a grace period, the old key does not count towards the limit, so each key
	// can be rolled.
	remaining := f.Count(`select count(*) from api_keys where rolled_at is null`)
	for _, key := range f.keys().SecretKeys {
		if key.ExpiresAt == nil {
			if _, err := f.roll(key.Id, proto.Int32(0)); err != nil {
				t.Errorf("without a grace period: %v", err)
			}
			remaining--
		}
	}
	if remaining != 0 {
		t.Errorf("%d keys were not rolled", remaining)
	}
}

func TestRollApiKey_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	old := f.createKey(nil)
	var wg sync.WaitGroup
	results := make(chan error, 10)
	for range cap(results) {
		wg.Go(func() {
			_, err := f.roll(old.Id, nil)
			results <- err
		})
	}
	wg.Wait()
	close(results)
	rolled := 0
	for err := range results {
		if err == nil {
			rolled++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	if n := len(f.keys().SecretKeys); rolled != 1 || n != 2 {
		t.Errorf("%d calls succeeded and %d keys exist, want 1 and 2", rolled, n)
	}
}

// newPublicKey stores a public key.
func (f *fixture) newPublicKey() account.APIKey {
	f.Helper()
	key := account.NewKey(account.PublicKey, affiliate.ModeTest)
	id, digest := affiliate.NewID[affiliate.APIKeyID](f.Now()), key.Digest()
	f.Insert("api_keys", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "id": id, "mode": f.Scope.Mode, "kind": "public", "name": "Public key", "digest": digest[:],
		"public_text": key.Reveal(), "prefix": key.Prefix(), "last4": key.Last4(), "created_at": f.Now(),
	})
	return account.APIKey{ID: id, PublicText: key.Reveal(), Digest: digest[:]}
}

func TestRollApiKey_PublicKey(t *testing.T) {
	f := newFixture(t)
	old := f.newPublicKey()
	if keys := f.keys(); keys.PublicKey != old.PublicText || keys.PublicKeyId != old.ID.String() {
		t.Fatalf("GetApiKeys returned %v, want the public key %s", keys, old.PublicText)
	}
	// The new key has the same creation time as the old key, so the time alone does not
	// show which key is newer.
	fresh, err := f.roll(old.ID.String(), proto.Int32(72))
	if err != nil || fresh.SecretKey != nil || fresh.GetPublicKey() == "" || fresh.Name != "Public key" {
		t.Fatalf("RollApiKey returned %v, %v, want a new key without an expiry", fresh, err)
	}
	keys := f.keys()
	if keys.PublicKey != fresh.GetPublicKey() || keys.PublicKeyId != fresh.Id || len(keys.SecretKeys) != 0 {
		t.Errorf("GetApiKeys returned %v, want the public key %s", keys, fresh.GetPublicKey())
	}
	if f.countDirectoryJobs() != 1 || f.countAudit("api_key.roll") != 1 {
		t.Errorf("%d jobs for the edge directory and %d audit records, want one each", f.countDirectoryJobs(), f.countAudit("api_key.roll"))
	}
	publicKeys, err := directories.WorkspacePublicKeys(t.Context(), f.DB, f.Scope.Workspace)
	if err != nil || len(publicKeys) != 2 {
		t.Errorf("the edge directory gets %v, %v, want both keys", publicKeys, err)
	}
	f.clock.Advance(72*time.Hour - time.Millisecond)
	if !f.keyWorks(old.PublicText) {
		t.Error("the old key does not work within the grace period")
	}
	f.clock.Advance(time.Millisecond)
	if f.keyWorks(old.PublicText) || !f.keyWorks(fresh.GetPublicKey()) {
		t.Error("after the grace period only the new key must work")
	}
	_, err = f.roll(old.ID.String(), nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestRevokeApiKey(t *testing.T) {
	f := newFixture(t)
	revoke := func(id string) error {
		_, err := f.service.RevokeApiKey(f.asOwner(), &affiliatev1.RevokeApiKeyRequest{KeyId: id})
		return err
	}
	key, public := f.createKey(nil), f.newPublicKey()
	_, err := f.service.RevokeApiKey(f.asOwnerInLiveMode(), &affiliatev1.RevokeApiKeyRequest{KeyId: key.Id})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if err := revoke(key.Id); err != nil || f.keyWorks(key.GetSecretKey()) || len(f.keys().SecretKeys) != 0 {
		t.Errorf("RevokeApiKey returned %v; the key works: %v; listed: %v", err, f.keyWorks(key.GetSecretKey()), f.keys().SecretKeys)
	}
	for _, id := range []string{key.Id, public.ID.String(), "x", affiliate.NewID[affiliate.APIKeyID](f.Now()).String()} {
		pgtest.RequireRefusal(t, revoke(id), affiliate.ReasonNotFound)
	}
	_, err = f.roll(key.Id, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if !f.keyWorks(public.PublicText) || f.countAudit("api_key.revoke") != 1 {
		t.Errorf("the public key works: %v; %d audit records, want true and 1", f.keyWorks(public.PublicText), f.countAudit("api_key.revoke"))
	}
}
