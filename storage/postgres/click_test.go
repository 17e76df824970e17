package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func clickFixture(t testing.TB) (*postgres.Store, *pgx.Conn) {
	t.Helper()
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return store, conn
}

// clicksOf returns n new clicks of a workspace. Their optional fields sub_id and link_id
// are empty.
func clicksOf(workspace affiliate.WorkspaceID, n int) []affiliate.Click {
	now := time.Now().UTC().Truncate(time.Millisecond)
	clicks := make([]affiliate.Click, n)
	for i := range clicks {
		id := affiliate.NewID[affiliate.Click](now)
		clicks[i] = affiliate.Click{
			ID: id, Scope: affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive},
			Program: affiliate.NewID[affiliate.Program](now), Participant: affiliate.NewID[affiliate.Participant](now),
			ReferralCode: "anna", ClickedAt: now, ReceivedAt: now, ExpiresAt: affiliate.WindowEnd(now, 30), CreatedAt: now,
			LandingURL: "https://shop.example/", ReferrerDomain: "news.example", UTM: affiliate.UTM{Source: "mail"},
			Consent: affiliate.ConsentGranted, Language: "de", Screen: "1x1", IPHash: []byte("0123456789abcdef"), IPPrefix: "203.0.113.0/24", UAHash: []byte("0123456789abcdef"),
		}
	}
	return clicks
}

func TestStoreClicks_KeepsFirstWrite(t *testing.T) {
	store, conn := clickFixture(t)
	ctx := t.Context()
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), 300)
	if err := store.StoreClicks(ctx, clicks[:200]); err != nil {
		t.Fatal(err)
	}
	// Store the last 200 clicks with another referral code. The first 100 of them are
	// already stored, and one click is twice in the batch.
	repeated := append([]affiliate.Click{clicks[299]}, clicks[100:]...)
	for i := range repeated {
		repeated[i].ReferralCode = "bert"
	}
	if err := store.StoreClicks(ctx, repeated); err != nil {
		t.Fatal(err)
	}
	var rows, anna, nulls int
	err := conn.QueryRow(ctx, `select count(*), count(*) filter (where referral_code = 'anna'),
		count(*) filter (where link_id is null and sub_id is null and bot_reason is null and not is_bot and occurred_at is null and landing_url is not null) from clicks`).Scan(&rows, &anna, &nulls)
	if err != nil || rows != 300 || anna != 200 || nulls != 300 {
		t.Errorf("%d rows, %d with the code of the first write, %d with null in every empty column, %v, want 300, 200 and 300", rows, anna, nulls, err)
	}
}

func TestStoreClicks_ReportsBadDataAsDataError(t *testing.T) {
	store, conn := clickFixture(t)
	ctx := t.Context()
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), 3)
	clicks[1].SubID = "nul\x00"
	var data *postgres.DataError
	if err := store.StoreClicks(ctx, clicks); !errors.As(err, &data) || !data.RejectsData() {
		t.Errorf("StoreClicks with a NUL character returned %v, want a DataError", err)
	}
	clicks[1].SubID, clicks[1].Program = "", affiliate.ProgramID{}
	if err := store.StoreClicks(ctx, clicks); !errors.As(err, &data) {
		t.Errorf("StoreClicks without a programme returned %v, want a DataError", err)
	}
	var rows int
	if err := conn.QueryRow(ctx, `select count(*) from clicks`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of rejected batches are stored, %v, want 0", rows, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := store.StoreClicks(canceled, clicks[:1]); err == nil || errors.As(err, &data) {
		t.Errorf("a canceled call returned %v, want an error that is not a DataError", err)
	}
}

func TestStoreClicks_EnqueuesJobForAwaitedClick(t *testing.T) {
	store, conn := clickFixture(t)
	ctx := t.Context()
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), 3)
	for range 2 {
		_, err := conn.Exec(ctx, `insert into awaited_clicks (workspace_id, click_id, conversion_id, mode, created_at, expires_at) values ($1, $2, $3, 'live', $4, $5)`,
			clicks[1].Scope.Workspace.UUID, clicks[1].ID.UUID, affiliate.NewID[affiliate.Conversion](time.Now()).UUID, clicks[1].CreatedAt, clicks[1].ExpiresAt)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.StoreClicks(ctx, clicks); err != nil {
		t.Fatal(err)
	}
	var jobs int
	var args string
	if err := conn.QueryRow(ctx, `select count(*), max(args::text) from river.river_job where kind = 'attribute_awaited'`).Scan(&jobs, &args); err != nil || jobs != 1 {
		t.Errorf("%d jobs were enqueued (%s), %v, want 1", jobs, args, err)
	}
}

