package directory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/servertest"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestKeep_FillsEmptyAndLostDirectory(t *testing.T) {
	f := newFixture(t)
	participant := f.join()
	valid, revoked := f.newKey(), f.newKey(pgtest.Row{"revoked_at": f.Now()})
	// 2,500 codes are more than two pages. Each code has its own link.
	f.Exec(`
		with new_links as (
			insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
			select $1, gen_random_uuid(), $3, $4, $2, 'code-' || n, 'key' || lpad(n::text, 7, '0'), 'https://a.example/' || n, false, $5, $5
			from generate_series(1, 2500) n
			returning id, code
		)
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select $1, $2, code, $3, $4, id, $5 from new_links`, f.Scope.Workspace, f.Scope.Mode, f.Program, participant.ID, f.Now())
	f.keep(config())

	for _, situation := range []string{"an empty directory", "a directory that lost its data"} {
		f.waitUntilComplete()
		for _, code := range []string{"jane", "JANE", "code-1", "code-2500"} {
			got, state := f.code(code)
			want := &edgev1.ReferralCodeEntry{
				ProgramId: f.Program.UUID[:], ParticipantId: participant.ID.UUID[:], LinkId: got.GetLinkId(),
				AttributionWindowDays: 14, AttributionModel: "first_click", Active: true,
			}
			if state != edge.Found || !proto.Equal(got, want) || len(got.LinkId) != 16 {
				t.Errorf("%s: the code %s is %v with the entry %v\nwant %v with a link", situation, code, state, got, want)
			}
		}
		reader := f.reader()
		for _, n := range []int{1, 1000, 2500} {
			got, state := reader.Link(t.Context(), fmt.Sprintf("key%07d", n))
			want := &edgev1.LinkEntry{
				WorkspaceId: f.Scope.Workspace.UUID[:], Mode: edgev1.Mode_MODE_LIVE, LinkId: got.GetLinkId(), ProgramId: f.Program.UUID[:],
				ParticipantId: participant.ID.UUID[:], ReferralCode: fmt.Sprintf("code-%d", n),
				TargetUrl:             fmt.Sprintf("https://a.example/%d?via=code-%d", n, n),
				AttributionWindowDays: 14, Active: true,
			}
			if state != edge.Found || !proto.Equal(got, want) {
				t.Errorf("%s: the link %d is %v with the entry %v\nwant %v", situation, n, state, got, want)
			}
		}
		if _, state := reader.Link(t.Context(), "key0002501"); state != edge.Absent {
			t.Errorf("%s: an unknown link is %v, want %v", situation, state, edge.Absent)
		}
		if _, state := f.code("unknown"); state != edge.Absent {
			t.Errorf("%s: an unknown code is %v, want %v", situation, state, edge.Absent)
		}
		want := &edgev1.PublicKeyEntry{WorkspaceId: f.Scope.Workspace.UUID[:], Mode: edgev1.Mode_MODE_LIVE}
		if got, state := reader.PublicKey(t.Context(), valid.Digest()); state != edge.Found || !proto.Equal(got, want) {
			t.Errorf("%s: the valid key is %v with the entry %v\nwant %v", situation, state, got, want)
		}
		if entry, state := reader.PublicKey(t.Context(), revoked.Digest()); state == edge.Found && !entry.Revoked {
			t.Errorf("%s: the revoked key has the entry %v, want no entry or an entry with revoked = true", situation, entry)
		}
		if keys, state := reader.SigningKeys(t.Context()); state != edge.Found || len(keys.Keys) != 1 {
			t.Errorf("%s: the signing keys are %v with %v, want one key", situation, state, keys)
		}
		if keys, state := reader.HashKeys(t.Context()); state != edge.Found || len(keys.Fingerprints) != 2 {
			t.Errorf("%s: the hash keys are %v with %v, want two fingerprints", situation, state, keys)
		}
		f.flush()
	}
}

func TestSync_WritesChanges(t *testing.T) {
	f := newFixture(t)
	participant := f.join()
	f.sync(affiliate.SyncDirectory{Participant: &participant.ID})
	f.wantCode("after the application", true)
	for _, to := range []program.Status{program.Paused, program.Active, program.Archived} {
		f.mustMove(to)
		f.sync(affiliate.SyncDirectory{Program: &f.Program})
		f.wantCode("after the programme became "+string(to), to == program.Active)
	}
	key := f.newKey()
	for _, revoked := range []bool{false, true} {
		if revoked {
			f.Exec(`update api_keys set revoked_at = $1`, f.Now())
		}
		f.sync(affiliate.SyncDirectory{})
		if entry, state := f.reader().PublicKey(t.Context(), key.Digest()); state != edge.Found || entry.Revoked != revoked {
			t.Errorf("the key is %v with the entry %v, want revoked = %t", state, entry, revoked)
		}
	}
}

