package directory_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/directory"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// world is a workspace with one active programme in Postgres, and an edge directory in
// Redis.
type world struct {
	*pgtest.Fixture
	t       *testing.T
	client  redis.UniversalClient
	writer  *edge.Writer
	scope   affiliate.Scope
	user    affiliate.UserID
	program affiliate.ProgramID
	now     time.Time
}

func newWorld(t *testing.T, redisURL string) *world {
	t.Helper()
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1 // no retries, like the service's own Redis clients
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	w := &world{t: t, client: client, writer: edge.NewWriter(client), now: time.Now().UTC().Truncate(time.Millisecond)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.user = affiliate.NewID[affiliate.User](w.now)
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}
	w.program = w.NewProgram(w.scope, pgtest.Row{
		"website_url": "https://a.example", "allowed_domains": []string{"a.example"},
		"attribution_window_days": 14, "attribution_model": affiliate.FirstClick,
	})
	return w
}

// join makes a partner a participant with the given code.
func (w *world) join(code string) affiliate.Participant {
	w.t.Helper()
	partner := w.NewPartner("Jane")
	p, err := w.Store.Apply(w.t.Context(), affiliate.Application{Program: w.program, Partner: partner, Mode: w.scope.Mode, ReferralCode: code}, w.now, affiliate.Actor{User: &partner})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) key() affiliate.Key {
	w.t.Helper()
	key := affiliate.NewKey(affiliate.PublicKey, w.scope.Mode)
	digest := key.Digest()
	w.Exec(`insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		values ($1, $2, $3, 'public', 'p', $4, $5, $6, $7, $8)`,
		w.scope.Workspace, affiliate.NewID[affiliate.APIKey](w.now), w.scope.Mode, digest[:], key.Reveal(), key.Prefix(), key.Last4(), w.now)
	return key
}

func (w *world) move(to affiliate.ProgramStatus) error {
	_, err := w.Store.MoveProgram(w.t.Context(), w.scope, w.program, to, w.now, affiliate.Actor{User: &w.user})
	return err
}

func (w *world) config() directory.Config {
	return directory.Config{
		SigningKeys: &edgev1.SigningKeys{Keys: []*edgev1.SigningKey{{Kid: "k1", Ed25519PublicKey: make([]byte, 32)}}},
		Now:         time.Now, Log: slog.New(slog.DiscardHandler), Check: 20 * time.Millisecond,
	}
}

// keep runs a keeper until the test ends.
func (w *world) keep(cfg directory.Config) {
	w.t.Helper()
	keeper := directory.New(w.Store, w.writer, cfg)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- keeper.Keep(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Keep: %v", err)
		}
	})
}

// code reads a referral code from the directory, as a collector with an empty cache does.
func (w *world) code(code string) (*edgev1.ReferralCodeEntry, edge.State) {
	return edge.NewReader(w.client, time.Now).ReferralCode(w.t.Context(), w.scope, code)
}

func (w *world) eventually(name string, condition func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 20 s: %s", name)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (w *world) complete() bool {
	complete, err := w.writer.Complete(w.t.Context())
	return err == nil && complete
}

