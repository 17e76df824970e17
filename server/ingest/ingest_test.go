package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is a Store that behaves like the real one: whole batches, the first
// write of an id wins.
type table struct {
	mu       sync.Mutex
	clicks   map[affiliate.ClickID]affiliate.Click
	letters  map[affiliate.ClickID]affiliate.ClickDeadLetter
	targets  map[affiliate.ClickSource]affiliate.ClickTarget
	calls    int
	repeated int
	// before runs at the start of each StoreClicks, after at its end.
	before func(call int, clicks []affiliate.Click) error
	after  func()
}

func newTable() *table {
	return &table{
		clicks:  make(map[affiliate.ClickID]affiliate.Click),
		letters: make(map[affiliate.ClickID]affiliate.ClickDeadLetter),
		targets: make(map[affiliate.ClickSource]affiliate.ClickTarget),
	}
}

type rejected struct{}

func (rejected) Error() string     { return "invalid input (SQLSTATE 22021)" }
func (rejected) RejectsData() bool { return true }

func (s *table) StoreClicks(_ context.Context, clicks []affiliate.Click) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.before != nil {
		if err := s.before(s.calls, clicks); err != nil {
			return err
		}
	}
	for _, click := range clicks {
		if click.SubID == "poison" {
			return fmt.Errorf("clicks: %w", rejected{})
		}
	}
	for _, click := range clicks {
		if _, there := s.clicks[click.ID]; there {
			s.repeated++
			continue
		}
		s.clicks[click.ID] = click
	}
	if s.after != nil {
		s.after()
	}
	return nil
}

func (s *table) ResolveClicks(_ context.Context, sources []affiliate.ClickSource) ([]Resolution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]Resolution, len(sources))
	for n, source := range sources {
		if source.Code == "poison" {
			return nil, rejected{}
		}
		if target, ok := s.targets[source]; ok {
			answers[n].Target = target
		} else {
			answers[n].Dead = affiliate.ClickCodeUnknown
		}
	}
	return answers, nil
}

func (s *table) DeadLetterClicks(_ context.Context, letters []affiliate.ClickDeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, letter := range letters {
		s.letters[letter.ID] = letter
	}
	return nil
}

func (s *table) count() (clicks, letters int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clicks), len(s.letters)
}

// stream is a click stream of the test's own.
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

// claimIdle is how long an entry of another consumer is left alone here.
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

