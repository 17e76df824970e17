package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/visitors"
)

const (
	// rowsPerRound is the number of clicks that each side stores in a round. SCALE
	// multiplies it.
	rowsPerRound = 250_000
	// batchRows is the maximum number of clicks that ingestion stores in one transaction.
	batchRows = 5000
	// entryClicks is the number of clicks per stream entry of a busy collector.
	entryClicks = 128
	// drainTimeout is the maximum duration of one round of the rows I2 and I3.
	drainTimeout = 5 * time.Minute
)

// measureIngestion measures the rows I1 to I3.
func measureIngestion(ctx context.Context, b *bench) error {
	i, err := newIngestion(ctx, b)
	if i != nil {
		defer i.close()
	}
	if err != nil {
		return err
	}
	for _, row := range []struct {
		id, what, goal string
		ours           side
	}{
		{"I1", "clicks stored from memory, rows", "≥ 0.95", i.storeClicks},
		{"I2", "clicks from stream to acknowledged, rows", "≥ 0.85", i.drainStream},
	} {
		// The yardstick copies the rows that the service has stored last, so store rows
		// once before the first round.
		if _, err := row.ours(ctx); err != nil {
			return err
		}
		got, err := b.takeTurns(ctx, row.what, row.ours, b.yardstick(i.copyRows))
		if err != nil {
			return err
		}
		b.compare(row.id, row.what, "raw COPY", row.goal, got[0], got[1], rate, perSecond)
	}
	return i.measureRegion(ctx)
}

// ingestion contains a database for the service (ours) and a database for the yardstick
// (twin).
type ingestion struct {
	b                *bench
	rows             int
	ours, twin       *database
	postgres         *postgres.DB
	redisURL         string
	stream, blocking redis.UniversalClient
	cache            redis.UniversalClient
	workspace        affiliate.WorkspaceID
}

func newIngestion(ctx context.Context, b *bench) (i *ingestion, err error) {
	i = &ingestion{b: b, rows: rowsPerRound * b.scale, workspace: affiliate.NewID[affiliate.WorkspaceID](time.Now())}
	if i.ours, err = b.newDatabase(ctx, "ingestion", ""); err != nil {
		return i, err
	}
	if i.postgres, err = postgres.Open(ctx, postgres.Config{URL: i.ours.url}); err != nil {
		return i, err
	}
	yesterday, tomorrow := time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1)
	if _, err = postgres.EnsureClickPartitions(ctx, i.postgres, yesterday, tomorrow); err != nil {
		return i, err
	}
	if i.twin, err = b.newDatabase(ctx, "twin", ""); err != nil {
		return i, err
	}
	partitions := fmt.Sprintf("select ensure_click_partitions('%s', '%s')", yesterday.UTC().Format(time.DateOnly), tomorrow.UTC().Format(time.DateOnly))
	if err = execute(ctx, i.twin.url, partitions); err != nil {
		return i, err
	}
	if i.redisURL, err = b.redisURL(ingestionRedis); err != nil {
		return i, err
	}
	endpoint := clickstream.Endpoint{URL: i.redisURL}
	if i.stream, err = clickstream.Connect(endpoint); err != nil {
		return i, err
	}
	if i.cache, err = clickstream.Connect(endpoint); err != nil {
		return i, err
	}
	i.blocking, err = clickstream.ConnectBlocking(endpoint)
	return i, err
}

func (i *ingestion) close() {
	for _, client := range []redis.UniversalClient{i.stream, i.blocking, i.cache} {
		if client != nil {
			_ = client.Close()
		}
	}
	if i.postgres != nil {
		i.postgres.Close()
	}
	for _, d := range []*database{i.ours, i.twin} {
		if d != nil {
			d.drop()
		}
	}
}

// prepare truncates the table of clicks and waits until the disk is idle.
func (i *ingestion) prepare(ctx context.Context, d *database) error {
	if err := execute(ctx, d.url, "truncate clicks"); err != nil {
		return err
	}
	return i.b.settle(ctx)
}

func (i *ingestion) sampleSince(began time.Time) sample {
	return sample{rate: float64(i.rows) / time.Since(began).Seconds()}
}

// storeClicks measures only the database part of ingestion.
func (i *ingestion) storeClicks(ctx context.Context) (sample, error) { return i.store(ctx, i.click) }

