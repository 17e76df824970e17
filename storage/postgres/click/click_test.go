package click_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// clicksOf returns n new clicks of a workspace. Their optional field sub_id is empty.
func clicksOf(workspace affiliate.WorkspaceID, n int) []click.Click {
	now := time.Now().UTC().Truncate(time.Millisecond)
	clicks := make([]click.Click, n)
	for i := range clicks {
		id := affiliate.NewID[affiliate.ClickID](now)
		clicks[i] = click.Click{
			ID: id, Scope: affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive},
			Program: affiliate.NewID[affiliate.ProgramID](now), Participant: affiliate.NewID[affiliate.ParticipantID](now), Link: affiliate.NewID[affiliate.LinkID](now),
			ReferralCode: "anna", ClickedAt: now, ReceivedAt: now, ExpiresAt: click.WindowEnd(now, 30), CreatedAt: now,
			LandingURL: "https://shop.example/", ReferrerDomain: "news.example", UTM: click.UTM{Source: "mail"},
			Consent: click.ConsentGranted, Language: "de", Screen: "1x1", IPHash: []byte("0123456789abcdef"), IPPrefix: "203.0.113.0/24", UAHash: []byte("0123456789abcdef"),
		}
	}
	return clicks
}

func TestStoreClicks_KeepsFirstWrite(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	ctx := t.Context()
	stored := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), 300)
	if err := clicks.Store(ctx, f.DB, stored[:200]); err != nil {
		t.Fatal(err)
	}
	// Store the last 200 clicks with another referral code. The first 100 of them are
	// already stored, and one click is twice in the batch.
	repeated := append([]click.Click{stored[299]}, stored[100:]...)
	for i := range repeated {
		repeated[i].ReferralCode = "bert"
	}
	if err := clicks.Store(ctx, f.DB, repeated); err != nil {
		t.Fatal(err)
	}
	rows, anna := f.Count(`select count(*) from clicks`), f.Count(`select count(*) from clicks where referral_code = 'anna'`)
	nulls := f.Count(`select count(*) from clicks
		where sub_id is null and bot_reason is null and not is_bot and occurred_at is null and landing_url is not null`)
	if rows != 300 || anna != 200 || nulls != 300 {
		t.Errorf("%d rows, %d with the code of the first write, %d with null in every empty column, want 300, 200 and 300", rows, anna, nulls)
	}
}

func TestStoreClicks_ReportsBadDataAsDataError(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	ctx := t.Context()
	stored := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), 3)
	stored[1].SubID = "nul\x00"
	var data *clicks.DataError
	if err := clicks.Store(ctx, f.DB, stored); !errors.As(err, &data) {
		t.Errorf("StoreClicks with a NUL character returned %v, want a DataError", err)
	}
	stored[1].SubID, stored[1].Program = "", affiliate.ProgramID{}
	if err := clicks.Store(ctx, f.DB, stored); !errors.As(err, &data) {
		t.Errorf("StoreClicks without a programme returned %v, want a DataError", err)
	}
	if rows := f.Count(`select count(*) from clicks`); rows != 0 {
		t.Errorf("%d rows of rejected batches are stored, want 0", rows)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := clicks.Store(canceled, f.DB, stored[:1]); err == nil || errors.As(err, &data) {
		t.Errorf("a canceled call returned %v, want an error that is not a DataError", err)
	}
}

func TestStoreClicks_EnqueuesJobForAwaitedClick(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	ctx := t.Context()
	stored := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), 3)
	for range 2 {
		f.Insert("awaited_clicks", pgtest.Row{
			"workspace_id": stored[1].Workspace, "click_id": stored[1].ID, "conversion_id": affiliate.NewID[affiliate.ConversionID](time.Now()),
			"mode": "live", "created_at": stored[1].CreatedAt, "expires_at": stored[1].ExpiresAt,
		})
	}
	if err := clicks.Store(ctx, f.DB, stored); err != nil {
		t.Fatal(err)
	}
	if jobs := f.CountJobs("attribute_awaited"); jobs != 1 {
		t.Errorf("%d jobs were enqueued, want 1", jobs)
	}
}

