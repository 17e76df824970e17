package testmode_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The records of live mode and of other workspaces stay.
func TestDeleteTestData_DeletesClicksThatCouldNotBeStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	testKey, liveKey := account.NewKey(account.PublicKey, affiliate.ModeTest), account.NewKey(account.PublicKey, affiliate.ModeLive)
	for mode, key := range map[affiliate.Mode]account.Key{affiliate.ModeTest: testKey, affiliate.ModeLive: liveKey} {
		digest := key.Digest()
		f.Insert("api_keys", pgtest.Row{
			"workspace_id": f.Scope.Workspace, "id": affiliate.NewID[affiliate.APIKeyID](f.Now()), "mode": mode, "kind": "public", "name": "Shop",
			"digest": digest[:], "public_text": key.Reveal(), "prefix": key.Prefix(), "last4": key.Last4(), "created_at": f.Now(),
		})
	}
	other := f.NewShop(affiliate.ModeTest).Scope.Workspace
	var letters []clickstream.DeadLetter
	for reason, click := range map[string]*edgev1.Click{
		"test":     {Mode: edgev1.Mode_MODE_TEST, WorkspaceId: f.Scope.Workspace.UUID[:]},
		"live":     {Mode: edgev1.Mode_MODE_LIVE, WorkspaceId: f.Scope.Workspace.UUID[:]},
		"test key": {Mode: edgev1.Mode_MODE_TEST, PublicKey: testKey.Reveal()},
		"live key": {Mode: edgev1.Mode_MODE_LIVE, PublicKey: liveKey.Reveal()},
		"other":    {Mode: edgev1.Mode_MODE_TEST, WorkspaceId: other.UUID[:]},
	} {
		record, err := proto.Marshal(click)
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, clickstream.DeadLetter{Entry: "1-1", Reason: reason, Record: record})
	}
	reader := clickstream.NewReader(f.redis, f.redis, clickstream.ReaderConfig{Shards: 1, Consumer: "test"})
	if err := reader.DeadLetter(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	f.mustReset()
	messages, err := f.redis.XRange(t.Context(), clickstream.DeadLetterStream, "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, message := range messages {
		left = append(left, message.Values["reason"].(string))
	}
	slices.Sort(left)
	if want := []string{"live", "live key", "other"}; !slices.Equal(left, want) {
		t.Errorf("the records %q are left, want %q", left, want)
	}
}