// store measures only the database part of ingestion. click returns click n of a round that
// ends at end.
func (i *ingestion) store(ctx context.Context, decoded func(end time.Time, n int) *edgev1.Click) (sample, error) {
	stored := make([]click.Click, i.rows)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for n := range stored {
		c, ok := ingest.FromEdge(decoded(now, n), now, now)
		if !ok {
			return sample{}, errors.New("ingestion would not store the click")
		}
		c.CreatedAt, c.Unique = now, visitorOf(n) == n
		stored[n] = c
	}
	if err := i.prepare(ctx, i.ours); err != nil {
		return sample{}, err
	}
	began := time.Now()
	for batch := range slices.Chunk(stored, batchRows) {
		if err := clicks.Store(ctx, i.postgres, batch); err != nil {
			return sample{}, err
		}
	}
	return i.sampleSince(began), nil
}

// copyRows is the yardstick. It copies the rows that the service has stored last into the
// other database, in the same batches.
func (i *ingestion) copyRows(ctx context.Context) (got sample, err error) {
	columns, stored, err := i.storedRows(ctx)
	if err != nil {
		return got, err
	}
	if err := i.prepare(ctx, i.twin); err != nil {
		return got, err
	}
	conn, err := pgx.Connect(ctx, i.twin.url)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	began := time.Now()
	for batch := range slices.Chunk(stored, batchRows) {
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"clicks"}, columns, pgx.CopyFromRows(batch)); err != nil {
			return got, err
		}
	}
	return i.sampleSince(began), nil
}

// storedRows returns the rows that the service has stored. It returns an error if rows
// are missing.
func (i *ingestion) storedRows(ctx context.Context) (columns []string, values [][]any, err error) {
	conn, err := pgx.Connect(ctx, i.ours.url)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// The rows are read in the order in which they were written. An insertion in the
	// order of their ids would be faster, because of the index.
	rows, err := conn.Query(ctx, "select * from clicks order by tableoid, ctid")
	if err != nil {
		return nil, nil, err
	}
	for _, field := range rows.FieldDescriptions() {
		columns = append(columns, field.Name)
	}
	values, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err == nil && len(values) != i.rows {
		err = fmt.Errorf("%d of %d clicks were stored", len(values), i.rows)
	}
	return columns, values, err
}

const (
	// streamBlock is the time for which a read of the stream waits for new entries. An
	// ingester also needs up to this time to stop.
	streamBlock = 100 * time.Millisecond
	// pollInterval is the pause between two checks for the end of a round.
	pollInterval = 5 * time.Millisecond
)

// drainStream measures the whole ingestion.
func (i *ingestion) drainStream(ctx context.Context) (sample, error) {
	return i.drain(ctx, i.stream, i.blocking)
}

// drain measures the whole ingestion over two clients of the stream. The measurement starts
// with a full stream and ends when the clicks of every entry are committed and every entry
// is acknowledged.
func (i *ingestion) drain(ctx context.Context, stream, blocking redis.UniversalClient) (sample, error) {
	lastID, err := i.fillStream(ctx)
	if err != nil {
		return sample{}, err
	}
	if err := i.prepare(ctx, i.ours); err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	ingester := ingest.New(ingest.Config{}, ingest.Deps{
		Reader:   clickstream.NewReader(stream, blocking, clickstream.ReaderConfig{Shards: 1, Consumer: "load", Block: streamBlock}),
		DB:       i.postgres,
		Visitors: visitors.New(i.cache),
	})
	working, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	began := time.Now()
	running.Go(func() { ingester.Run(working) })
	err = i.awaitAcknowledged(ctx, lastID)
	got := i.sampleSince(began)
	stop()
	running.Wait()
	if err != nil {
		return sample{}, err
	}
	// Delete the stream and the visitors of this round.
	return got, i.stream.FlushDB(ctx).Err()
}

// awaitAcknowledged waits until all entries up to the given last entry are acknowledged.
func (i *ingestion) awaitAcknowledged(ctx context.Context, lastID string) error {
	for {
		groups, err := i.stream.XInfoGroups(ctx, clickstream.Key(0)).Result()
		if err != nil {
			return err
		}
		for _, group := range groups {
			if group.Name == clickstream.Group && group.Pending == 0 && group.LastDeliveredID == lastID {
				return nil
			}
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("the stream was not read completely: %w", err)
		}
	}
}

