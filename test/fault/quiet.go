package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// quiescence bounds the time from the end of the load until everything is
// stored: journals are replayed at a quarter of what the stream can carry.
const quiescence = 120 * time.Second

// recover waits until every collector takes clicks of its own accord again and
// knows where they lead: without faults nothing may stay broken.
func (s *storm) recover(ctx context.Context) error {
	lifted := time.Now()
	return awaitWithin(ctx, quiescence, "every collector takes clicks and knows where they lead", func(context.Context) error {
		well := make(map[int]bool)
		for _, a := range s.load.history.since(lifted) {
			well[a.Collector] = a.Outcome == acknowledged && !a.Blind && a.Way != following || well[a.Collector]
		}
		for n := range s.system.collectors {
			if !well[n] {
				return fmt.Errorf("collector %d has not answered 201 with a programme", n)
			}
		}
		return nil
	})
}

// settle waits until nothing is on its way any more: no click in a queue or a
// journal, every entry of the stream stored and acknowledged.
func (s *storm) settle(ctx context.Context) error {
	err := awaitWithin(ctx, quiescence, "everything is stored", func(ctx context.Context) error {
		var left []error
		for n, c := range s.system.collectors {
			if err := c.emptied(ctx); err != nil {
				left = append(left, fmt.Errorf("collector %d: %w", n, err))
			}
		}
		return errors.Join(append(left, s.streamStored(ctx))...)
	})
	if err != nil {
		return err
	}
	// Once more: what a collector held at the look before may be in the stream now.
	if err := await(ctx, "the stream is stored", s.streamStored); err != nil {
		return err
	}
	return s.settleWebhooks(ctx)
}

// delivered bounds the time until every delivery has ended: a lease that a killed
// core has left, 40 s, and an attempt that is made again 72 s after it timed out.
const delivered = 3 * time.Minute

// settleWebhooks waits until no delivery waits any more, and no job that makes one.
func (s *storm) settleWebhooks(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, s.system.postgres.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	// Jobs that a killed core has left running come back after minutes, when the storm
	// is over; their events are not there yet.
	const waits = `
		select (select count(*) from river.river_job
			where kind = 'attribute_awaited' and (state = 'available' or state = 'running' and attempted_at > now() - interval '5 seconds'
				or state in ('scheduled', 'retryable') and scheduled_at < now() + interval '30 seconds')) as jobs,
			count(*) as deliveries, count(*) filter (where attempt_count > 0) as tried, coalesce(min(due_at)::text, 'never') as next
		from webhook_deliveries where due_at is not null or status in ('pending', 'failed')`
	return awaitWithin(ctx, delivered, "every event is delivered", func(ctx context.Context) error {
		var jobs, deliveries, tried int
		var next string
		if err := pool.QueryRow(ctx, waits).Scan(&jobs, &deliveries, &tried, &next); err != nil {
			return err
		}
		if jobs+deliveries > 0 {
			return fmt.Errorf("%d jobs and %d deliveries wait, %d of them tried before, the next one due at %s", jobs, deliveries, tried, next)
		}
		return nil
	})
}

// emptied says what a collector still holds.
func (c *collector) emptied(ctx context.Context) error {
	text, err := get(ctx, "http://"+c.private+"/metrics")
	if err != nil {
		return err
	}
	for _, name := range []string{"tributary_collector_queue_clicks", "tributary_collector_journal_clicks"} {
		if n := metric(text, name); n > 0 {
			return fmt.Errorf("%s %.0f (%s)", name, n, c.onDisk())
		}
	}
	return nil
}

// metric is the value of a gauge without labels; 0 when there is none.
func metric(text []byte, name string) float64 {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, _ := strconv.ParseFloat(value, 64)
			return n
		}
	}
	return 0
}