func TestKeep_FillsEmptyAndLostDirectory(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	participant := w.join("jane")
	live, revoked := w.key(), w.key()
	w.Exec(`update api_keys set revoked_at = $2 where public_text = $1`, revoked.Reveal(), w.now)
	// 2,500 codes are more than two pages. Each code has its own link.
	w.Exec(`
		with made as (
			insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
			select $1, gen_random_uuid(), $3, $4, $2, 'code-' || n, 'key' || lpad(n::text, 7, '0'), 'https://a.example/' || n, false, $5, $5
			from generate_series(1, 2500) n
			returning id, code
		)
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select $1, $2, code, $3, $4, id, $5 from made`, w.scope.Workspace, w.scope.Mode, w.program, participant.ID, w.now)
	w.keep(w.config())

	for _, occasion := range []string{"an empty directory", "a directory that lost its data"} {
		w.eventually(occasion+" is filled", w.complete)
		for _, code := range []string{"jane", "JANE", "code-1", "code-2500"} {
			entry, state := w.code(code)
			if state != edge.Found || !entry.Active || entry.AttributionWindowDays != 14 || entry.AttributionModel != "first_click" ||
				string(entry.ProgramId) != string(w.program.UUID[:]) || string(entry.ParticipantId) != string(participant.ID.UUID[:]) || len(entry.LinkId) != 16 {
				t.Errorf("%s: %s is %v, %v", occasion, code, entry, state)
			}
		}
		reader := edge.NewReader(w.client, time.Now)
		for _, n := range []string{"1", "1000", "2500"} {
			entry, state := reader.Link(t.Context(), "key"+strings.Repeat("0", 7-len(n))+n)
			if state != edge.Found || !entry.Active || entry.TargetUrl != "https://a.example/"+n+"?via=code-"+n || entry.ReferralCode != "code-"+n ||
				entry.Mode != edgev1.Mode_MODE_LIVE || string(entry.WorkspaceId) != string(w.scope.Workspace.UUID[:]) || entry.AttributionWindowDays != 14 {
				t.Errorf("%s: link %s is %v, %v", occasion, n, entry, state)
			}
		}
		if _, state := reader.Link(t.Context(), "key0002501"); state != edge.Absent {
			t.Errorf("%s: an unknown link is %v", occasion, state)
		}
		if _, state := w.code("unknown"); state != edge.Absent {
			t.Errorf("%s: an unknown code is %v", occasion, state)
		}
		if entry, state := reader.PublicKey(t.Context(), live.Digest()); state != edge.Found || entry.Revoked || entry.Mode != edgev1.Mode_MODE_LIVE ||
			string(entry.WorkspaceId) != string(w.scope.Workspace.UUID[:]) {
			t.Errorf("%s: the live key is %v, %v", occasion, entry, state)
		}
		if entry, state := reader.PublicKey(t.Context(), revoked.Digest()); state == edge.Found && !entry.Revoked {
			t.Errorf("%s: the revoked key is %v", occasion, entry)
		}
		if keys, state := reader.SigningKeys(t.Context()); state != edge.Found || len(keys.Keys) != 1 {
			t.Errorf("%s: signing keys are %v, %v", occasion, keys, state)
		}
		if err := w.client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSync_WritesChanges(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	keeper := directory.New(w.Store, w.writer, w.config())
	sync := func(job affiliate.SyncDirectory) {
		t.Helper()
		job.Workspace = w.scope.Workspace
		if err := keeper.Sync(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	participant := w.join("jane")
	sync(affiliate.SyncDirectory{Participant: &participant.ID})
	if entry, state := w.code("jane"); state != edge.Found || !entry.Active {
		t.Fatalf("after the application %v, %v", entry, state)
	}
	for _, to := range []affiliate.ProgramStatus{affiliate.ProgramPaused, affiliate.ProgramActive, affiliate.ProgramArchived} {
		if err := w.move(to); err != nil {
			t.Fatal(err)
		}
		sync(affiliate.SyncDirectory{Program: &w.program})
		if entry, state := w.code("jane"); state != edge.Found || entry.Active != (to == affiliate.ProgramActive) {
			t.Errorf("%s: %v, %v", to, entry, state)
		}
	}
	key := w.key()
	for _, revoked := range []bool{false, true} {
		if revoked {
			w.Exec(`update api_keys set revoked_at = $1`, w.now)
		}
		sync(affiliate.SyncDirectory{})
		if entry, state := edge.NewReader(w.client, time.Now).PublicKey(t.Context(), key.Digest()); state != edge.Found || entry.Revoked != revoked {
			t.Errorf("revoked %v: %v, %v", revoked, entry, state)
		}
	}
}

// Several writers and sweeps run in parallel, in any order. At the end the directory has
// the state of the database.
func TestSync_ParallelWritersEndWithNewestState(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	w.join("jane")
	cfg := w.config()
	cfg.Sweep = time.Millisecond
	w.keep(cfg)
	keeper := directory.New(w.Store, w.writer, cfg)
	for range 10 {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				to := []affiliate.ProgramStatus{affiliate.ProgramActive, affiliate.ProgramPaused}[i%2]
				// A move that fails changes nothing, so there is nothing to write.
				if w.move(to) == nil {
					if err := keeper.Sync(t.Context(), affiliate.SyncDirectory{Workspace: w.scope.Workspace, Program: &w.program}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		p, err := w.Store.Program(t.Context(), w.scope, w.program)
		if err != nil {
			t.Fatal(err)
		}
		if entry, state := w.code("jane"); state != edge.Found || entry.Active != (p.Status == affiliate.ProgramActive) {
			t.Fatalf("the programme is %s, the directory has %v, %v", p.Status, entry, state)
		}
	}
}

func TestKeep_SeveralKeepersFillOneDirectory(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	w.join("jane")
	for range 3 {
		w.keep(w.config())
	}
	for range 5 {
		w.eventually("complete", w.complete)
		if _, state := w.code("jane"); state != edge.Found {
			t.Errorf("jane is %v", state)
		}
		if err := w.client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// onError is a log handler that calls call for each logged error.
type onError struct {
	slog.Handler
	call func()
}

func (h onError) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (h onError) Handle(context.Context, slog.Record) error { h.call(); return nil }

// No job runs in this test, as if the job of the change had failed in all its attempts.
// The sweep after the outage writes the change.
func TestKeep_SweepsAfterOutage(t *testing.T) {
	server := redistest.Start(t)
	w := newWorld(t, server.URL)
	w.join("jane")
	var logged atomic.Bool
	cfg := w.config()
	cfg.Log = slog.New(onError{slog.DiscardHandler, func() { logged.Store(true) }})
	w.keep(cfg)
	w.eventually("complete", w.complete)
	server.Kill9()
	if err := w.move(affiliate.ProgramPaused); err != nil {
		t.Fatal(err)
	}
	w.eventually("the outage is logged", func() bool { return logged.Load() })
	server.Restart()
	w.eventually("the code is inactive", func() bool {
		entry, state := w.code("jane")
		return state == edge.Found && !entry.Active
	})
}

func TestWorker_WritesChanges(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	keeper := directory.New(w.Store, w.writer, w.config())
	workers := river.NewWorkers()
	river.AddWorker(workers, keeper.Worker())
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[affiliate.CancelDeliveries]) error { return nil }))
	client, err := w.Store.WorkerClient(&river.Config{
		Queues:  map[string]river.QueueConfig{affiliate.DirectoryQueue: {MaxWorkers: 4}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Stop(context.WithoutCancel(t.Context())) })

	w.join("jane")
	w.eventually("the code is in the directory", func() bool { _, state := w.code("jane"); return state == edge.Found })
	if err := w.move(affiliate.ProgramPaused); err != nil {
		t.Fatal(err)
	}
	w.eventually("the code is inactive", func() bool { entry, state := w.code("jane"); return state == edge.Found && !entry.Active })
}
