package assemble_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestNewCore_ChecksSchemaVersion(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, test := range []struct {
		name, change, wantError, wantLog string
	}{
		{name: "the schema of this binary"},
		{
			name: "an older schema", change: `delete from goose_db_version where version_id = (select max(version_id) from goose_db_version)`,
			wantError: "run `core migrate` first",
		},
		{
			name: "a migration that was rolled back", change: `insert into goose_db_version (version_id, is_applied) select max(version_id), false from goose_db_version`,
			wantError: "run `core migrate` first",
		},
		{name: "no schema", change: `drop table goose_db_version`, wantError: "run `core migrate` first"},
		{
			name: "a newer schema", change: `insert into goose_db_version (version_id, is_applied) values (9999, true)`,
			wantLog: `"level":"WARN","msg":"the schema is newer than this core: upgrade the core","schema":9999,`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := pgtest.Open(t, time.Now)
			if test.change != "" {
				f.Exec(test.change)
			}
			cfg, err := settings.Parse[settings.Core]([]string{
				"TRIBUTARY_DATABASE_URL=" + f.URL, "TRIBUTARY_REDIS_URL=" + os.Getenv("TRIBUTARY_TEST_REDIS_URL"), "TRIBUTARY_JWT_KEYS=k:" + key,
				"TRIBUTARY_HASH_KEY=" + key, "TRIBUTARY_ENCRYPTION_KEYS=k:" + key,
			})
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			core, err := assemble.NewCore(t.Context(), cfg, certificates.New(slog.New(slog.DiscardHandler)), slog.New(slog.NewJSONHandler(&log, nil)), clock.New(time.Now))
			if core != nil {
				core.Close()
			}
			if test.wantError == "" && err != nil || test.wantError != "" && (err == nil || !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("got the error %v, want %q", err, test.wantError)
			}
			if !strings.Contains(log.String(), test.wantLog) || test.wantLog == "" && strings.Contains(log.String(), "schema") {
				t.Errorf("got the log %q, want %q", &log, test.wantLog)
			}
		})
	}
}

// A core refuses to start on a machine with a wrong clock. It compares the clock with that of
// Postgres before it writes anything.
func TestNewCore_RefusesWrongClock(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	f := pgtest.Open(t, time.Now)
	cfg, err := settings.Parse[settings.Core]([]string{
		"TRIBUTARY_DATABASE_URL=" + f.URL, "TRIBUTARY_REDIS_URL=" + os.Getenv("TRIBUTARY_TEST_REDIS_URL"), "TRIBUTARY_JWT_KEYS=k:" + key,
		"TRIBUTARY_HASH_KEY=" + key, "TRIBUTARY_ENCRYPTION_KEYS=k:" + key,
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	process := clock.New(func() time.Time { return time.Now().Add(time.Hour) })
	core, err := assemble.NewCore(t.Context(), cfg, certificates.New(log), log, process)
	if core != nil {
		core.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "ahead of the clock of Postgres (maximum: 30s)") {
		t.Errorf("a core whose clock is an hour ahead starts with the error %v", err)
	}
	if ahead := time.Until(process.Now()).Abs(); ahead > time.Minute {
		t.Errorf("the clock of the process is still %s ahead", ahead)
	}
}