// onDisk sums a journal's folder up, for people.
func (c *collector) onDisk() string {
	files, size := 0, int64(0)
	entries, _ := os.ReadDir(c.journal)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			files, size = files+1, size+info.Size()
		}
	}
	return fmt.Sprintf("%d bytes in %d files of %s", size, files, c.journal)
}

// streamStored says what of the stream is not stored yet.
func (s *storm) streamStored(ctx context.Context) error {
	key := clickstream.Key(0)
	there, err := s.system.stream.Exists(ctx, key).Result()
	if err != nil || there == 0 {
		return err
	}
	stream, err := s.system.stream.XInfoStream(ctx, key).Result()
	if err != nil {
		return err
	}
	groups, err := s.system.stream.XInfoGroups(ctx, key).Result()
	if err != nil {
		return err
	}
	if len(groups) == 0 && stream.Length > 0 {
		return fmt.Errorf("%s has %d entries and no group", key, stream.Length)
	}
	for _, group := range groups {
		if group.Pending > 0 || stream.Length > 0 && group.LastDeliveredID != stream.LastGeneratedID {
			return fmt.Errorf("%s: %d entries pending, delivered to %s of %s", key, group.Pending, group.LastDeliveredID, stream.LastGeneratedID)
		}
	}
	return nil
}

// read takes down what the database holds, and what the API tells of it.
func (s *storm) read(ctx context.Context) (tables, error) {
	conn, err := pgx.Connect(ctx, s.system.postgres.url)
	if err != nil {
		return tables{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var t tables
	const clicks = `select id, coalesce(sub_id, '') as sub_id, participant_id, received_at, is_bot, is_unique, referral_code, ip_hash, ua_hash from clicks`
	if t.clicks, err = collect[clickRow](ctx, conn, clicks); err != nil {
		return t, err
	}
	const letters = `select id, reason, record from click_dead_letters`
	if t.letters, err = collect[letterRow](ctx, conn, letters); err != nil {
		return t, err
	}
	nonBots := make(map[uuid.UUID]int64)
	for _, row := range t.clicks {
		if !row.IsBot {
			nonBots[row.ParticipantID]++
		}
	}
	// The counts follow the rows within seconds; what they are in the end is for
	// the checker.
	_ = await(ctx, "the counts are folded", func(ctx context.Context) error {
		if t.counts, err = clickCounts(ctx, s.system.api, s.targets); err != nil {
			return err
		}
		for _, to := range s.targets {
			if t.counts[to.participant] != nonBots[to.participant] {
				return fmt.Errorf("participant %s", to.participant)
			}
		}
		return nil
	})
	return t, err
}

// readOutbox takes down what the database holds of sales and webhooks. The core has
// stopped: nothing is made or sent beside it.
func (s *storm) readOutbox(ctx context.Context) (outbox, error) {
	conn, err := pgx.Connect(ctx, s.system.postgres.url)
	if err != nil {
		return outbox{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var t outbox
	const conversions = `select workspace_id, id, external_transaction_id, amount_cents, participant_id from conversions`
	if t.conversions, err = collect[conversionRow](ctx, conn, conversions); err != nil {
		return t, err
	}
	const events = `select workspace_id, id, type, body from events`
	if t.events, err = collect[eventRow](ctx, conn, events); err != nil {
		return t, err
	}
	const deliveries = `select workspace_id, endpoint_id, event_id, status from webhook_deliveries`
	t.deliveries, err = collect[deliveryRow](ctx, conn, deliveries)
	return t, err
}

func collect[T any](ctx context.Context, conn *pgx.Conn, query string) ([]T, error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// panics finds what no process may ever log.
func (s *storm) panics() []string {
	var found []string
	logs, _ := filepath.Glob(s.system.file("logs/*.log"))
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			found = append(found, err.Error())
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "WARNING: DATA RACE") || strings.Contains(line, `"msg":"panic"`) {
				found = append(found, filepath.Base(path)+": "+strings.TrimSpace(line))
			}
		}
	}
	return found
}
