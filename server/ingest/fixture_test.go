package ingest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// stream is a click stream and a database that only one test uses.
type stream struct {
	*pgtest.Fixture
	url    string
	client redis.UniversalClient
	writer *clickstream.Writer
}

func newStream(t testing.TB, url string) *stream {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return &stream{Fixture: pgtest.Open(t, time.Now), url: url, client: client, writer: clickstream.NewWriter(client, 1)}
}

// clicks returns the number of stored clicks.
func (s *stream) clicks() int {
	s.Helper()
	return s.Count(`select count(*) from clicks`)
}

// deadLetters returns the number of stored dead letters.
func (s *stream) deadLetters() int {
	s.Helper()
	return s.Count(`select count(*) from click_dead_letters`)
}

// storedClick is the row of a click that was stored in the last hour. Values contains the
// columns that selectClick combines.
type storedClick struct {
	WorkspaceID                    affiliate.WorkspaceID
	ProgramID                      affiliate.ProgramID
	ParticipantID                  affiliate.ParticipantID
	LinkID                         affiliate.LinkID
	Mode                           affiliate.Mode
	ClickedAt, OccurredAt          time.Time
	ReceivedAt, ExpiresAt          time.Time
	IsUnique, IsBot, ForeignOrigin bool
	Values                         string
}

const selectClick = `
	select workspace_id, program_id, participant_id, link_id, mode, clicked_at, received_at, expires_at,
		coalesce(occurred_at, clicked_at) as occurred_at, is_unique, is_bot, foreign_origin, array_to_string(array[
			referral_code, consent, landing_url, referrer_domain, utm_source, utm_medium, utm_campaign, utm_term, utm_content, sub_id, language,
			screen, encode(ip_hash, 'escape'), ip_prefix, encode(ua_hash, 'escape'), bot_reason, country, region, device, browser, os, paid_platform
		], ' ', '-') as values
	from clicks where id = $1 and created_at > now() - interval '1 hour'`

// stored returns the row of a click.
func (s *stream) stored(c *edgev1.Click) storedClick {
	s.Helper()
	rows, err := s.DB.Query(s.Context(), selectClick, clickID(c))
	check(s, err)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[storedClick])
	if err != nil {
		s.Fatalf("read the click %v: %v", c, err)
	}
	for _, at := range []*time.Time{&row.ClickedAt, &row.OccurredAt, &row.ReceivedAt, &row.ExpiresAt} {
		*at = at.UTC()
	}
	return row
}

func clickID(c *edgev1.Click) affiliate.ClickID {
	id, _ := affiliate.IDFromBytes[affiliate.ClickID](c.Id)
	return id
}

// deadLetter returns the dead letter of a click.
func (s *stream) deadLetter(c *edgev1.Click) (reason click.DeadReason, record []byte) {
	s.Helper()
	if err := s.SQL.QueryRow(s.Context(), `select reason, record from click_dead_letters where id = $1`, clickID(c).UUID).Scan(&reason, &record); err != nil {
		s.Fatalf("read the dead letter of %v: %v", c, err)
	}
	return reason, record
}

// newSource creates a public key and a participant with the code anna. The attribution window
// is 7 days.
func (s *stream) newSource() (account.Key, pgtest.Participant) {
	s.Helper()
	shop := s.NewShop(affiliate.ModeTest)
	anna := shop.Join("Anna", pgtest.Row{"referral_code": "anna"})
	s.Exec(`update programs set attribution_window_days = 7 where id = $1`, shop.Program)
	key := account.NewKey(account.PublicKey, affiliate.ModeTest)
	digest := key.Digest()
	s.Insert("api_keys", pgtest.Row{
		"workspace_id": shop.Scope.Workspace, "id": affiliate.NewID[affiliate.APIKeyID](s.Now()), "mode": shop.Scope.Mode, "kind": "public", "name": "Shop",
		"digest": digest[:], "public_text": key.Reveal(), "prefix": key.Prefix(), "last4": key.Last4(), "created_at": s.Now(),
	})
	return key, anna
}

// failing opens a handle of the database. Its transactions fail at their first statement while
// fails returns true for their number, which begins with 1.
func (s *stream) failing(fails func(transaction int64) bool) *postgres.DB {
	s.Helper()
	var transactions atomic.Int64
	return s.OpenHooked(func(sql string, _ []any) error {
		if sql == "begin" && fails(transactions.Add(1)) {
			return errors.New("connection refused")
		}
		return nil
	})
}

// rejectedText is a text that Postgres rejects.
const rejectedText = "poison\x00"

// claimIdle is how long an entry must be pending before another consumer claims it.
const claimIdle = 30 * time.Millisecond

func (s *stream) reader(consumer string) *clickstream.Reader {
	s.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: s.url})
	check(s, err)
	blocking, err := clickstream.ConnectBlocking(clickstream.Endpoint{URL: s.url})
	check(s, err)
	s.Cleanup(func() { _, _ = client.Close(), blocking.Close() })
	return clickstream.NewReader(client, blocking, clickstream.ReaderConfig{
		Shards: 1, Consumer: consumer, Block: 50 * time.Millisecond, ClaimIdle: claimIdle,
	})
}

func (s *stream) ingester(consumer string, db *postgres.DB) (*Ingester, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return New(Config{ClaimEvery: 20 * time.Millisecond, TrimEvery: 20 * time.Millisecond, FirstDelay: time.Millisecond, StopTimeout: 2 * time.Second},
		Deps{Reader: s.reader(consumer), DB: db, Registry: registry}), registry
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
	s.Helper()
	raw, err := proto.Marshal(&edgev1.ClickBatch{Clicks: clicks})
	check(s, err)
	check(s, s.writer.Append(context.Background(), 0, raw, len(clicks)))
}

func (s *stream) pending() int64 {
	s.Helper()
	summary, err := s.client.XPending(context.Background(), clickstream.Key(0), clickstream.Group).Result()
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		return -1 // no consumer has read yet
	}
	check(s, err)
	return summary.Count
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
