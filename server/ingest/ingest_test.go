package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

// memoryStore is a Store in memory that behaves like the database: it stores all clicks
// of a call or none, and it does not overwrite a stored click.
type memoryStore struct {
	mu          sync.Mutex
	clicks      map[affiliate.ClickID]click.Click
	deadLetters map[affiliate.ClickID]click.DeadLetter
	targets     map[click.Source]click.Target
	calls       int // of StoreClicks
	repeated    int // clicks in these calls that were already stored
	// beforeStore is called at the start of each StoreClicks. afterStore is called when
	// StoreClicks has stored the clicks.
	beforeStore func(call int, clicks []click.Click) error
	afterStore  func()
}

func newMemoryStore() *memoryStore {
	return &memoryStore{
		clicks:      make(map[affiliate.ClickID]click.Click),
		deadLetters: make(map[affiliate.ClickID]click.DeadLetter),
		targets:     make(map[click.Source]click.Target),
	}
}

// memoryStore rejects a click whose sub id is rejectedText, and a key and referral code
// whose code is rejectedText.
const rejectedText = "poison"

// rejectedError is the error of a store that does not accept the data.
type rejectedError struct{}

func (rejectedError) Error() string     { return "invalid input (SQLSTATE 22021)" }
func (rejectedError) RejectsData() bool { return true }

func (s *memoryStore) StoreClicks(_ context.Context, clicks []click.Click) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.beforeStore != nil {
		if err := s.beforeStore(s.calls, clicks); err != nil {
			return err
		}
	}
	for _, click := range clicks {
		if click.SubID == rejectedText {
			return fmt.Errorf("clicks: %w", rejectedError{})
		}
	}
	for _, click := range clicks {
		if _, stored := s.clicks[click.ID]; stored {
			s.repeated++
			continue
		}
		s.clicks[click.ID] = click
	}
	if s.afterStore != nil {
		s.afterStore()
	}
	return nil
}

func (s *memoryStore) ResolveClicks(_ context.Context, sources []click.Source) ([]Resolution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resolutions := make([]Resolution, len(sources))
	for n, source := range sources {
		if source.Code == rejectedText {
			return nil, rejectedError{}
		}
		if target, ok := s.targets[source]; ok {
			resolutions[n].Target = target
		} else {
			resolutions[n].DeadReason = click.CodeUnknown
		}
	}
	return resolutions, nil
}

func (s *memoryStore) DeadLetterClicks(_ context.Context, letters []click.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, letter := range letters {
		s.deadLetters[letter.ID] = letter
	}
	return nil
}

func (s *memoryStore) count() (clicks, deadLetters int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clicks), len(s.deadLetters)
}

// stream is a click stream that only one test uses.
type stream struct {
	t      testing.TB
	url    string
	client redis.UniversalClient
	writer *clickstream.Writer
}

func newStream(t testing.TB, url string) *stream {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return &stream{t: t, url: url, client: client, writer: clickstream.NewWriter(client, 1)}
}

// claimIdle is how long an entry must be pending before another consumer claims it.
const claimIdle = 30 * time.Millisecond

func (s *stream) reader(consumer string) *clickstream.Reader {
	s.t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: s.url})
	check(s.t, err)
	blocking, err := clickstream.ConnectBlocking(clickstream.Endpoint{URL: s.url})
	check(s.t, err)
	s.t.Cleanup(func() { _, _ = client.Close(), blocking.Close() })
	return clickstream.NewReader(client, blocking, clickstream.ReaderConfig{
		Shards: 1, Consumer: consumer, Block: 50 * time.Millisecond, ClaimIdle: claimIdle,
	})
}

func (s *stream) ingester(consumer string, store Store) (*Ingester, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return New(Config{ClaimEvery: 20 * time.Millisecond, TrimEvery: 20 * time.Millisecond, FirstDelay: time.Millisecond, StopTimeout: 2 * time.Second},
		Deps{Reader: s.reader(consumer), Store: store, Registry: registry}), registry
}

