package directory_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/directory"
	programservice "github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/servertest"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// fixture is a shop in live mode, and an edge directory in Redis.
type fixture struct {
	*pgtest.Shop
	client redis.UniversalClient
	writer *edge.Writer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureIn(t, redistest.New(t))
}

// newFixtureIn returns a fixture whose directory is in the Redis at redisURL.
func newFixtureIn(t *testing.T, redisURL string) *fixture {
	t.Helper()
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1 // no retries, like the service's own Redis clients
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	clock := pgtest.NewClock(time.Now().UTC().Truncate(time.Millisecond))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, pgtest.Row{
		"website_url": "https://a.example", "allowed_domains": []string{"a.example"},
		"attribution_window_days": 14, "attribution_model": program.FirstClick,
	})
	return &fixture{shop, client, edge.NewWriter(client)}
}

// join creates a partner and a participant with the referral code jane.
func (f *fixture) join() pgtest.Participant {
	f.Helper()
	return f.Join("Jane", pgtest.Row{"referral_code": "jane"})
}

// newKey inserts a public API key. changes change the columns.
func (f *fixture) newKey(changes ...pgtest.Row) account.Key {
	f.Helper()
	key := account.NewKey(account.PublicKey, f.Scope.Mode)
	digest := key.Digest()
	f.Insert("api_keys", append([]pgtest.Row{{
		"workspace_id": f.Scope.Workspace, "id": affiliate.NewID[affiliate.APIKeyID](f.Now()), "mode": f.Scope.Mode, "kind": "public", "name": "p",
		"digest": digest[:], "public_text": key.Reveal(), "prefix": key.Prefix(), "last4": key.Last4(), "created_at": f.Now(),
	}}, changes...)...)
	return key
}

// move changes the status of the programme.
func (f *fixture) move(to program.Status) error {
	service, owner := programservice.New(f.DB, f.Now), servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
	var err error
	switch id := f.Program.String(); to {
	case program.Active:
		_, err = service.ActivateProgram(owner, &affiliatev1.ActivateProgramRequest{ProgramId: id})
	case program.Paused:
		_, err = service.PauseProgram(owner, &affiliatev1.PauseProgramRequest{ProgramId: id})
	default:
		_, err = service.ArchiveProgram(owner, &affiliatev1.ArchiveProgramRequest{ProgramId: id})
	}
	return err
}

func (f *fixture) mustMove(to program.Status) {
	f.Helper()
	if err := f.move(to); err != nil {
		f.Fatalf("move the programme to %s: %v", to, err)
	}
}

func config() directory.Config {
	return directory.Config{
		SigningKeys: &edgev1.SigningKeys{Keys: []*edgev1.SigningKey{{Kid: "k1", Ed25519PublicKey: make([]byte, 32)}}},
		HashKeys:    &edgev1.HashKeys{Fingerprints: [][]byte{{1}, {2}}},
		Now:         time.Now, Log: slog.New(slog.DiscardHandler), Check: 20 * time.Millisecond,
	}
}

// keep runs a keeper until the test ends.
func (f *fixture) keep(cfg directory.Config) {
	f.Helper()
	keeper := directory.New(f.DB, f.writer, cfg)
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- keeper.Keep(ctx) }()
	f.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.Errorf("Keep: %v", err)
		}
	})
}

// sync writes the entries that job names to the directory. It sets the job's workspace.
func (f *fixture) sync(job affiliate.SyncDirectory) {
	f.Helper()
	job.Workspace = f.Scope.Workspace
	if err := directory.New(f.DB, f.writer, config()).Sync(f.Context(), job); err != nil {
		f.Fatalf("Sync of %+v: %v", job, err)
	}
}

// reader returns a reader with an empty cache.
func (f *fixture) reader() *edge.Reader { return edge.NewReader(f.client, time.Now) }

func (f *fixture) code(code string) (*edgev1.ReferralCodeEntry, edge.State) {
	return f.reader().ReferralCode(f.Context(), f.Scope, code)
}

// wantCode checks whether the code jane is active in the directory. when describes the
// time of the check.
func (f *fixture) wantCode(when string, active bool) {
	f.Helper()
	if entry, state := f.code("jane"); state != edge.Found || entry.Active != active {
		f.Errorf("%s the code is %v with the entry %v, want active = %t", when, state, entry, active)
	}
}

// waitUntilComplete waits until the directory is complete.
func (f *fixture) waitUntilComplete() {
	f.Helper()
	pgtest.Eventually(f, "the directory is complete", func() bool {
		complete, err := f.writer.Complete(f.Context())
		return err == nil && complete
	})
}

// flush removes all data from Redis.
func (f *fixture) flush() {
	f.Helper()
	if err := f.client.FlushDB(f.Context()).Err(); err != nil {
		f.Fatal(err)
	}
}
