package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/visitors"
)

const (
	// rowsPerRound are moved by each side in a round, times SCALE.
	rowsPerRound = 250_000
	// batchRows is what ingestion fills a batch to.
	batchRows = 5000
	// entryClicks is what a busy collector puts into one stream entry.
	entryClicks = 128
	// drainTimeout bounds one round of I2.
	drainTimeout = 5 * time.Minute
)

// measureIngestion makes rows I1 and I2.
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
		{"I1", "clicks stored from memory, rows", "≥ 0.95", i.store},
		{"I2", "clicks from stream to acknowledged, rows", "≥ 0.85", i.drain},
	} {
		// The yardstick copies what ours has stored last.
		if _, err := row.ours(ctx); err != nil {
			return err
		}
		got, err := b.takeTurns(ctx, row.what, row.ours, b.yardstick(i.copy))
		if err != nil {
			return err
		}
		b.compare(row.id, row.what, "raw COPY", row.goal, got[0], got[1], rate, perSecond)
	}
	return nil
}

// ingestion is a database for our rows and a twin for the yardstick's.
type ingestion struct {
	b                *bench
	rows             int
	ours, twin       *database
	postgres         *postgres.Store
	stream, blocking redis.UniversalClient
	cache            redis.UniversalClient
	workspace        affiliate.WorkspaceID
}

func newIngestion(ctx context.Context, b *bench) (i *ingestion, err error) {
	i = &ingestion{b: b, rows: rowsPerRound * b.scale, workspace: affiliate.NewID[affiliate.Workspace](time.Now())}
	if i.ours, err = b.newDatabase(ctx, "ingestion", ""); err != nil {
		return i, err
	}
	if i.postgres, err = postgres.Open(ctx, postgres.Config{URL: i.ours.url}); err != nil {
		return i, err
	}
	yesterday, tomorrow := time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1)
	if _, err = i.postgres.EnsureClickPartitions(ctx, yesterday, tomorrow); err != nil {
		return i, err
	}
	if i.twin, err = b.newDatabase(ctx, "twin", ""); err != nil {
		return i, err
	}
	partitions := fmt.Sprintf("select ensure_click_partitions('%s', '%s')", yesterday.UTC().Format(time.DateOnly), tomorrow.UTC().Format(time.DateOnly))
	if err = execute(ctx, i.twin.url, partitions); err != nil {
		return i, err
	}
	redisURL, err := b.redisURL(ingestionRedis)
	if err != nil {
		return i, err
	}
	if i.stream, err = clickstream.Connect(clickstream.Endpoint{URL: redisURL}); err != nil {
		return i, err
	}
	if i.cache, err = clickstream.Connect(clickstream.Endpoint{URL: redisURL}); err != nil {
		return i, err
	}
	i.blocking, err = clickstream.ConnectBlocking(clickstream.Endpoint{URL: redisURL})
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

// begin empties a table and lets the disk come to rest.
func (i *ingestion) begin(ctx context.Context, d *database) error {
	if err := execute(ctx, d.url, "truncate clicks"); err != nil {
		return err
	}
	return i.b.settle(ctx)
}

func (i *ingestion) took(began time.Time) sample {
	return sample{rate: float64(i.rows) / time.Since(began).Seconds()}
}

// store is the database part of ingestion alone.
func (i *ingestion) store(ctx context.Context) (sample, error) {
	clicks := make([]affiliate.Click, i.rows)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for n := range clicks {
		click, ok := ingest.FromEdge(i.click(now, n))
		if !ok {
			return sample{}, errors.New("the click is not one that ingestion stores")
		}
		click.CreatedAt, click.Unique = now, visitorOf(n) == n
		clicks[n] = click
	}
	if err := i.begin(ctx, i.ours); err != nil {
		return sample{}, err
	}
	began := time.Now()
	for batch := range slices.Chunk(clicks, batchRows) {
		if err := i.postgres.StoreClicks(ctx, batch); err != nil {
			return sample{}, err
		}
	}
	return i.took(began), nil
}