func TestResolveClicks(t *testing.T) {
	f := newFixture(t, pgtest.Row{"attribution_window_days": 45})
	anna := f.Join("Anna", pgtest.Row{"referral_code": "anna"})
	deleted := f.NewLink(anna, "deleted")
	paused := f.NewProgram(f.Scope)
	f.NewParticipant(f.Scope, paused, f.NewPartner("Paul"), pgtest.Row{"referral_code": "paused"})
	f.Exec(`update links set deleted_at = created_at where id = $1`, deleted.ID)
	f.Exec(`update programs set status = 'paused' where id = $1`, paused)
	newKey := func(changes ...pgtest.Row) [32]byte {
		key := account.NewKey(account.PublicKey, f.Scope.Mode)
		digest := key.Digest()
		f.Insert("api_keys", append([]pgtest.Row{{
			"workspace_id": f.Scope.Workspace, "id": affiliate.NewID[affiliate.APIKeyID](f.Now()), "mode": f.Scope.Mode, "kind": account.PublicKey,
			"name": "", "digest": digest[:], "public_text": key.Reveal(), "prefix": "", "last4": "", "created_at": f.Now(),
		}}, changes...)...)
		return digest
	}
	key, revoked := newKey(), newKey(pgtest.Row{"revoked_at": f.Now()})
	unknownKey := account.NewKey(account.PublicKey, f.Scope.Mode)
	got, err := clicks.Resolve(t.Context(), f.DB, []click.Source{
		{KeyDigest: key, Code: "nobody"},
		{KeyDigest: key, Code: "anna"},
		{KeyDigest: unknownKey.Digest(), Code: "anna"},
		{KeyDigest: key, Code: "paused"},
		{KeyDigest: revoked, Code: "anna"},
		{KeyDigest: key, Code: "deleted"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []click.Resolution{
		{DeadReason: click.CodeUnknown},
		{Target: click.Target{Scope: f.Scope, Program: f.Program, Participant: anna.ID, Link: anna.Link, WindowDays: 45}},
		{DeadReason: click.KeyUnknown},
		{DeadReason: click.CodeUnknown},
		{DeadReason: click.KeyUnknown},
		{DeadReason: click.CodeUnknown},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("resolution of click %d = %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestDeadLetterClicks_StoresEachRecordOnce(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	record := click.DeadLetter{ID: affiliate.NewID[affiliate.ClickID](time.Now()), Reason: click.Malformed, Record: []byte{0, 0xff}, At: time.Now()}
	for range 2 {
		if err := clicks.StoreDeadLetters(t.Context(), f.DB, []click.DeadLetter{record}); err != nil {
			t.Fatal(err)
		}
	}
	if rows := f.Count(`select count(*) from click_dead_letters where reason = 'malformed' and record = '\x00ff'`); rows != 1 {
		t.Errorf("click_dead_letters has %d rows, want 1", rows)
	}
}

// BenchmarkStoreClicks measures Store with few participants and with a different
// participant per click. For comparison, it also measures a plain COPY of these clicks
// into the table.
func BenchmarkStoreClicks(b *testing.B) {
	f := pgtest.Open(b, time.Now)
	workspace := affiliate.NewID[affiliate.WorkspaceID](time.Now())
	const rows = 5000
	for name, participants := range map[string]int{"StoreClicks": 100, "StoreClicks with one participant per click": rows} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				stored := clicksOf(workspace, rows)
				for i := range stored {
					stored[i].Participant = stored[i%participants].Participant
					stored[i].Program = stored[0].Program
				}
				b.StartTimer()
				if err := clicks.Store(b.Context(), f.DB, stored); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	b.Run("copy", func(b *testing.B) {
		columns := []string{
			"workspace_id", "id", "clicked_at", "mode", "program_id", "participant_id", "referral_code", "received_at", "expires_at", "created_at",
			"landing_url", "referrer_domain", "utm_source", "consent", "language", "screen", "ip_hash", "ip_prefix", "ua_hash", "is_bot",
		}
		for b.Loop() {
			b.StopTimer()
			clicks := clicksOf(workspace, rows)
			b.StartTimer()
			_, err := f.SQL.CopyFrom(b.Context(), pgx.Identifier{"clicks"}, columns, pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
				c := &clicks[i]
				return []any{
					[16]byte(c.Workspace.UUID), [16]byte(c.ID.UUID), c.ClickedAt, "live", [16]byte(c.Program.UUID), [16]byte(c.Participant.UUID), c.ReferralCode, c.ReceivedAt, c.ExpiresAt, c.CreatedAt,
					c.LandingURL, c.ReferrerDomain, c.Source, "granted", c.Language, c.Screen, c.IPHash, c.IPPrefix, c.UAHash, false,
				}, nil
			}))
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
