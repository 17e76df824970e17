package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

func TestIngester_StoresAcknowledgesAndTrimsEveryClick(t *testing.T) {
	s := newStream(t, redistest.New(t))
	var commits atomic.Int64
	ingester, registry := s.ingester("one", s.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" {
			commits.Add(1)
		}
		return nil
	}))
	s.append(newClick()) // before the consumer group exists
	defer run(ingester)()
	const entries = 400
	for range entries {
		s.append(newClick(), newClick(), newClick())
	}
	pgtest.Eventually(t, "all clicks are stored", func() bool { return s.clicks() == 3*entries+1 })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
	pgtest.Eventually(t, "the stream is trimmed", func() bool { return s.client.XLen(t.Context(), clickstream.Key(0)).Val() < 150 })
	if n := testutil.ToFloat64(ingester.metrics.stored); n != 3*entries+1 || commits.Load() > entries {
		t.Errorf("%v clicks were stored in %d transactions, want %d in at most %d", n, commits.Load(), 3*entries+1, entries)
	}
	if n, err := testutil.GatherAndCount(registry, "tributary_ingest_clicks_stored_total", "tributary_ingest_entries_lost_total"); err != nil || n != 2 {
		t.Errorf("%d metrics have a value, error %v, want both of the two metrics", n, err)
	}
}

// Dead letters contain hashed IP addresses. The ingester must therefore delete them from
// the dead-letter stream after 90 days, the time after which they are deleted from the
// database.
func TestIngester_DeletesOldDeadLettersFromTheStream(t *testing.T) {
	s := newStream(t, redistest.New(t))
	cutoff := time.Now().Add(-90 * 24 * time.Hour)
	for _, at := range []time.Time{cutoff.Add(-time.Hour), cutoff.Add(-time.Minute), cutoff.Add(time.Minute), time.Now()} {
		check(t, s.client.XAdd(t.Context(), &redis.XAddArgs{
			Stream: clickstream.DeadLetterStream, ID: fmt.Sprint(at.UnixMilli(), "-0"), Values: []any{"b", "?"},
		}).Err())
	}
	ingester, _ := s.ingester("one", s.DB)
	defer run(ingester)()
	pgtest.Eventually(t, "the dead-letter stream is trimmed", func() bool { return s.client.XLen(t.Context(), clickstream.DeadLetterStream).Val() <= 2 })
	remaining, err := s.client.XRange(t.Context(), clickstream.DeadLetterStream, "-", "+").Result()
	check(t, err)
	if len(remaining) != 2 || clickstream.EntryTime(remaining[0].ID).Before(cutoff) {
		t.Errorf("the dead letters %v are left, want two of the last 90 days", remaining)
	}
}