// copy is the yardstick: the rows that ours stored last, in the same batches.
func (i *ingestion) copy(ctx context.Context) (got sample, err error) {
	columns, stored, err := i.stored(ctx)
	if err != nil {
		return got, err
	}
	if err := i.begin(ctx, i.twin); err != nil {
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
	return i.took(began), nil
}

// stored reads what ours has stored, and holds it to what it was given.
func (i *ingestion) stored(ctx context.Context) (columns []string, values [][]any, err error) {
	conn, err := pgx.Connect(ctx, i.ours.url)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// In the order in which they were written: sorted by id they would be cheaper
	// to index.
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
	// streamBlock is how long a read waits for news: no longer than an ingester
	// may take to stop.
	streamBlock = 100 * time.Millisecond
	// lookEvery is how often the end of a round is looked for.
	lookEvery = 5 * time.Millisecond
)

// drain is the whole of ingestion: a full stream, until every entry is committed
// and acknowledged.
func (i *ingestion) drain(ctx context.Context) (sample, error) {
	last, err := i.fill(ctx)
	if err != nil {
		return sample{}, err
	}
	if err := i.begin(ctx, i.ours); err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	ingester := ingest.New(ingest.Config{}, ingest.Deps{
		Reader:   clickstream.NewReader(i.stream, i.blocking, clickstream.ReaderConfig{Shards: 1, Consumer: "load", Block: streamBlock}),
		Store:    i.postgres,
		Visitors: visitors.New(i.cache),
	})
	working, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	began := time.Now()
	running.Go(func() { ingester.Run(working) })
	err = i.awaitAcknowledged(ctx, last)
	got := i.took(began)
	stop()
	running.Wait()
	if err != nil {
		return sample{}, err
	}
	// The stream and the round's visitors.
	return got, i.stream.FlushDB(ctx).Err()
}

func (i *ingestion) awaitAcknowledged(ctx context.Context, last string) error {
	for {
		groups, err := i.stream.XInfoGroups(ctx, clickstream.Key(0)).Result()
		if err != nil {
			return err
		}
		for _, group := range groups {
			if group.Name == clickstream.Group && group.Pending == 0 && group.LastDeliveredID == last {
				return nil
			}
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return fmt.Errorf("the stream is not read to its end: %w", err)
		}
	}
}

// fill appends a round's clicks and returns the last entry's id.
func (i *ingestion) fill(ctx context.Context) (last string, err error) {
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
	// clickEvery is between two clicks of a round: 25 share a millisecond, as with a
	// busy collector.
	clickEvery = 40 * time.Microsecond
	// comeBackAfter is how many clicks later every second visitor clicks once more, so
	// that they make 1.5 each. It is no multiple of three.
	comeBackAfter = 3001
)

// visitorOf is the number in its round of the visitor's first click.
func visitorOf(n int) int {
	if n%3 == 2 && n >= comeBackAfter {
		return n - comeBackAfter
	}
	return n
}

// click is what the collector makes of clickBody and a visitor; n is its number
// in a round that ends at end.
func (i *ingestion) click(end time.Time, n int) *edgev1.Click {
	at := end.Add(-clickEvery * time.Duration(i.rows-n))
	id := affiliate.NewID[affiliate.Click](at)
	visitor := sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(end.UnixNano())), uint64(visitorOf(n))))
	return &edgev1.Click{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE,
		WorkspaceId: i.workspace.UUID[:], ProgramId: i.workspace.UUID[:], ParticipantId: i.workspace.UUID[:],
		ReferralCode: clickCode, ReceivedAtMs: at.UnixMilli(),
		LandingUrl: "https://shop.example.com/spring/collection", ReferrerDomain: "blog.example.org",
		UtmSource: "newsletter", UtmMedium: "email", UtmCampaign: "spring", SubId: "banner-7",
		Consent: edgev1.Consent_CONSENT_GRANTED, Language: "en-GB", Screen: "1920x1080",
		Country: "GB", Region: "ENG", Device: "desktop", Browser: "Firefox", Os: "Windows",
		IpHash: visitor[:16], IpPrefix: "127.0.0.0/24", UaHash: visitor[16:],
		AttributionWindowDays: 30,
	}
}