// run starts an ingester. The function stop stops the ingester and waits until it has
// ended.
func run(i *Ingester) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { i.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func newClick(change ...func(*edgev1.Click)) *edgev1.Click {
	now := time.Now()
	id, workspace := affiliate.NewID[affiliate.ClickID](now), affiliate.NewID[affiliate.WorkspaceID](now)
	c := &edgev1.Click{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_TEST, WorkspaceId: workspace.UUID[:], ProgramId: workspace.UUID[:], ParticipantId: workspace.UUID[:], LinkId: workspace.UUID[:],
		ReferralCode: "anna", ReceivedAtMs: now.UnixMilli(), AttributionWindowDays: 30,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func (s *stream) append(clicks ...*edgev1.Click) {
	s.t.Helper()
	raw, err := proto.Marshal(&edgev1.ClickBatch{Clicks: clicks})
	check(s.t, err)
	check(s.t, s.writer.Append(context.Background(), 0, raw, len(clicks)))
}

func (s *stream) pending() int64 {
	s.t.Helper()
	summary, err := s.client.XPending(context.Background(), clickstream.Key(0), clickstream.Group).Result()
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		return -1 // no consumer has read yet
	}
	check(s.t, err)
	return summary.Count
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestIngester_StoresAcknowledgesAndTrimsEveryClick(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	ingester, registry := s.ingester("one", store)
	s.append(newClick()) // before the consumer group exists
	defer run(ingester)()
	const entries = 400
	for range entries {
		s.append(newClick(), newClick(), newClick())
	}
	pgtest.Eventually(t, "all clicks are stored", func() bool { n, _ := store.count(); return n == 3*entries+1 })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
	pgtest.Eventually(t, "the stream is trimmed", func() bool { return s.client.XLen(t.Context(), clickstream.Key(0)).Val() < 150 })
	if store.repeated != 0 || store.calls > entries {
		t.Errorf("%d clicks were stored twice, in %d calls; want none, in at most %d calls", store.repeated, store.calls, entries)
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
	ingester, _ := s.ingester("one", newMemoryStore())
	defer run(ingester)()
	pgtest.Eventually(t, "the dead-letter stream is trimmed", func() bool { return s.client.XLen(t.Context(), clickstream.DeadLetterStream).Val() <= 2 })
	remaining, err := s.client.XRange(t.Context(), clickstream.DeadLetterStream, "-", "+").Result()
	check(t, err)
	if len(remaining) != 2 || clickstream.EntryTime(remaining[0].ID).Before(cutoff) {
		t.Errorf("the dead letters %v are left, want two of the last 90 days", remaining)
	}
}

func TestIngester_StoresAllFieldsOfAClick(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	ingester, _ := s.ingester("one", store)
	sent := newClick(func(c *edgev1.Click) {
		c.UtmSource, c.UtmContent, c.SubId, c.Language, c.Screen = "mail", "top", "s", "de", "1x1"
		c.Consent, c.IpHash, c.IpPrefix, c.UaHash = edgev1.Consent_CONSENT_GRANTED, []byte("ip"), "203.0.113.0/24", []byte("ua")
		c.OccurredAtMs, c.LandingUrl, c.ReferrerDomain = 1767323045000, "https://x/", "news.example"
		c.Country, c.Region, c.Device, c.Browser, c.Os, c.PaidPlatform = "GB", "ENG", "tablet", "Firefox", "Linux", "google"
		c.IsBot, c.BotReason, c.ForeignOrigin = true, "agent", true
	})
	s.append(sent)
	defer run(ingester)()
	pgtest.Eventually(t, "the click is stored", func() bool { n, _ := store.count(); return n == 1 })
	id, _ := affiliate.IDFromBytes[affiliate.ClickID](sent.Id)
	got := store.clicks[id]
	idTime, _ := id.Time()
	if got.ClickedAt != idTime || got.ReceivedAt.UnixMilli() != sent.ReceivedAtMs || got.ExpiresAt.Sub(got.ReceivedAt) != 30*24*time.Hour ||
		got.OccurredAt.UnixMilli() != sent.OccurredAtMs || got.Scope.Mode != affiliate.ModeTest || !bytes.Equal(got.Link.UUID[:], sent.LinkId) ||
		got.UTM.Source != "mail" || got.UTM.Content != "top" || got.Consent != click.ConsentGranted || string(got.IPHash) != "ip" || got.CreatedAt.IsZero() ||
		got.Country != "GB" || got.Region != "ENG" || got.Device != "tablet" || got.Browser != "Firefox" || got.OS != "Linux" || got.PaidPlatform != "google" ||
		!got.IsBot || got.BotReason != "agent" || !got.ForeignOrigin || got.Unique {
		t.Errorf("%v was stored as %+v", sent, got)
	}
}

// A click that claims to be received more than two seconds after Redis stored it, or after the
// current time, gets the earlier of these times. Its window begins then.
func TestIngester_CorrectsTimesInTheFuture(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	ingester, registry := s.ingester("one", store)
	now := time.Now().UTC().Truncate(time.Millisecond)
	ingester.now = func() time.Time { return now }
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
		id, _ := affiliate.IDFromBytes[affiliate.ClickID](sent.Id)
		if got := store.clicks[id]; !got.ReceivedAt.Equal(want[n]) || !got.ExpiresAt.Equal(click.WindowEnd(want[n], 30)) {
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
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	s.append(newClick(), newClick())
	crashing, _ := s.ingester("one", store)
	entries, err := crashing.reader.Next(t.Context(), 0)
	check(t, err)
	ctx, crash := context.WithCancel(t.Context())
	store.afterStore = crash
	crashing.process(ctx, entries)
	if clicks, _ := store.count(); clicks != 2 || s.pending() != 1 {
		t.Fatalf("%d clicks committed, %d entries pending; want 2 and 1", clicks, s.pending())
	}
	store.afterStore = nil
	restarted, _ := s.ingester("one", store)
	defer run(restarted)()
	pgtest.Eventually(t, "the entry is acknowledged", func() bool { return s.pending() == 0 })
	if clicks, _ := store.count(); clicks != 2 || store.repeated != 2 {
		t.Errorf("%d clicks stored, %d of them twice; want 2 and 2", clicks, store.repeated)
	}
}

func TestIngester_ClaimsEntriesOfDeadConsumers(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
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
	ingester, _ := s.ingester("alive", store)
	ingester.cfg.ClaimEvery = time.Hour // the first round of claims must return all entries
	defer run(ingester)()
	pgtest.Eventually(t, "all clicks are stored", func() bool { n, _ := store.count(); return n == entries })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
}

func TestIngester_RetriesTheBatchWhileTheStoreIsUnreachable(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	store.beforeStore = func(call int, _ []click.Click) error {
		if call <= 12 {
			return errors.New("connection refused")
		}
		return nil
	}
	ingester, _ := s.ingester("one", store)
	ingester.cfg.FirstDelay = time.Millisecond
	for range 50 {
		s.append(newClick())
	}
	defer run(ingester)()
	// While the ingester retries, its own entries become old enough that it claims them.
	pgtest.Eventually(t, "all clicks are stored", func() bool { n, _ := store.count(); return n == 50 })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
	if _, deadLetters := store.count(); deadLetters != 0 || store.repeated != 0 {
		t.Errorf("after an outage: %d dead letters, %d clicks stored twice; want none", deadLetters, store.repeated)
	}
}

func TestIngester_InvalidRecordsBecomeDeadLettersAndOthersAreStored(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	rejected := newClick(func(c *edgev1.Click) { c.SubId = rejectedText })
	s.append(newClick(), newClick())
	s.append(newClick(), rejected, newClick())
	s.append(newClick(func(c *edgev1.Click) { c.Id = []byte("short") }), newClick(), newClick(func(c *edgev1.Click) { c.LinkId = nil }))
	check(t, s.writer.Append(t.Context(), 0, append([]byte{0x0a, 0x02, 0xff, 0xff}, 0x0a, 0x7f), 2)) // an invalid record, then an invalid length
	check(t, s.writer.Append(t.Context(), 0, []byte{}, 0))
	check(t, s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: clickstream.Key(0), Values: []any{"foreign", "field"}}).Err())
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	pgtest.Eventually(t, "all entries are acknowledged", func() bool {
		return s.pending() == 0 && s.client.XLen(t.Context(), clickstream.DeadLetterStream).Val() >= 7
	})
	if clicks, deadLetters := store.count(); clicks != 5 || deadLetters != 7 {
		t.Errorf("%d clicks and %d dead letters, want 5 and 7", clicks, deadLetters)
	}
	id, _ := affiliate.IDFromBytes[affiliate.ClickID](rejected.Id)
	letter := store.deadLetters[id]
	var kept edgev1.Click
	if err := proto.Unmarshal(letter.Record, &kept); err != nil || !proto.Equal(&kept, rejected) || letter.Reason != click.Rejected {
		t.Errorf("the dead letter is %+v (%v), want the rejected click %v", letter, err, rejected)
	}
	reasons := map[click.DeadReason]int{}
	for _, letter := range store.deadLetters {
		reasons[letter.Reason]++
	}
	if reasons[click.Malformed] != 6 {
		t.Errorf("reasons of the dead letters: %v, want 6 malformed", reasons)
	}
}

func TestIngester_ResolvesUnresolvedClicks(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	key := account.NewKey(account.PublicKey, affiliate.ModeTest)
	unresolved := func(key, code string) *edgev1.Click {
		return newClick(func(c *edgev1.Click) {
			c.WorkspaceId, c.ProgramId, c.ParticipantId, c.AttributionWindowDays = nil, nil, nil, 0
			c.PublicKey, c.ReferralCode = key, code
		})
	}
	target := click.Target{
		Scope:   affiliate.Scope{Workspace: affiliate.NewID[affiliate.WorkspaceID](time.Now()), Mode: affiliate.ModeTest},
		Program: affiliate.NewID[affiliate.ProgramID](time.Now()), WindowDays: 7,
	}
	store.targets[click.Source{KeyDigest: key.Digest(), Code: "anna"}] = target
	valid, unknown, invalidKey, rejected := unresolved(key.Reveal(), "Anna"), unresolved(key.Reveal(), "nobody"), unresolved("pk_test_x", "anna"), unresolved(key.Reveal(), rejectedText)
	s.append(valid, unknown, invalidKey, rejected, newClick())
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	pgtest.Eventually(t, "three clicks are dead letters and the entry is acknowledged", func() bool { _, deadLetters := store.count(); return deadLetters == 3 && s.pending() == 0 })
	id, _ := affiliate.IDFromBytes[affiliate.ClickID](valid.Id)
	if got := store.clicks[id]; len(store.clicks) != 2 || got.Program != target.Program || got.Scope != target.Scope || got.ExpiresAt.Sub(got.ReceivedAt) != 7*24*time.Hour {
		t.Errorf("%d clicks are stored, the resolved click as %+v; want 2, and the target %+v", len(store.clicks), got, target)
	}
	for raw, want := range map[*edgev1.Click]click.DeadReason{
		unknown: click.CodeUnknown, invalidKey: click.KeyUnknown, rejected: click.Rejected,
	} {
		id, _ := affiliate.IDFromBytes[affiliate.ClickID](raw.Id)
		if got := store.deadLetters[id].Reason; got != want {
			t.Errorf("%v became a dead letter with the reason %q, want %q", raw, got, want)
		}
	}
}

func TestIngester_CountsEntriesThatDisappeared(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	dead := s.reader("dead")
	s.append(newClick())
	_, err := dead.Next(t.Context(), 0)
	check(t, err)
	check(t, s.client.XTrimMaxLen(t.Context(), clickstream.Key(0), 0).Err())
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	pgtest.Eventually(t, "the entry is counted as lost", func() bool { return testutil.ToFloat64(ingester.metrics.lost) == 1 })
	if clicks, deadLetters := store.count(); clicks != 0 || deadLetters != 0 {
		t.Errorf("%d clicks and %d dead letters were stored, want none", clicks, deadLetters)
	}
}

func TestIngester_CountsALostStream(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	s.append(newClick())
	pgtest.Eventually(t, "the first click is acknowledged", func() bool { return testutil.ToFloat64(ingester.metrics.acknowledged) == 1 })
	if n := testutil.ToFloat64(ingester.metrics.recreated); n != 0 {
		t.Errorf("%v consumer groups are counted as created again before the loss, want none", n)
	}
	check(t, s.client.FlushDB(t.Context()).Err())
	pgtest.Eventually(t, "the group is counted as created again", func() bool { return testutil.ToFloat64(ingester.metrics.recreated) == 1 })
	s.append(newClick())
	pgtest.Eventually(t, "the second click is stored", func() bool { n, _ := store.count(); return n == 2 })
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
			s, store := newStream(t, server.URL), newMemoryStore()
			ingester := New(Config{TrimEvery: c.trimEvery, FirstDelay: time.Millisecond}, Deps{Reader: s.reader("one"), Store: store})
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
			pgtest.Eventually(t, "the third click is stored", func() bool { n, _ := store.count(); return n == 3 })
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
	s, store := newStream(t, server.URL), newMemoryStore()
	ingester, _ := s.ingester("one", store)
	var warningLogged atomic.Bool
	ingester.log = slog.New(warningFlag{slog.DiscardHandler, &warningLogged})
	defer run(ingester)()
	s.append(newClick())
	pgtest.Eventually(t, "the first click is stored", func() bool { n, _ := store.count(); return n == 1 })
	server.Kill9()
	pgtest.Eventually(t, "the ingester notices the outage", warningLogged.Load)
	server.Restart()
	pgtest.Eventually(t, "an append succeeds", func() bool {
		raw, _ := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{newClick()}})
		return s.writer.Append(context.Background(), 0, raw, 1) == nil
	})
	pgtest.Eventually(t, "the second click is stored", func() bool { n, _ := store.count(); return n >= 2 })
	pgtest.Eventually(t, "all entries are acknowledged", func() bool { return s.pending() == 0 })
}

func TestRun_StopFinishesTheCurrentBatch(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	storeCalled, storeMayReturn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	store.beforeStore = func(int, []click.Click) error {
		once.Do(func() { close(storeCalled) })
		<-storeMayReturn
		return nil
	}
	ingester, _ := s.ingester("one", store)
	s.append(newClick())
	stop := run(ingester)
	<-storeCalled
	time.AfterFunc(50*time.Millisecond, func() { close(storeMayReturn) })
	stop()
	if clicks, _ := store.count(); clicks != 1 || s.pending() != 0 {
		t.Errorf("%d clicks stored, %d entries pending; want 1 and 0", clicks, s.pending())
	}
}

func TestRun_StopDoesNotWaitForAnUnreachableStore(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	store.beforeStore = func(int, []click.Click) error { return errors.New("connection refused") }
	ingester, _ := s.ingester("one", store)
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