func TestIngester_StoresAllFieldsOfAClick(t *testing.T) {
	s := newStream(t, redistest.New(t))
	ingester, _ := s.ingester("one", s.DB)
	sent := newClick(func(c *edgev1.Click) {
		c.UtmSource, c.UtmMedium, c.UtmCampaign, c.UtmTerm, c.UtmContent = "mail", "medium", "campaign", "term", "top"
		c.SubId, c.Language, c.Screen = "s", "de", "1x1"
		c.Consent, c.IpHash, c.IpPrefix, c.UaHash = edgev1.Consent_CONSENT_GRANTED, []byte("ip"), "203.0.113.0/24", []byte("ua")
		c.OccurredAtMs, c.LandingUrl, c.ReferrerDomain = 1767323045000, "https://x/", "news.example"
		c.Country, c.Region, c.Device, c.Browser, c.Os, c.PaidPlatform = "GB", "ENG", "tablet", "Firefox", "Linux", "google"
		c.IsBot, c.BotReason, c.ForeignOrigin = true, "agent", true
		for n, id := range []*[]byte{&c.ProgramId, &c.ParticipantId, &c.LinkId} {
			*id = slices.Clone(c.WorkspaceId)
			(*id)[15] = byte(n)
		}
	})
	s.append(sent)
	defer run(ingester)()
	pgtest.Eventually(t, "the click is stored", func() bool { return s.clicks() == 1 })
	var want storedClick
	want.WorkspaceID, _ = affiliate.IDFromBytes[affiliate.WorkspaceID](sent.WorkspaceId)
	want.ProgramID, _ = affiliate.IDFromBytes[affiliate.ProgramID](sent.ProgramId)
	want.ParticipantID, _ = affiliate.IDFromBytes[affiliate.ParticipantID](sent.ParticipantId)
	want.LinkID, _ = affiliate.IDFromBytes[affiliate.LinkID](sent.LinkId)
	want.Mode, want.IsBot, want.ForeignOrigin = affiliate.ModeTest, true, true
	want.ClickedAt, _ = clickID(sent).Time()
	want.ReceivedAt, want.OccurredAt = time.UnixMilli(sent.ReceivedAtMs).UTC(), time.UnixMilli(sent.OccurredAtMs).UTC()
	want.ExpiresAt = want.ReceivedAt.Add(30 * 24 * time.Hour)
	want.Values = "anna granted https://x/ news.example mail medium campaign term top s de 1x1 ip 203.0.113.0/24 ua agent GB ENG tablet Firefox Linux google"
	if got := s.stored(sent); got != want {
		t.Errorf("%v was stored as %+v, want %+v", sent, got, want)
	}
}

