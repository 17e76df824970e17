package affiliate_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// With the keys B and A, the digests of A are found, and new data gets the digests of B.
func TestHashKeys_MatchDigestsOfEarlierKeys(t *testing.T) {
	t.Parallel()
	keyA, keyB := []byte("key A"), []byte("key B")
	user, workspace := affiliatetest.ID[affiliate.UserID](1), affiliatetest.Scope.Workspace
	for name, digests := range map[string]func(keys affiliate.HashKeys) affiliate.Digests{
		"login": func(k affiliate.HashKeys) affiliate.Digests {
			return account.LoginSubject(k, affiliate.Partner, "a@shop.example")
		},
		"mail": func(k affiliate.HashKeys) affiliate.Digests { return notification.MailDigest(k, "a@shop.example") },
		"device": func(k affiliate.HashKeys) affiliate.Digests {
			return account.DeviceHash(k, user, "203.0.113.0/24", "agent")
		},
		"agent": func(k affiliate.HashKeys) affiliate.Digests {
			return fraud.AgentHash(k, "agent", affiliatetest.Noon)
		},
		"buyer": func(k affiliate.HashKeys) affiliate.Digests {
			return privacy.BuyerKeys(k).Sum(workspace, "kind", "value")
		},
		"email": func(k affiliate.HashKeys) affiliate.Digests {
			hashes, _, _ := privacy.BuyerKeys(k).Email(workspace, "a@shop.example")
			return hashes
		},
		"erased value": func(k affiliate.HashKeys) affiliate.Digests {
			return privacy.NewErasureKeys(k).Digests(affiliatetest.Scope, privacy.ErasedReferralCode, "code")
		},
	} {
		stored, next := digests(affiliate.HashKeys{keyA}).First(), digests(affiliate.HashKeys{keyB}).First()
		both := digests(affiliate.HashKeys{keyB, keyA})
		if !both.Has(stored) || !bytes.Equal(both.First(), next) || len(both) != 2 {
			t.Errorf("%s: with two keys, the digest of the earlier key matches: %t; %d digests", name, both.Has(stored), len(both))
		}
		if digests(affiliate.HashKeys{keyB}).Has(stored) {
			t.Errorf("%s: the digest matches without its key", name)
		}
	}
}

func TestUnsubscribeTokens_AcceptTokensOfEarlierKeys(t *testing.T) {
	t.Parallel()
	keyA, keyB := []byte("key A"), []byte("key B")
	user := affiliatetest.ID[affiliate.UserID](1)
	before, after := notification.NewUnsubscribeTokens(affiliate.HashKeys{keyA}), notification.NewUnsubscribeTokens(affiliate.HashKeys{keyB})
	both := notification.NewUnsubscribeTokens(affiliate.HashKeys{keyB, keyA})
	token := before.Token(user, notification.CategoryPayouts)
	if got, category, ok := both.Parse(token); !ok || got != user || category != notification.CategoryPayouts {
		t.Errorf("the token of the earlier key is %s, %s, %t", got, category, ok)
	}
	if _, _, ok := after.Parse(token); ok {
		t.Error("the token is valid without its key")
	}
	if _, _, ok := after.Parse(both.Token(user, notification.CategoryPayouts)); !ok {
		t.Error("a new token is not signed with the first key")
	}
}

func TestIdempotencyKey_IsOfRequestsUnderEarlierKeys(t *testing.T) {
	t.Parallel()
	key := affiliate.IdempotencyKey{Fingerprint: []byte{1}, Earlier: affiliate.Digests{{2}}}
	for fingerprint, want := range map[byte]bool{1: true, 2: true, 3: false} {
		if got := key.IsOf([]byte{fingerprint}); got != want {
			t.Errorf("fingerprint %d: %t, want %t", fingerprint, got, want)
		}
	}
}