// run starts an ingester and returns what stops it.
func run(i *Ingester) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { i.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func click(change ...func(*edgev1.Click)) *edgev1.Click {
	now := time.Now()
	id, workspace := affiliate.NewID[affiliate.Click](now), affiliate.NewID[affiliate.Workspace](now)
	c := &edgev1.Click{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_TEST, WorkspaceId: workspace.UUID[:], ProgramId: workspace.UUID[:], ParticipantId: workspace.UUID[:],
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
		return -1 // nobody has read yet
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

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func TestEveryClickIsStoredAcknowledgedAndTrimmed(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	ingester, registry := s.ingester("one", store)
	s.append(click()) // before the group exists
	defer run(ingester)()
	const entries = 400
	for range entries {
		s.append(click(), click(), click())
	}
	eventually(t, "all stored", func() bool { n, _ := store.count(); return n == 3*entries+1 })
	eventually(t, "all acknowledged", func() bool { return s.pending() == 0 })
	eventually(t, "trimmed", func() bool { return s.client.XLen(t.Context(), clickstream.Key(0)).Val() < 150 })
	if store.repeated != 0 || store.calls > entries {
		t.Errorf("%d repetitions, %d calls", store.repeated, store.calls)
	}
	if n, err := testutil.GatherAndCount(registry, "tributary_ingest_clicks_stored_total", "tributary_ingest_entries_lost_total"); err != nil || n != 2 {
		t.Error(n, err)
	}
}

// Dead letters hold hashed addresses, on the stream as in the table.
func TestDeadLettersOfTheStreamAreDroppedByAge(t *testing.T) {
	s := newStream(t, redistest.New(t))
	kept := time.Now().Add(-90 * 24 * time.Hour)
	for _, at := range []time.Time{kept.Add(-time.Hour), kept.Add(-time.Minute), kept.Add(time.Minute), time.Now()} {
		check(t, s.client.XAdd(t.Context(), &redis.XAddArgs{
			Stream: clickstream.DeadLetterStream, ID: fmt.Sprint(at.UnixMilli(), "-0"), Values: []any{"b", "?"},
		}).Err())
	}
	ingester, _ := s.ingester("one", newTable())
	defer run(ingester)()
	eventually(t, "trimmed", func() bool { return s.client.XLen(t.Context(), clickstream.DeadLetterStream).Val() <= 2 })
	left, err := s.client.XRange(t.Context(), clickstream.DeadLetterStream, "-", "+").Result()
	check(t, err)
	if len(left) != 2 || clickstream.EntryTime(left[0].ID).Before(kept) {
		t.Errorf("%v are left", left)
	}
}

func TestFieldsSurviveTheStream(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	ingester, _ := s.ingester("one", store)
	sent := click(func(c *edgev1.Click) {
		c.LinkId = c.WorkspaceId
		c.UtmSource, c.UtmContent, c.SubId, c.Language, c.Screen = "mail", "top", "s", "de", "1x1"
		c.Consent, c.IpHash, c.IpPrefix, c.UaHash = edgev1.Consent_CONSENT_GRANTED, []byte("ip"), "203.0.113.0/24", []byte("ua")
		c.OccurredAtMs, c.LandingUrl, c.ReferrerDomain = 1767323045000, "https://x/", "news.example"
		c.Country, c.Region, c.Device, c.Browser, c.Os, c.PaidPlatform = "GB", "ENG", "tablet", "Firefox", "Linux", "google"
		c.IsBot, c.BotReason, c.ForeignOrigin = true, "agent", true
	})
	s.append(sent)
	defer run(ingester)()
	eventually(t, "stored", func() bool { n, _ := store.count(); return n == 1 })
	id, _ := affiliate.IDFromBytes[affiliate.Click](sent.Id)
	got := store.clicks[id]
	minted, _ := id.Time()
	if got.ClickedAt != minted || got.ReceivedAt.UnixMilli() != sent.ReceivedAtMs || got.ExpiresAt.Sub(got.ReceivedAt) != 30*24*time.Hour ||
		got.OccurredAt.UnixMilli() != sent.OccurredAtMs || got.Scope.Mode != affiliate.ModeTest || !bytes.Equal(got.Link.UUID[:], sent.LinkId) ||
		got.UTM.Source != "mail" || got.UTM.Content != "top" || got.Consent != affiliate.ConsentGranted || string(got.IPHash) != "ip" || got.CreatedAt.IsZero() ||
		got.Country != "GB" || got.Region != "ENG" || got.Device != "tablet" || got.Browser != "Firefox" || got.OS != "Linux" || got.PaidPlatform != "google" ||
		!got.IsBot || got.BotReason != "agent" || !got.ForeignOrigin || got.Unique {
		t.Errorf("%+v", got)
	}
}

// What an edge says that cannot be is dropped, and its click kept. An edge of the
// release before says nothing.
func TestOddValuesCostNoClick(t *testing.T) {
	type values struct{ country, region, device, browser, os, platform, reason string }
	long := strings.Repeat("x", 41)
	for said, want := range map[values]values{
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
		r, err := fromEdge(click(func(c *edgev1.Click) {
			c.Country, c.Region, c.Device, c.Browser, c.Os, c.PaidPlatform, c.BotReason =
				said.country, said.region, said.device, said.browser, said.os, said.platform, said.reason
		}))
		check(t, err)
		c := r.click
		if got := (values{c.Country, c.Region, c.Device, c.Browser, c.OS, c.PaidPlatform, c.BotReason}); got != want {
			t.Errorf("%+v became %+v, want %+v", said, got, want)
		}
	}
}

// The crash between commit and acknowledgement: the click is committed, the
// process is gone, and the next one reads the entry again.
func TestCrashBetweenCommitAndAcknowledgementDoublesNothing(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	s.append(click(), click())
	crashing, _ := s.ingester("one", store)
	entries, err := crashing.reader.Next(t.Context(), 0)
	check(t, err)
	ctx, crash := context.WithCancel(t.Context())
	store.after = crash
	crashing.process(ctx, entries)
	if clicks, _ := store.count(); clicks != 2 || s.pending() != 1 {
		t.Fatalf("%d committed, %d pending", clicks, s.pending())
	}
	store.after = nil
	restarted, _ := s.ingester("one", store)
	defer run(restarted)()
	eventually(t, "acknowledged", func() bool { return s.pending() == 0 })
	if clicks, _ := store.count(); clicks != 2 || store.repeated != 2 {
		t.Errorf("%d clicks, %d repetitions", clicks, store.repeated)
	}
}

func TestDeadConsumersClicksAreTakenOver(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	dead := s.reader("dead")
	const left = 300 // more than one claim takes
	for range left {
		s.append(click())
	}
	for s.pending() < left {
		_, err := dead.Next(t.Context(), 0)
		check(t, err)
	}
	time.Sleep(2 * claimIdle)
	ingester, _ := s.ingester("alive", store)
	ingester.cfg.ClaimEvery = time.Hour // all of it in one go
	defer run(ingester)()
	eventually(t, "all stored", func() bool { n, _ := store.count(); return n == left })
	eventually(t, "all acknowledged", func() bool { return s.pending() == 0 })
}

func TestUnreachableStoreKeepsTheBatch(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	store.before = func(call int, _ []affiliate.Click) error {
		if call <= 12 {
			return errors.New("connection refused")
		}
		return nil
	}
	ingester, _ := s.ingester("one", store)
	ingester.cfg.FirstDelay = time.Millisecond
	for range 50 {
		s.append(click())
	}
	defer run(ingester)()
	// Meanwhile its own entries grow old enough to be claimed by itself.
	eventually(t, "all stored", func() bool { n, _ := store.count(); return n == 50 })
	eventually(t, "all acknowledged", func() bool { return s.pending() == 0 })
	if _, letters := store.count(); letters != 0 || store.repeated != 0 {
		t.Errorf("%d dead letters, %d repetitions: an outage is no one's fault", letters, store.repeated)
	}
}

func TestPoisonIsSetAsideAndItsNeighboursStored(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	poison := click(func(c *edgev1.Click) { c.SubId = "poison" })
	s.append(click(), click())
	s.append(click(), poison, click())
	s.append(click(func(c *edgev1.Click) { c.Id = []byte("short") }), click())
	check(t, s.writer.Append(t.Context(), 0, append([]byte{0x0a, 0x02, 0xff, 0xff}, 0x0a, 0x7f), 2)) // a record and a length that are none
	check(t, s.writer.Append(t.Context(), 0, []byte{}, 0))
	check(t, s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: clickstream.Key(0), Values: []any{"foreign", "field"}}).Err())
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	eventually(t, "all acknowledged", func() bool {
		return s.pending() == 0 && s.client.XLen(t.Context(), clickstream.DeadLetterStream).Val() >= 6
	})
	if clicks, letters := store.count(); clicks != 5 || letters != 6 {
		t.Errorf("%d clicks and %d letters", clicks, letters)
	}
	id, _ := affiliate.IDFromBytes[affiliate.Click](poison.Id)
	letter := store.letters[id]
	var kept edgev1.Click
	if err := proto.Unmarshal(letter.Record, &kept); err != nil || !proto.Equal(&kept, poison) || letter.Reason != affiliate.ClickRejected {
		t.Errorf("%+v %v", letter, err)
	}
	reasons := map[affiliate.ClickDeadReason]int{}
	for _, letter := range store.letters {
		reasons[letter.Reason]++
	}
	if reasons[affiliate.ClickMalformed] != 5 {
		t.Errorf("%v", reasons)
	}
}

func TestUnresolvedClicksAreResolved(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	key := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
	blind := func(key, code string) *edgev1.Click {
		return click(func(c *edgev1.Click) {
			c.WorkspaceId, c.ProgramId, c.ParticipantId, c.AttributionWindowDays = nil, nil, nil, 0
			c.PublicKey, c.ReferralCode = key, code
		})
	}
	target := affiliate.ClickTarget{
		Scope:   affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](time.Now()), Mode: affiliate.ModeTest},
		Program: affiliate.NewID[affiliate.Program](time.Now()), WindowDays: 7,
	}
	store.targets[affiliate.ClickSource{KeyDigest: key.Digest(), Code: "anna"}] = target
	good, unknown, noKey, poison := blind(key.Reveal(), "Anna"), blind(key.Reveal(), "nobody"), blind("pk_test_x", "anna"), blind(key.Reveal(), "poison")
	s.append(good, unknown, noKey, poison, click())
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	eventually(t, "acknowledged", func() bool { _, letters := store.count(); return letters == 3 && s.pending() == 0 })
	id, _ := affiliate.IDFromBytes[affiliate.Click](good.Id)
	if got := store.clicks[id]; len(store.clicks) != 2 || got.Program != target.Program || got.Scope != target.Scope || got.ExpiresAt.Sub(got.ReceivedAt) != 7*24*time.Hour {
		t.Errorf("%d clicks, %+v", len(store.clicks), got)
	}
	for raw, want := range map[*edgev1.Click]affiliate.ClickDeadReason{
		unknown: affiliate.ClickCodeUnknown, noKey: affiliate.ClickKeyUnknown, poison: affiliate.ClickRejected,
	} {
		id, _ := affiliate.IDFromBytes[affiliate.Click](raw.Id)
		if got := store.letters[id].Reason; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVanishedEntriesRaiseTheAlarm(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	dead := s.reader("dead")
	s.append(click())
	_, err := dead.Next(t.Context(), 0)
	check(t, err)
	check(t, s.client.XTrimMaxLen(t.Context(), clickstream.Key(0), 0).Err())
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	eventually(t, "the alarm", func() bool { return testutil.ToFloat64(ingester.metrics.lost) == 1 })
	if clicks, letters := store.count(); clicks != 0 || letters != 0 {
		t.Errorf("%d clicks, %d letters of nothing", clicks, letters)
	}
}

func TestALostStreamIsCounted(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	s.append(click())
	eventually(t, "the first is acknowledged", func() bool { return testutil.ToFloat64(ingester.metrics.acknowledged) == 1 })
	if n := testutil.ToFloat64(ingester.metrics.recreated); n != 0 {
		t.Errorf("the first group counts: %v", n)
	}
	check(t, s.client.FlushDB(t.Context()).Err())
	eventually(t, "the alarm", func() bool { return testutil.ToFloat64(ingester.metrics.recreated) == 1 })
	s.append(click())
	eventually(t, "the second", func() bool { n, _ := store.count(); return n == 2 })
}

func TestAStreamThatLostItsLatestEntriesIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		trimEvery time.Duration
		// notice makes the ingester check the stream.
		notice func(*stream) error
	}{
		"while it is read": {20 * time.Millisecond, func(*stream) error { return nil }},
		"after a lost connection": {time.Hour, func(s *stream) error {
			return s.client.Do(context.Background(), "client", "kill", "type", "normal").Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			s, store := newStream(t, server.URL), newTable()
			ingester := New(Config{TrimEvery: c.trimEvery, FirstDelay: time.Millisecond}, Deps{Reader: s.reader("one"), Store: store})
			defer run(ingester)()
			acknowledged := func(n float64) func() bool {
				return func() bool { return testutil.ToFloat64(ingester.metrics.acknowledged) == n }
			}
			s.append(click())
			eventually(t, "the first is acknowledged", acknowledged(1))
			older, err := s.client.Dump(t.Context(), clickstream.Key(0)).Result()
			check(t, err)
			s.append(click())
			eventually(t, "the second is acknowledged", acknowledged(2))
			if n := testutil.ToFloat64(ingester.metrics.lost); n != 0 {
				t.Errorf("%v lost before the loss", n)
			}
			check(t, s.client.RestoreReplace(t.Context(), clickstream.Key(0), 0, older).Err())
			check(t, c.notice(s))
			eventually(t, "the alarm", func() bool { return testutil.ToFloat64(ingester.metrics.lost) == 1 })
			s.append(click())
			eventually(t, "the third", func() bool { n, _ := store.count(); return n == 3 })
		})
	}
}