// A click that claims to be received more than two seconds after Redis stored it, or after the
// current time, gets the earlier of these times. Its window begins then.
func TestIngester_CorrectsTimesInTheFuture(t *testing.T) {
	s := newStream(t, redistest.New(t))
	ingester, registry := s.ingester("one", s.DB)
	now := time.Now().UTC().Truncate(time.Millisecond)
	ingester.deps.Now = func() time.Time { return now }
	storedAt := now.Add(-time.Minute)
	redisAhead := now.Add(time.Hour)
	var want []time.Time
	var clicks []*edgev1.Click
	for _, c := range []struct{ stored, received, want time.Time }{
		{storedAt, storedAt.Add(-time.Hour), storedAt.Add(-time.Hour)}, // from a journal
		{storedAt, storedAt.Add(2 * time.Second), storedAt.Add(2 * time.Second)},
		{storedAt, storedAt.Add(2001 * time.Millisecond), storedAt},
		{storedAt, storedAt.Add(10 * time.Minute), storedAt},
		{redisAhead, now.Add(10 * time.Minute), now},
	} {
		sent := newClick(func(e *edgev1.Click) { e.ReceivedAtMs = c.received.UnixMilli() })
		clicks, want = append(clicks, sent), append(want, c.want)
		raw, err := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{sent}})
		check(t, err)
		ingester.process(t.Context(), []clickstream.Entry{{ID: fmt.Sprintf("%d-0", c.stored.UnixMilli()), Batch: raw, Clicks: 1}})
	}
	for n, sent := range clicks {
		if got := s.stored(sent); !got.ReceivedAt.Equal(want[n]) || !got.ExpiresAt.Equal(click.WindowEnd(want[n], 30)) {
			t.Errorf("click %d was received at %s and expires at %s, want %s and 30 days later", n, got.ReceivedAt, got.ExpiresAt, want[n])
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP tributary_ingest_clicks_from_future_total Clicks with a time of receipt more than two seconds in the future, because the clock of their collector is wrong. They are stored with the time at which Redis has stored them. Clicks that are read again are counted again. Alert if it grows.
		# TYPE tributary_ingest_clicks_from_future_total counter
		tributary_ingest_clicks_from_future_total 3
	`), "tributary_ingest_clicks_from_future_total"); err != nil {
		t.Error(err)
	}
}

// Invalid values are left out, but the click is stored. The first case sends none
// of the values.
func TestFromEdge_DropsInvalidValuesButNotTheClick(t *testing.T) {
	type values struct{ country, region, device, browser, os, platform, reason string }
	long := strings.Repeat("x", 41)
	for sent, want := range map[values]values{
		{}: {},
		{"DE", "BE", "desktop", "Firefox", "macOS", "google", "agent"}: {"DE", "BE", "desktop", "Firefox", "macOS", "google", "agent"},
		{"FR", "75C", "mobile", long[1:], long[1:], "x", "y"}:          {"FR", "75C", "mobile", long[1:], long[1:], "x", "y"},
		{"de", "BE", "Desktop", long, long, long, long}:                {},
		{"DEU", "BE", "phone", "a\x00", "a\n", "\x7f", "\x00"}:         {},
		{"D1", "BE", "", "", "", "", ""}:                               {},
		{"", "BE", "", "", "", "", ""}:                                 {},
		{"Ü", "", "", "", "", "", ""}:                                  {},
		{"DE", "BERL", "", "", "", "", ""}:                             {country: "DE"},
		{"DE", "B-E", "", "", "", "", ""}:                              {country: "DE"},
		{"DE", "Ü", "", "", "", "", ""}:                                {country: "DE"},
	} {
		r, err := fromEdge(newClick(func(c *edgev1.Click) {
			c.Country, c.Region, c.Device, c.Browser, c.Os, c.PaidPlatform, c.BotReason =
				sent.country, sent.region, sent.device, sent.browser, sent.os, sent.platform, sent.reason
		}), time.Now())
		check(t, err)
		c := r.click
		if got := (values{c.Country, c.Region, c.Device, c.Browser, c.OS, c.PaidPlatform, c.BotReason}); got != want {
			t.Errorf("%+v became %+v, want %+v", sent, got, want)
		}
	}
}

// The process crashes after the commit and before the acknowledgement. The next process
// reads the entry again.
func TestIngester_CrashBeforeAcknowledgementStoresNothingTwice(t *testing.T) {
	s := newStream(t, redistest.New(t))
	s.append(newClick(), newClick())
	ctx, crash := context.WithCancel(t.Context())
	crashing, _ := s.ingester("one", s.OpenHooked(func(string, []any) error { return nil }, func(sql string, _ int64) {
		if sql == "commit" {
			crash()
		}
	}))
	entries, err := crashing.deps.Reader.Next(t.Context(), 0)
	check(t, err)
	crashing.process(ctx, entries)
	if clicks := s.clicks(); clicks != 2 || s.pending() != 1 {
		t.Fatalf("%d clicks committed, %d entries pending; want 2 and 1", clicks, s.pending())
	}
	restarted, _ := s.ingester("one", s.DB)
	defer run(restarted)()
	pgtest.Eventually(t, "the entry is acknowledged", func() bool { return s.pending() == 0 })
	if clicks, again := s.clicks(), testutil.ToFloat64(restarted.metrics.stored); clicks != 2 || again != 2 {
		t.Errorf("%d clicks stored, %v of them twice; want 2 and 2", clicks, again)
	}
}

func TestIngester_ClaimsEntriesOfDeadConsumers(t *testing.T) {
	s := newStream(t, redistest.New(t))
	dead := s.reader("dead")
	const entries = 300 // more entries than one claim returns
	for range entries {
		s.append(newClick())
	}
	for s.pending() < entries {
		_, err := dead.Next(t.Context(), 0)
		check(t, err)
	}
	pgtest.Eventually(t, "all entries are old enough to be claimed", func() bool {
		old, err := s.client.XPendingExt(t.Context(), &redis.XPendingExtArgs{
			Stream: clickstream.Key(0), Group: clickstream.Group, Idle: claimIdle, Start: "-", End: "+", Count: entries,
		}).Result()
		return err == nil && len(old) == entries
	})
	ingester, _ := s.ingester("alive", s.DB)
	ingester.cfg.ClaimEvery = time.Hour // the first round of claims must return all entries
	defer run(ingester)()
	pgtest.Eventually(t, "all clicks are stored", func() bool { return s.clicks() == entries })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
}

func TestIngester_RetriesTheBatchWhileTheDatabaseIsUnreachable(t *testing.T) {
	s := newStream(t, redistest.New(t))
	ingester, _ := s.ingester("one", s.failing(func(transaction int64) bool { return transaction <= 12 }))
	ingester.cfg.FirstDelay = time.Millisecond
	for range 50 {
		s.append(newClick())
	}
	defer run(ingester)()
	// While the ingester retries, its own entries become old enough that it claims them.
	pgtest.Eventually(t, "all clicks are stored", func() bool { return s.clicks() == 50 })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
	if deadLetters, stored := s.deadLetters(), testutil.ToFloat64(ingester.metrics.stored); deadLetters != 0 || stored != 50 {
		t.Errorf("after an outage: %d dead letters, %v clicks stored; want none, and 50", deadLetters, stored)
	}
	if failed := testutil.ToFloat64(ingester.metrics.unreachable); failed != 12 {
		t.Errorf("%v failed calls are counted, want 12", failed)
	}
}

func TestIngester_InvalidRecordsBecomeDeadLettersAndOthersAreStored(t *testing.T) {
	s := newStream(t, redistest.New(t))
	rejected := newClick(func(c *edgev1.Click) { c.SubId = rejectedText })
	s.append(newClick(), newClick())
	s.append(newClick(), rejected, newClick())
	s.append(newClick(func(c *edgev1.Click) { c.Id = []byte("short") }), newClick(), newClick(func(c *edgev1.Click) { c.LinkId = nil }))
	check(t, s.writer.Append(t.Context(), 0, append([]byte{0x0a, 0x02, 0xff, 0xff}, 0x0a, 0x7f), 2)) // an invalid record, then an invalid length
	check(t, s.writer.Append(t.Context(), 0, []byte{}, 0))
	check(t, s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: clickstream.Key(0), Values: []any{"foreign", "field"}}).Err())
	ingester, _ := s.ingester("one", s.DB)
	defer run(ingester)()
	pgtest.Eventually(t, "all entries are acknowledged", func() bool {
		return s.pending() == 0 && s.client.XLen(t.Context(), clickstream.DeadLetterStream).Val() >= 7
	})
	if clicks, deadLetters := s.clicks(), s.deadLetters(); clicks != 5 || deadLetters != 7 {
		t.Errorf("%d clicks and %d dead letters, want 5 and 7", clicks, deadLetters)
	}
	reason, record := s.deadLetter(rejected)
	var kept edgev1.Click
	if err := proto.Unmarshal(record, &kept); err != nil || !proto.Equal(&kept, rejected) || reason != click.Rejected {
		t.Errorf("the dead letter has the reason %s and the record %v (%v), want the rejected click %v", reason, &kept, err, rejected)
	}
	s.WantCount(6, "malformed dead letters", `select count(*) from click_dead_letters where reason = $1`, click.Malformed)
}

func TestIngester_ResolvesUnresolvedClicks(t *testing.T) {
	s := newStream(t, redistest.New(t))
	key, anna := s.newSource()
	unresolved := func(key, code string) *edgev1.Click {
		return newClick(func(c *edgev1.Click) {
			c.WorkspaceId, c.ProgramId, c.ParticipantId, c.AttributionWindowDays = nil, nil, nil, 0
			c.PublicKey, c.ReferralCode = key, code
		})
	}
	valid, unknown, invalidKey, rejected := unresolved(key.Reveal(), "Anna"), unresolved(key.Reveal(), "nobody"), unresolved("pk_test_x", "anna"), unresolved(key.Reveal(), rejectedText)
	s.append(valid, unknown, invalidKey, rejected, newClick())
	ingester, _ := s.ingester("one", s.DB)
	defer run(ingester)()
	pgtest.Eventually(t, "three clicks are dead letters and the entry is acknowledged", func() bool { return s.deadLetters() == 3 && s.pending() == 0 })
	got := s.stored(valid)
	if scope := (affiliate.Scope{Workspace: got.WorkspaceID, Mode: got.Mode}); scope != anna.Scope || got.ProgramID != anna.Program ||
		got.ParticipantID != anna.ID || got.LinkID != anna.Link || got.ExpiresAt.Sub(got.ReceivedAt) != 7*24*time.Hour {
		t.Errorf("the resolved click is stored as %+v, want the target %+v", got, anna)
	}
	s.WantCount(2, "clicks", `select count(*) from clicks`)
	for raw, want := range map[*edgev1.Click]click.DeadReason{
		unknown: click.CodeUnknown, invalidKey: click.KeyUnknown, rejected: click.Rejected,
	} {
		if got, _ := s.deadLetter(raw); got != want {
			t.Errorf("%v became a dead letter with the reason %q, want %q", raw, got, want)
		}
	}
}

func TestIngester_CountsEntriesThatDisappeared(t *testing.T) {
	s := newStream(t, redistest.New(t))
	dead := s.reader("dead")
	s.append(newClick())
	_, err := dead.Next(t.Context(), 0)
	check(t, err)
	check(t, s.client.XTrimMaxLen(t.Context(), clickstream.Key(0), 0).Err())
	ingester, _ := s.ingester("one", s.DB)
	defer run(ingester)()
	pgtest.Eventually(t, "the entry is counted as lost", func() bool { return testutil.ToFloat64(ingester.metrics.lost) == 1 })
	if clicks, deadLetters := s.clicks(), s.deadLetters(); clicks != 0 || deadLetters != 0 {
		t.Errorf("%d clicks and %d dead letters were stored, want none", clicks, deadLetters)
	}
}

func TestIngester_CountsALostStream(t *testing.T) {
	s := newStream(t, redistest.New(t))
	ingester, _ := s.ingester("one", s.DB)
	defer run(ingester)()
	s.append(newClick())
	pgtest.Eventually(t, "the first click is acknowledged", func() bool { return testutil.ToFloat64(ingester.metrics.acknowledged) == 1 })
	if n := testutil.ToFloat64(ingester.metrics.recreated); n != 0 {
		t.Errorf("%v consumer groups are counted as created again before the loss, want none", n)
	}
	check(t, s.client.FlushDB(t.Context()).Err())
	pgtest.Eventually(t, "the group is counted as created again", func() bool { return testutil.ToFloat64(ingester.metrics.recreated) == 1 })
	s.append(newClick())
	pgtest.Eventually(t, "the second click is stored", func() bool { return s.clicks() == 2 })
}

func TestIngester_CountsAStreamThatLostItsLatestEntries(t *testing.T) {
	for name, c := range map[string]struct {
		trimEvery time.Duration
		// triggerCheck makes the ingester check the stream. In the first case, it does
		// nothing, because the ingester checks the stream each time it trims the stream.
		triggerCheck func(*stream) error
	}{
		"when the stream is trimmed": {20 * time.Millisecond, func(*stream) error { return nil }},
		"after a lost connection": {time.Hour, func(s *stream) error {
			return s.client.Do(context.Background(), "client", "kill", "type", "normal").Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			s := newStream(t, server.URL)
			ingester := New(Config{TrimEvery: c.trimEvery, FirstDelay: time.Millisecond}, Deps{Reader: s.reader("one"), DB: s.DB})
			defer run(ingester)()
			acknowledged := func(n float64) func() bool {
				return func() bool { return testutil.ToFloat64(ingester.metrics.acknowledged) == n }
			}
			s.append(newClick())
			pgtest.Eventually(t, "the first click is acknowledged", acknowledged(1))
			older, err := s.client.Dump(t.Context(), clickstream.Key(0)).Result()
			check(t, err)
			s.append(newClick())
			pgtest.Eventually(t, "the second click is acknowledged", acknowledged(2))
			if n := testutil.ToFloat64(ingester.metrics.lost); n != 0 {
				t.Errorf("%v entries are counted as lost before the loss, want none", n)
			}
			check(t, s.client.RestoreReplace(t.Context(), clickstream.Key(0), 0, older).Err())
			check(t, c.triggerCheck(s))
			pgtest.Eventually(t, "the loss is counted", func() bool { return testutil.ToFloat64(ingester.metrics.lost) == 1 })
			s.append(newClick())
			pgtest.Eventually(t, "the third click is stored", func() bool { return s.clicks() == 3 })
		})
	}
}

// warningFlag is a log handler that sets a flag when a warning is logged.
type warningFlag struct {
	slog.Handler
	logged *atomic.Bool
}

func (w warningFlag) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (w warningFlag) Handle(context.Context, slog.Record) error { w.logged.Store(true); return nil }

func TestIngester_ContinuesAfterARestartOfRedis(t *testing.T) {
	server := redistest.Start(t)
	s := newStream(t, server.URL)
	ingester, _ := s.ingester("one", s.DB)
	var warningLogged atomic.Bool
	ingester.deps.Log = slog.New(warningFlag{slog.DiscardHandler, &warningLogged})
	defer run(ingester)()
	s.append(newClick())
	pgtest.Eventually(t, "the first click is stored", func() bool { return s.clicks() == 1 })
	server.Kill9()
	pgtest.Eventually(t, "the ingester notices the outage", warningLogged.Load)
	server.Restart()
	pgtest.Eventually(t, "an append succeeds", func() bool {
		raw, _ := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{newClick()}})
		return s.writer.Append(context.Background(), 0, raw, 1) == nil
	})
	pgtest.Eventually(t, "the second click is stored", func() bool { return s.clicks() >= 2 })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
}

func TestRun_StopFinishesTheCurrentBatch(t *testing.T) {
	s := newStream(t, redistest.New(t))
	commitCalled, commitMayRun := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ingester, _ := s.ingester("one", s.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" {
			once.Do(func() { close(commitCalled) })
			<-commitMayRun
		}
		return nil
	}))
	s.append(newClick())
	stop := run(ingester)
	<-commitCalled
	time.AfterFunc(50*time.Millisecond, func() { close(commitMayRun) })
	stop()
	if clicks := s.clicks(); clicks != 1 || s.pending() != 0 {
		t.Errorf("%d clicks stored, %d entries pending; want 1 and 0", clicks, s.pending())
	}
}

func TestRun_StopDoesNotWaitForAnUnreachableDatabase(t *testing.T) {
	s := newStream(t, redistest.New(t))
	ingester, _ := s.ingester("one", s.failing(func(int64) bool { return true }))
	ingester.cfg.StopTimeout = 100 * time.Millisecond
	s.append(newClick())
	stop := run(ingester)
	pgtest.Eventually(t, "the entry is delivered to the ingester", func() bool { return s.pending() == 1 })
	start := time.Now()
	stop()
	if took := time.Since(start); took > 2*time.Second || s.pending() != 1 {
		t.Errorf("the stop took %s and left %d entries pending, want at most 2 s and 1", took, s.pending())
	}
}

func FuzzDecodeEntry(f *testing.F) {
	raw, _ := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{newClick(), newClick()}})
	f.Add(raw)
	f.Add([]byte{0x0a, 0x7f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := decodeEntry(clickstream.Entry{ID: "1-1", Batch: raw}, time.Now())
		if len(p.records)+len(p.dead) == 0 && len(raw) == 0 {
			t.Fatal("an empty entry gives neither a record nor a dead letter")
		}
	})
}