// An erasure deletes the codes of a participant from the directory and replaces their texts
// in the database afterwards. A writer that reads the texts in between must not write them.
func TestSync_DeletesCodesOfErasedParticipants(t *testing.T) {
	f := newFixture(t)
	erased := f.join()
	f.Join("Bert", pgtest.Row{"referral_code": "bert"})
	f.sync(affiliate.SyncDirectory{Program: &f.Program})
	f.Exec(`update participants set erased_at = $1 where id = $2`, f.Now(), erased.ID)
	var link string
	if err := f.SQL.QueryRow(t.Context(), `select short_key from links where id = $1`, erased.Link).Scan(&link); err != nil {
		t.Fatal(err)
	}
	keeper := directory.New(f.DB, f.writer, config())
	if err := keeper.DeleteCodes(t.Context(), privacy.DirectoryCodes{Scope: f.Scope, Codes: []string{"jane"}, Links: []string{link}}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if _, state := f.code("jane"); state != edge.Absent {
			t.Errorf("%s the state of the erased code is %v, want Absent", when, state)
		}
		if entry, state := f.code("bert"); state != edge.Found || !entry.Active {
			t.Errorf("%s the state of the other code is %v with the entry %v, want Found and active", when, state, entry)
		}
		for _, text := range []string{"jane", link} {
			for _, key := range f.client.Keys(t.Context(), "*"+text+"*").Val() {
				if left := f.client.TTL(t.Context(), key).Val(); left <= 0 {
					t.Errorf("%s %s does not expire", when, key)
				}
			}
		}
	}
	f.sync(affiliate.SyncDirectory{Participant: &erased.ID})
	check("after the job of the participant")
	f.sync(affiliate.SyncDirectory{Program: &f.Program})
	check("after the job of the programme")
	f.keep(config())
	f.waitUntilComplete()
	check("after a rebuild")
}

// Several writers and sweeps run in parallel, in any order. At the end the directory has
// the state of the database.
func TestSync_ParallelWritersEndWithNewestState(t *testing.T) {
	f := newFixture(t)
	f.join()
	cfg := config()
	cfg.Sweep = time.Millisecond
	f.keep(cfg)
	keeper := directory.New(f.DB, f.writer, cfg)
	var activated, paused atomic.Int64
	for range 10 {
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				to, succeeded := program.Active, &activated
				if i%2 == 1 {
					to, succeeded = program.Paused, &paused
				}
				// A refused move changes nothing, so there is nothing to write.
				if err := f.move(to); errors.Is(err, affiliate.Refuse(affiliate.ReasonProgramStateInvalid)) {
					return
				} else if err != nil {
					t.Errorf("move the programme to %s: %v", to, err)
					return
				}
				succeeded.Add(1)
				if err := keeper.Sync(t.Context(), affiliate.SyncDirectory{Workspace: f.Scope.Workspace, Program: &f.Program}); err != nil {
					t.Errorf("Sync: %v", err)
				}
			})
		}
		calls.Wait()
		p, err := programs.Get(t.Context(), f.DB, f.Scope, f.Program)
		if err != nil {
			t.Fatal(err)
		}
		f.wantCode("after parallel changes to "+string(p.Status), p.Status == program.Active)
	}
	if activated.Load() == 0 || paused.Load() == 0 {
		t.Errorf("%d activations and %d pauses succeeded, want some of both", activated.Load(), paused.Load())
	}
}

func TestKeep_SeveralKeepersFillOneDirectory(t *testing.T) {
	f := newFixture(t)
	f.join()
	for range 3 {
		f.keep(config())
	}
	for range 5 {
		f.waitUntilComplete()
		f.wantCode("in the complete directory", true)
		f.flush()
	}
}

// errorNotifier is a log handler that calls notify for each logged error.
type errorNotifier struct {
	slog.Handler
	notify func()
}

func (h errorNotifier) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

func (h errorNotifier) Handle(context.Context, slog.Record) error { h.notify(); return nil }

// No job runs in this test, as if the job of the change had failed in all its attempts.
// The sweep after the outage writes the change.
func TestKeep_SweepsAfterOutage(t *testing.T) {
	server := redistest.Start(t)
	f := newFixtureIn(t, server.URL)
	f.join()
	var logged atomic.Bool
	cfg := config()
	cfg.Log = slog.New(errorNotifier{slog.DiscardHandler, func() { logged.Store(true) }})
	f.keep(cfg)
	f.waitUntilComplete()
	server.Kill9()
	f.mustMove(program.Paused)
	pgtest.Eventually(t, "the outage is logged", logged.Load)
	server.Restart()
	pgtest.Eventually(t, "the code is inactive", func() bool {
		entry, state := f.code("jane")
		return state == edge.Found && !entry.Active
	})
}

func TestWorker_WritesChanges(t *testing.T) {
	f := newFixture(t)
	workers := river.NewWorkers()
	river.AddWorker(workers, directory.NewRegions(directory.New(f.DB, f.writer, config()), nil).Worker())
	f.StartWorkers(&river.Config{
		Queues:  map[string]river.QueueConfig{affiliate.DirectoryQueue: {MaxWorkers: 4}},
		Workers: workers,
	})
	partner := f.NewPartner("Jane")
	application := &affiliatev1.ApplyRequest{ProgramId: f.Program.String(), ReferralCode: new("jane")}
	service := participant.New(participant.Config{DB: f.DB, Now: f.Now})
	if _, err := service.Apply(servertest.AsPartner(t, partner, f.Scope.Mode), application); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "the code is in the directory", func() bool {
		_, state := f.code("jane")
		return state == edge.Found
	})
	f.mustMove(program.Paused)
	pgtest.Eventually(t, "the code is inactive", func() bool {
		entry, state := f.code("jane")
		return state == edge.Found && !entry.Active
	})
}