func TestResolveClicks(t *testing.T) {
	store, conn := clickFixture(t)
	ctx := t.Context()
	now := time.Now()
	workspace, user, program, paused := affiliate.NewID[int](now).UUID, affiliate.NewID[int](now).UUID, affiliate.NewID[int](now).UUID, affiliate.NewID[int](now).UUID
	key, revoked := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest), affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
	// Disable foreign keys, so that the fixture needs only the tables that the
	// statement reads.
	must := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	must(`set session_replication_role = replica`)
	for _, k := range []affiliate.Key{key, revoked} {
		digest := k.Digest()
		must(`insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at) values ($1, $2, 'test', 'public', '', $3, $4, '', '', $5)`,
			workspace, affiliate.NewID[int](now).UUID, digest[:], k.Reveal(), now)
	}
	digest := revoked.Digest()
	must(`update api_keys set revoked_at = $2 where digest = $1`, digest[:], now)
	for id, status := range map[[16]byte]string{program: "active", paused: "paused"} {
		must(`insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days, attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
			values ($1, $2, 'test', '', $3, $3, '{}', 'EUR', 45, 'last_click', 'via', false, false, '{}', 1, $4, $4)`, workspace, id, status, now)
	}
	links := map[string][16]byte{}
	for code, id := range map[string][16]byte{"anna": program, "deleted": program, "paused": paused} {
		links[code] = affiliate.NewID[int](now).UUID
		must(`insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
			values ($1, $2, $3, $4, 'test', $5, $5, '', false, $6, $6)`, workspace, links[code], id, user, code, now)
		must(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at) values ($1, 'test', $2, $3, $4, $5, $6)`,
			workspace, code, id, user, links[code], now)
	}
	must(`update links set deleted_at = created_at where code = 'deleted'`)
	unknownKey := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
	got, err := store.ResolveClicks(ctx, []affiliate.ClickSource{
		{KeyDigest: key.Digest(), Code: "nobody"},
		{KeyDigest: key.Digest(), Code: "anna"},
		{KeyDigest: unknownKey.Digest(), Code: "anna"},
		{KeyDigest: key.Digest(), Code: "paused"},
		{KeyDigest: revoked.Digest(), Code: "anna"},
		{KeyDigest: key.Digest(), Code: "deleted"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []affiliate.ClickResolution{
		{Dead: affiliate.ClickCodeUnknown},
		{Target: affiliate.ClickTarget{
			Scope:   affiliate.Scope{Workspace: affiliate.WorkspaceID{UUID: workspace}, Mode: affiliate.ModeTest},
			Program: affiliate.ProgramID{UUID: program}, Participant: affiliate.ParticipantID{UUID: user}, Link: affiliate.LinkID{UUID: links["anna"]}, WindowDays: 45,
		}},
		{Dead: affiliate.ClickKeyUnknown},
		{Dead: affiliate.ClickCodeUnknown},
		{Dead: affiliate.ClickKeyUnknown},
		{Dead: affiliate.ClickCodeUnknown},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("resolution of click %d = %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestDeadLetterClicks_StoresEachRecordOnce(t *testing.T) {
	store, conn := clickFixture(t)
	record := affiliate.ClickDeadLetter{ID: affiliate.NewID[affiliate.Click](time.Now()), Reason: affiliate.ClickMalformed, Record: []byte{0, 0xff}, At: time.Now()}
	for range 2 {
		if err := store.DeadLetterClicks(t.Context(), []affiliate.ClickDeadLetter{record}); err != nil {
			t.Fatal(err)
		}
	}
	var rows int
	if err := conn.QueryRow(t.Context(), `select count(*) from click_dead_letters where reason = 'malformed' and record = '\x00ff'`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("click_dead_letters has %d rows, %v, want 1", rows, err)
	}
}

// BenchmarkStoreClicks measures StoreClicks with few participants and with a different
// participant per click. For comparison, it also measures a plain COPY of these clicks
// into the table.
func BenchmarkStoreClicks(b *testing.B) {
	store, conn := clickFixture(b)
	workspace := affiliate.NewID[affiliate.Workspace](time.Now())
	const rows = 5000
	for name, participants := range map[string]int{"StoreClicks": 100, "StoreClicks with one participant per click": rows} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				clicks := clicksOf(workspace, rows)
				for i := range clicks {
					clicks[i].Participant = clicks[i%participants].Participant
					clicks[i].Program = clicks[0].Program
				}
				b.StartTimer()
				if err := store.StoreClicks(b.Context(), clicks); err != nil {
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
			_, err := conn.CopyFrom(b.Context(), pgx.Identifier{"clicks"}, columns, pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
				c := &clicks[i]
				return []any{
					[16]byte(c.Scope.Workspace.UUID), [16]byte(c.ID.UUID), c.ClickedAt, "live", [16]byte(c.Program.UUID), [16]byte(c.Participant.UUID), c.ReferralCode, c.ReceivedAt, c.ExpiresAt, c.CreatedAt,
					c.LandingURL, c.ReferrerDomain, c.UTM.Source, "granted", c.Language, c.Screen, c.IPHash, c.IPPrefix, c.UAHash, false,
				}, nil
			}))
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