func TestBuyerErasure_JoinAddsDigestsOfNewKeys(t *testing.T) {
	t.Parallel()
	a, b := []byte("digest under A"), []byte("digest under B")
	e := privacy.BuyerErasure{Workspace: affiliatetest.Scope.Workspace, Identity: privacy.BuyerIdentity{Kind: privacy.BuyerEmail, Digests: affiliate.Digests{a}}}
	joined, err := e.Join(privacy.BuyerIdentity{Kind: privacy.BuyerEmail, Digests: affiliate.Digests{b, a}}, affiliatetest.Noon.Add(time.Hour))
	if err != nil || !slices.EqualFunc(joined.Identity.Digests, affiliate.Digests{b, a}, bytes.Equal) {
		t.Errorf("the digests are %q, %v, want those of both keys", joined.Identity.Digests, err)
	}
	entries := joined.Entries()
	if len(entries) != 2 {
		t.Fatalf("%d entries in the log, want 2", len(entries))
	}
	for i, want := range [][]byte{b, a} {
		if identity, ok := privacy.BuyerOfEntry(entries[i]); !ok || len(identity.Digests) != 1 || !bytes.Equal(identity.Digests.First(), want) {
			t.Errorf("entry %d has the identity %q, %t, want %q", i, identity.Digests, ok, want)
		}
	}
}

// firstOnly matches a call that uses only the first hash key, or only the digest under it.
var firstOnly = regexp.MustCompile(`(?i)(\w*keys(\(\))?|\w*digests|fingerprints|hashes|signatures\(\w+\)|device|subject|address|(mail|login|agent|device|address)\w*\([^\n]*\)|sum\([^\n]*\))\.First\(\)`)

// usesOfFirst are the files that use only the first key, with the reason.
var usesOfFirst = map[string]string{
	"affiliate/account/account.go":                    "the set-up code is not stored: a core logs that of its first key at each start",
	"affiliate/notification/preference.go":            "signs a token",
	"cmd/assemble/core.go":                            "rate limits, which last an hour at most",
	"cmd/assemble/landing.go":                         "rate limits",
	"cmd/edge/edge.go":                                "a collector only stores hashes; rate limits",
	"server/account/session.go":                       "stores a hash",
	"server/account/verify.go":                        "stores a digest",
	"server/conversion/convert.go":                    "stores hashes",
	"server/conversion/recorder.go":                   "stores a fingerprint, and passes the others on",
	"server/mail/service.go":                          "stores digests",
	"server/mail/worker.go":                           "stores a digest",
	"server/privacy/buyer/service.go":                 "stores a fingerprint",
	"server/privacy/buyer/steps.go":                   "stores digests",
	"storage/postgres/account/session.go":             "stores a digest and a hash, and searches all",
	"storage/postgres/conversion/erased.go":           "stores a digest",
	"storage/postgres/conversion/erased_processor.go": "replaces ids of a sale of which none was replaced before",
	"storage/postgres/privacy/participant.go":         "stores digests",
	"storage/postgres/mail/mail.go":                   "stores a digest, and searches all",
	"test/load/naive/main.go":                         "rate limits",
}

// A look-up with only the first key does not find data that was stored before a rotation. If this
// test fails because of a new file, check that it only stores data, and add it.
func TestHashKeys_FirstIsOnlyUsedForNewData(t *testing.T) {
	t.Parallel()
	root := os.DirFS("..")
	found := map[string]string{}
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"node_modules", ".git", "gen"}, entry.Name()) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(root, path)
		if err != nil || !bytes.Contains(source, []byte(".First()")) {
			return err
		}
		if match := firstOnly.Find(source); match != nil {
			found[path] = string(match)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if _, ok := usesOfFirst[path]; !ok {
			t.Errorf("%s uses only the first hash key: %s", path, found[path])
		}
	}
	for path := range usesOfFirst {
		if found[path] == "" {
			t.Errorf("%s does not use the first hash key any more", path)
		}
	}
}