func TestRedisMayGoAndComeBack(t *testing.T) {
	server := redistest.Start(t)
	s, store := newStream(t, server.URL), newTable()
	ingester, _ := s.ingester("one", store)
	defer run(ingester)()
	s.append(click())
	eventually(t, "the first", func() bool { n, _ := store.count(); return n == 1 })
	server.Kill9()
	time.Sleep(100 * time.Millisecond)
	server.Restart()
	eventually(t, "an append", func() bool {
		raw, _ := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{click()}})
		return s.writer.Append(context.Background(), 0, raw, 1) == nil
	})
	eventually(t, "the second", func() bool { n, _ := store.count(); return n >= 2 })
	eventually(t, "all acknowledged", func() bool { return s.pending() == 0 })
}

func TestStopFinishesWhatIsInHand(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	store.before = func(int, []affiliate.Click) error {
		once.Do(func() { close(entered) })
		<-leave
		return nil
	}
	ingester, _ := s.ingester("one", store)
	s.append(click())
	stop := run(ingester)
	<-entered
	time.AfterFunc(50*time.Millisecond, func() { close(leave) })
	stop()
	if clicks, _ := store.count(); clicks != 1 || s.pending() != 0 {
		t.Errorf("%d stored, %d pending", clicks, s.pending())
	}
}

func TestStopDoesNotWaitForAStoreThatIsAway(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newTable()
	store.before = func(int, []affiliate.Click) error { return errors.New("away") }
	ingester, _ := s.ingester("one", store)
	ingester.cfg.StopTimeout = 100 * time.Millisecond
	s.append(click())
	stop := run(ingester)
	eventually(t, "delivered", func() bool { return s.pending() == 1 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 2*time.Second || s.pending() != 1 {
		t.Errorf("the stop took %s, %d pending", took, s.pending())
	}
}

func FuzzUnpack(f *testing.F) {
	raw, _ := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{click(), click()}})
	f.Add(raw)
	f.Add([]byte{0x0a, 0x7f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := unpack(clickstream.Entry{ID: "1-1", Batch: raw})
		if len(p.records)+len(p.dead) == 0 && len(raw) == 0 {
			t.Fatal("an empty entry leaves no trace")
		}
	})
}