// fillStream appends the clicks of a round to the stream and returns the id of the last
// entry.
func (i *ingestion) fillStream(ctx context.Context) (lastID string, err error) {
	writer := clickstream.NewWriter(i.stream, 1)
	now := time.Now()
	for n := 0; n < i.rows; {
		batch := &edgev1.ClickBatch{}
		for ; n < i.rows && len(batch.Clicks) < entryClicks; n++ {
			batch.Clicks = append(batch.Clicks, i.click(now, n))
		}
		raw, err := proto.Marshal(batch)
		if err != nil {
			return "", err
		}
		if err := writer.Append(ctx, 0, raw, len(batch.Clicks)); err != nil {
			return "", err
		}
	}
	info, err := i.stream.XInfoStream(ctx, clickstream.Key(0)).Result()
	if err != nil {
		return "", err
	}
	return info.LastGeneratedID, nil
}

const (
	// clickEvery is the time between two clicks of a round. So 25 clicks have the same
	// millisecond, as in a busy collector.
	clickEvery = 40 * time.Microsecond
	// returnAfter is the number of clicks after which every second visitor clicks again.
	// So visitors have 1.5 clicks on average. returnAfter must not be a multiple of
	// three: otherwise visitorOf would return the number of a visitor's second click.
	returnAfter = 3001
)

// visitorOf returns the number of a visitor, which is the number of its first click. n is a
// click of the visitor.
func visitorOf(n int) int {
	if n%3 == 2 && n >= returnAfter {
		return n - returnAfter
	}
	return n
}

// click returns the click that the collector creates from clickBody. n is its number in
// a round that ends at end.
func (i *ingestion) click(end time.Time, n int) *edgev1.Click {
	at := end.Add(-clickEvery * time.Duration(i.rows-n))
	id := affiliate.NewID[affiliate.ClickID](at)
	visitor := sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(end.UnixNano())), uint64(visitorOf(n))))
	return &edgev1.Click{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE,
		WorkspaceId: i.workspace.UUID[:], ProgramId: i.workspace.UUID[:], ParticipantId: i.workspace.UUID[:], LinkId: i.workspace.UUID[:],
		ReferralCode: clickCode, ReceivedAtMs: at.UnixMilli(),
		LandingUrl: "https://shop.example.com/spring/collection", ReferrerDomain: "blog.example.org",
		UtmSource: "newsletter", UtmMedium: "email", UtmCampaign: "spring", SubId: "banner-7",
		Consent: edgev1.Consent_CONSENT_GRANTED, Language: "en-GB", Screen: "1920x1080",
		Country: "GB", Region: "ENG", Device: "desktop", Browser: "Firefox", Os: "Windows",
		IpHash: visitor[:16], IpPrefix: "127.0.0.0/24", UaHash: visitor[16:],
		AttributionWindowDays: 30,
	}
}

// distance delays each response of the Redis of another region, in milliseconds. It is the
// definition of a toxic of toxiproxy.
const distance = `{"name":"distance","type":"latency","stream":"downstream","toxicity":1,"attributes":{"latency":150,"jitter":0}}`

// measureRegion measures row I3.
func (i *ingestion) measureRegion(ctx context.Context) error {
	address, err := url.Parse(i.redisURL)
	if err != nil {
		return err
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics use the global logger
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	wire := toxiproxy.NewProxy(proxies, "region", "127.0.0.1:0", address.Host)
	if err := wire.Start(); err != nil {
		return err
	}
	defer wire.Stop()
	if _, err := wire.Toxics.AddToxicJson(strings.NewReader(distance)); err != nil {
		return err
	}
	address.Host = wire.Listen
	far := clickstream.Endpoint{URL: address.String(), Far: true}
	stream, err := clickstream.Connect(far)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	blocking, err := clickstream.ConnectBlocking(far)
	if err != nil {
		return err
	}
	defer func() { _ = blocking.Close() }()

	const what = "clicks from the stream of a region 150 ms away, rows"
	drainFar := func(ctx context.Context) (sample, error) { return i.drain(ctx, stream, blocking) }
	got, err := i.b.takeTurns(ctx, what, drainFar, i.b.yardstick(i.drainStream))
	if err != nil {
		return err
	}
	i.b.compare("I3", what, "from the home region", "≥ 0.4", got[0], got[1], rate, perSecond)
	return nil
}
