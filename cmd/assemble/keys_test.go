package assemble_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// secret returns a key in base64 whose bytes are all n.
func secret(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }

const knownKeys = `select setting || ' ' || key_id || ' ' || encode(fingerprint, 'hex') || ' ' || is_first from key_fingerprints order by setting, key_id`

// A core starts with the keys of the database only. A refused start changes nothing.
func TestNewCore_RefusesWrongKeys(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	start := func(changes map[string]string) error {
		environ := []string{"TRIBUTARY_DATABASE_URL=" + f.URL, "TRIBUTARY_REDIS_URL=" + os.Getenv("TRIBUTARY_TEST_REDIS_URL")}
		for name, value := range map[string]string{"TRIBUTARY_JWT_KEYS": "k1:" + secret(1), "TRIBUTARY_ENCRYPTION_KEYS": "k1:" + secret(2), "TRIBUTARY_HASH_KEY": secret(3)} {
			if changed, ok := changes[name]; ok {
				value = changed
			}
			environ = append(environ, name+"="+value)
		}
		cfg, err := settings.Parse[settings.Core](environ)
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		core, err := assemble.NewCore(t.Context(), cfg, certificates.New(log), log, clock.New(time.Now))
		if core != nil {
			core.Close()
		}
		return err
	}
	for range 2 {
		if err := start(nil); err != nil {
			t.Fatal(err)
		}
	}
	f.WantCount(3, "known keys", `select count(*) from key_fingerprints where is_first`)
	before := f.Texts(knownKeys)
	for _, tc := range []struct{ setting, value, want string }{
		{"TRIBUTARY_JWT_KEYS", "k1:" + secret(9), "TRIBUTARY_JWT_KEYS: the key k1 is not the key with which this database was used; set the right key, or give a new key a new id; " +
			"if the right key is lost, run `core keys reset TRIBUTARY_JWT_KEYS`"},
		{"TRIBUTARY_ENCRYPTION_KEYS", "k1:" + secret(9), "TRIBUTARY_ENCRYPTION_KEYS: the key k1 is not the key with which this database was used; set the right key, or give a new key a new id; " +
			"if the right key is lost, run `core keys reset TRIBUTARY_ENCRYPTION_KEYS`"},
		{"TRIBUTARY_ENCRYPTION_KEYS", "k2:" + secret(9), "TRIBUTARY_ENCRYPTION_KEYS: the key is missing that was the first one at the latest start; " +
			"add it again, at the end of the list if a new key replaces it; if it is lost, run `core keys reset TRIBUTARY_ENCRYPTION_KEYS`"},
		{"TRIBUTARY_HASH_KEY", secret(9), "TRIBUTARY_HASH_KEY: the key is missing that was the first one at the latest start; " +
			"add it again, at the end of the list if a new key replaces it; if it is lost, run `core keys reset TRIBUTARY_HASH_KEY`"},
	} {
		if err := start(map[string]string{tc.setting: tc.value}); err == nil || err.Error() != tc.want {
			t.Errorf("a core with another key in %s starts with the error\n%v, want\n%s", tc.setting, err, tc.want)
		}
	}
	if after := f.Texts(knownKeys); !slices.Equal(after, before) {
		t.Errorf("after refused starts the known keys are %q, want %q", after, before)
	}

	rotated := map[string]string{"TRIBUTARY_JWT_KEYS": "k2:" + secret(4)}
	for _, keys := range []string{"%1,%2", "%2,%1", "%2"} {
		rotated["TRIBUTARY_ENCRYPTION_KEYS"] = strings.NewReplacer("%1", "k1:"+secret(2), "%2", "k2:"+secret(5)).Replace(keys)
		rotated["TRIBUTARY_HASH_KEY"] = strings.NewReplacer("%1", secret(3), "%2", secret(6)).Replace(keys)
		if err := start(rotated); err != nil {
			t.Errorf("a rotation with the keys %s: %v", keys, err)
		}
	}
	if err := start(nil); err == nil {
		t.Error("a core with the settings before the rotation starts")
	}
	f.WantCount(6, "known keys", `select count(*) from key_fingerprints`)
	if _, err := postgres.DeleteKeyFingerprints(t.Context(), f.DB, "TRIBUTARY_HASH_KEY"); err != nil {
		t.Fatal(err)
	}
	rotated["TRIBUTARY_HASH_KEY"] = secret(9)
	if err := start(rotated); err != nil {
		t.Errorf("a core with another hash key, after the loss of the key was accepted: %v", err)
	}
}

// Of cores with different keys that start on a new database at the same time, only those with
// the keys of the first one start.
func TestCheckKeys_ConcurrentStarts(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	var group sync.WaitGroup
	const cores = 8
	errs := make([]error, cores)
	for i := range errs {
		group.Go(func() {
			db, err := postgres.Open(t.Context(), postgres.Config{URL: f.URL, MaxConns: 1})
			if err != nil {
				errs[i] = err
				return
			}
			defer db.Close()
			errs[i] = assemble.CheckKeys(t.Context(), db, settings.HashKeys{bytes.Repeat([]byte{byte(i % 2)}, 32)}.SettingKeys())
		})
	}
	group.Wait()
	started := map[int]int{}
	for i, err := range errs {
		switch {
		case err == nil:
			started[i%2]++
		case !strings.HasPrefix(err.Error(), "TRIBUTARY_HASH_KEY: the key is missing"):
			t.Error(err)
		}
	}
	if len(started) != 1 || started[0]+started[1] != cores/2 {
		t.Errorf("%v cores started by their keys, want all %d with the keys of the first one", started, cores/2)
	}
	f.WantCount(1, "known keys", `select count(*) from key_fingerprints`)
}

// A start with the stored keys neither writes nor waits for a lock of the table.
func TestCheckKeys_UnchangedKeysWriteNothing(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	keys := settings.HashKeys{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}
	check := func(keys settings.HashKeys) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return assemble.CheckKeys(ctx, f.DB, keys.SettingKeys())
	}
	versions := func() []string {
		t.Helper()
		return f.Texts(`select key_id || ' ' || is_first || ' ' || xmin || ' ' || ctid from key_fingerprints order by key_id`)
	}
	if err := check(keys); err != nil {
		t.Fatal(err)
	}
	first := versions()
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `lock table key_fingerprints in share row exclusive mode`); err != nil {
		t.Fatal(err)
	}
	if err := check(keys); err != nil {
		t.Errorf("a start with the stored keys while the table is locked: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := versions(); len(first) != 2 || !slices.Equal(got, first) {
		t.Errorf("after a second start the rows are %q, want %q", got, first)
	}
	for _, changed := range []settings.HashKeys{{keys[1], keys[0]}, {keys[1], keys[0], bytes.Repeat([]byte{3}, 32)}} { // another order, and a further key
		before := versions()
		if err := check(changed); err != nil || slices.Equal(versions(), before) {
			t.Errorf("a start with the changed list of %d keys returned %v and left the rows %q", len(changed), err, before)
		}
	}
}
