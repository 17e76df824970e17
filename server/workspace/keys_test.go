package workspace_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func (w *world) createKey(expires *time.Time) *affiliatev1.CreatedApiKey {
	w.t.Helper()
	req := &affiliatev1.CreateApiKeyRequest{Name: "server"}
	if expires != nil {
		req.ExpiresAt = timestamppb.New(*expires)
	}
	created, err := w.service.CreateApiKey(w.asOwner(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

func (w *world) roll(id string, hours *int32) (*affiliatev1.CreatedApiKey, error) {
	return w.service.RollApiKey(w.asOwner(), &affiliatev1.RollApiKeyRequest{KeyId: id, GraceHours: hours})
}

// keyWorks reports whether a call with the key would be accepted now.
func (w *world) keyWorks(text string) bool {
	w.t.Helper()
	key, ok := affiliate.ParseKey(text)
	if !ok {
		w.t.Fatalf("%q is not a key", text)
	}
	_, live, err := w.accounts.LiveKey(w.t.Context(), key.Digest(), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return live
}

func (w *world) keys() *affiliatev1.ApiKeys {
	w.t.Helper()
	keys, err := w.service.GetApiKeys(w.asOwner(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

func TestCreateApiKey(t *testing.T) {
	w := newWorld(t)
	end := w.now.Add(time.Hour)
	created := w.createKey(&end)
	key, ok := affiliate.ParseKey(created.GetSecretKey())
	if !ok || key.Kind != affiliate.SecretKey || key.Mode != affiliate.ModeTest || created.PublicKey != nil || created.Prefix != "sk_test_" || created.Last4 != key.Last4() {
		t.Fatalf("created %v", created)
	}
	if found := w.count(`select count(*) from api_keys k where k::text like '%' || $1 || '%'`, created.GetSecretKey()[8:]); found != 0 {
		t.Error("the secret is in the table")
	}

	live, ok, err := w.accounts.LiveKey(t.Context(), key.Digest(), w.now)
	if err != nil || !ok || live.Scope != (affiliate.Scope{Workspace: w.id, Mode: affiliate.ModeTest}) {
		t.Fatalf("live key %v, %v, %v", live, ok, err)
	}
	if keys := w.keys(); len(keys.SecretKeys) != 1 || keys.SecretKeys[0].LastUsedAt.AsTime() != w.now.Truncate(time.Minute) {
		t.Errorf("listed %v", keys)
	}
	other, err := w.service.GetApiKeys(w.as(w.owner, affiliate.RoleOwner, affiliate.ModeLive), nil)
	if err != nil || len(other.SecretKeys) != 0 {
		t.Errorf("the other mode lists %v, %v", other, err)
	}
	w.now = end
	if w.keyWorks(created.GetSecretKey()) {
		t.Error("the key works after its expiry")
	}
	if v := w.service.Check(&affiliatev1.CreateApiKeyRequest{ExpiresAt: timestamppb.New(w.now)}); len(v) != 1 || v[0].Field != "expires_at" {
		t.Errorf("an expiry in the past: %v", v)
	}

	// 20 requests run in parallel, but a mode can have only ten keys. The expired key does
	// not count.
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for range cap(results) {
		wg.Go(func() {
			_, err := w.service.CreateApiKey(w.asOwner(), &affiliatev1.CreateApiKeyRequest{Name: "many"})
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
	if succeeded != affiliate.MaxSecretKeys {
		t.Errorf("%d keys created, want %d", succeeded, affiliate.MaxSecretKeys)
	}
}

func TestApiKey_LastUseIsStoredOncePerMinute(t *testing.T) {
	w := newWorld(t)
	created := w.createKey(nil)
	version := func() int {
		return w.count(`select xmin::text::int from api_keys where id = $1`, created.Id)
	}
	unused := version()
	w.keyWorks(created.GetSecretKey())
	first := version()
	w.now = w.now.Truncate(time.Minute).Add(time.Minute - time.Millisecond)
	w.keyWorks(created.GetSecretKey())
	if second := version(); first == unused || second != first {
		t.Errorf("row versions %d, %d, %d", unused, first, second)
	}
	w.now = w.now.Add(2 * time.Minute)
	w.keyWorks(created.GetSecretKey())
	if version() == first {
		t.Error("the use after a minute is not stored")
	}
}

func TestRollApiKey_OldSecretKeyWorksInTheGracePeriod(t *testing.T) {
	w := newWorld(t)
	old := w.createKey(nil)
	w.keyWorks(old.GetSecretKey())
	fresh, err := w.roll(old.Id, nil)
	if err != nil || fresh.Id == old.Id || fresh.Name != "server" || fresh.GetSecretKey() == "" || fresh.GetSecretKey() == old.GetSecretKey() ||
		fresh.PublicKey != nil || fresh.ExpiresAt != nil || fresh.LastUsedAt != nil {
		t.Fatalf("rolled %v, %v", fresh, err)
	}
	keys := w.keys().SecretKeys
	if len(keys) != 2 {
		t.Fatalf("listed %v", keys)
	}
	for _, key := range keys {
		want := (*timestamppb.Timestamp)(nil)
		if key.Id == old.Id {
			want = timestamppb.New(w.now.Add(24 * time.Hour))
		}
		if !proto.Equal(key.ExpiresAt, want) {
			t.Errorf("%s expires at %v, want %v", key.Id, key.ExpiresAt, want)
		}
	}
	_, err = w.roll(old.Id, nil)
	w.requireReason(err, affiliate.ReasonNotFound)
	w.now = w.now.Add(24*time.Hour - time.Millisecond)
	if !w.keyWorks(old.GetSecretKey()) || !w.keyWorks(fresh.GetSecretKey()) {
		t.Error("a key does not work within the grace period")
	}
	w.now = w.now.Add(time.Millisecond)
	if w.keyWorks(old.GetSecretKey()) || !w.keyWorks(fresh.GetSecretKey()) {
		t.Error("after the grace period only the new key must work")
	}

	at := w.now
	newest, err := w.roll(fresh.Id, proto.Int32(0))
	if err != nil || w.keyWorks(fresh.GetSecretKey()) || !w.keyWorks(newest.GetSecretKey()) {
		t.Errorf("without a grace period: %v", err)
	}
	_, err = w.roll(fresh.Id, nil)
	w.requireReason(err, affiliate.ReasonNotFound)
	if n := w.count(`select count(*) from api_keys where id = $1 and revoked_at = $2 and rolled_at = $2 and expires_at is null`, fresh.Id, at); n != 1 {
		t.Error("the key without a grace period is not revoked")
	}
	for _, id := range []string{"x", affiliate.NewID[affiliate.APIKey](w.now).String()} {
		_, err = w.roll(id, nil)
		w.requireReason(err, affiliate.ReasonNotFound)
	}
	_, err = w.service.RollApiKey(w.as(w.owner, affiliate.RoleOwner, affiliate.ModeLive), &affiliatev1.RollApiKeyRequest{KeyId: newest.Id})
	w.requireReason(err, affiliate.ReasonNotFound)
	if n := w.countAudit("api_key.roll"); n != 2 {
		t.Errorf("%d audit records", n)
	}
	if n := w.jobs(); n != 0 {
		t.Errorf("%d jobs for the edge directory, which has no secret keys", n)
	}
}

func TestRollApiKey_SuccessorHasTheSameExpiry(t *testing.T) {
	w := newWorld(t)
	soon, late := w.now.Add(time.Hour), w.now.Add(100*time.Hour)
	for _, tc := range []struct{ end, oldEnd time.Time }{
		{soon, soon},
		{late, w.now.Add(24 * time.Hour)},
	} {
		old := w.createKey(&tc.end)
		fresh, err := w.roll(old.Id, proto.Int32(24))
		if err != nil || !fresh.ExpiresAt.AsTime().Equal(tc.end) {
			t.Fatalf("rolled %v, %v", fresh, err)
		}
		if n := w.count(`select count(*) from api_keys where id = $1 and expires_at = $2`, old.Id, tc.oldEnd); n != 1 {
			t.Errorf("the old key, which expired at %v, must now expire at %v", tc.end, tc.oldEnd)
		}
	}
	expired := w.createKey(&soon)
	w.now = soon
	_, err := w.roll(expired.Id, nil)
	w.requireReason(err, affiliate.ReasonNotFound)
}

func TestRollApiKey_KeysInTheGracePeriodCount(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for range affiliate.MaxSecretKeys - 1 {
		ids = append(ids, w.createKey(nil).Id)
	}
	// Nine keys are rolled at the same time. Only one more key is allowed.
	var wg sync.WaitGroup
	results := make(chan error, len(ids))
	for _, id := range ids {
		wg.Go(func() {
			_, err := w.roll(id, nil)
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
	if n := len(w.keys().SecretKeys); rolled != 1 || n != affiliate.MaxSecretKeys {
		t.Errorf("%d rolled, %d keys", rolled, n)
	}
	if n := w.count(`select count(*) from api_keys where rolled_at is not null`); n != 1 {
		t.Errorf("%d keys are marked as rolled", n)
	}
	// Without a grace period, the old key does not count, so each key can be rolled.
	remaining := w.count(`select count(*) from api_keys where rolled_at is null`)
	for _, key := range w.keys().SecretKeys {
		if key.ExpiresAt == nil {
			if _, err := w.roll(key.Id, proto.Int32(0)); err != nil {
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
	w := newWorld(t)
	old := w.createKey(nil)
	var wg sync.WaitGroup
	results := make(chan error, 10)
	for range cap(results) {
		wg.Go(func() {
			_, err := w.roll(old.Id, nil)
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
		w.requireReason(err, affiliate.ReasonNotFound)
	}
	if n := len(w.keys().SecretKeys); rolled != 1 || n != 2 {
		t.Errorf("%d rolled, %d keys", rolled, n)
	}
}

func (w *world) publicKey() affiliate.NewAPIKey {
	w.t.Helper()
	key := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
	id, digest := affiliate.NewID[affiliate.APIKey](w.now), key.Digest()
	w.exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		values ($1, $2, 'test', 'public', 'Public key', $3, $4, $5, $6, $7)`,
		w.id, id, digest[:], key.Reveal(), key.Prefix(), key.Last4(), w.now)
	return affiliate.NewAPIKey{APIKey: affiliate.APIKey{ID: id, PublicText: key.Reveal()}, Digest: digest}
}

func TestRollApiKey_PublicKey(t *testing.T) {
	w := newWorld(t)
	old := w.publicKey()
	if keys := w.keys(); keys.PublicKey != old.PublicText || keys.PublicKeyId != old.ID.String() {
		t.Fatalf("before: %v", keys)
	}
	// The new key has the same creation time, so the time alone does not show which key is
	// newer.
	fresh, err := w.roll(old.ID.String(), proto.Int32(72))
	if err != nil || fresh.SecretKey != nil || fresh.GetPublicKey() == "" || fresh.Name != "Public key" {
		t.Fatalf("rolled %v, %v", fresh, err)
	}
	keys := w.keys()
	if keys.PublicKey != fresh.GetPublicKey() || keys.PublicKeyId != fresh.Id || len(keys.SecretKeys) != 0 {
		t.Errorf("after: %v", keys)
	}
	if w.jobs() != 1 || w.countAudit("api_key.roll") != 1 {
		t.Errorf("%d jobs, %d audit records", w.jobs(), w.countAudit("api_key.roll"))
	}
	publicKeys, err := w.store.WorkspacePublicKeys(t.Context(), w.id)
	if err != nil || len(publicKeys) != 2 {
		t.Errorf("the edge directory gets %v, %v", publicKeys, err)
	}
	w.now = w.now.Add(72*time.Hour - time.Millisecond)
	if !w.keyWorks(old.PublicText) {
		t.Error("the old key does not work within the grace period")
	}
	w.now = w.now.Add(time.Millisecond)
	if w.keyWorks(old.PublicText) || !w.keyWorks(fresh.GetPublicKey()) {
		t.Error("after the grace period only the new key must work")
	}
	_, err = w.roll(old.ID.String(), nil)
	w.requireReason(err, affiliate.ReasonNotFound)
}

func TestRevokeApiKey(t *testing.T) {
	w := newWorld(t)
	revoke := func(id string) error {
		_, err := w.service.RevokeApiKey(w.asOwner(), &affiliatev1.RevokeApiKeyRequest{KeyId: id})
		return err
	}
	key, public := w.createKey(nil), w.publicKey()
	_, err := w.service.RevokeApiKey(w.as(w.owner, affiliate.RoleOwner, affiliate.ModeLive), &affiliatev1.RevokeApiKeyRequest{KeyId: key.Id})
	w.requireReason(err, affiliate.ReasonNotFound)
	if err := revoke(key.Id); err != nil || w.keyWorks(key.GetSecretKey()) || len(w.keys().SecretKeys) != 0 {
		t.Errorf("revoked: %v", err)
	}
	for _, id := range []string{key.Id, public.ID.String(), "x", affiliate.NewID[affiliate.APIKey](w.now).String()} {
		w.requireReason(revoke(id), affiliate.ReasonNotFound)
	}
	_, err = w.roll(key.Id, nil)
	w.requireReason(err, affiliate.ReasonNotFound)
	if !w.keyWorks(public.PublicText) || w.countAudit("api_key.revoke") != 1 {
		t.Errorf("public key works: %v, %d audit records", w.keyWorks(public.PublicText), w.countAudit("api_key.revoke"))
	}
}
