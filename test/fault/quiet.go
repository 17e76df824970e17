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
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// settleTimeout is the maximum time from the end of the load until all clicks are stored.
// It is long because collectors replay their journals at only a quarter of the maximum
// rate.
const settleTimeout = 120 * time.Second

// awaitRecovery waits until every collector accepts clicks again and finds the programme
// of each click. It also waits until each kind of request has succeeded again.
func (s *storm) awaitRecovery(ctx context.Context) error {
	faultsRemoved := time.Now()
	return awaitWithin(ctx, settleTimeout, "every collector and every kind of request works again", func(context.Context) error {
		accepting := make(map[int]bool)
		for _, a := range s.load.history.since(faultsRemoved) {
			accepting[a.Collector] = a.Outcome == acknowledged && !a.WithoutDirectory && a.Route != getShortLink || accepting[a.Collector]
		}
		for n := range s.system.collectors {
			if !accepting[n] {
				return fmt.Errorf("collector %d has not yet returned 201 with a program id", n)
			}
		}
		counts := s.load.history.acknowledgedSince(faultsRemoved)
		for _, kind := range requestKinds {
			if counts[kind] == 0 {
				return fmt.Errorf("no %s was acknowledged; acknowledged requests: %v", kind, counts)
			}
		}
		return nil
	})
}

// directoryUpdated returns an error while changes of links are not in the edge directory.
// Otherwise a collector could learn during the storm that a link has changed.
func (s *storm) directoryUpdated(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.system.postgres.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var jobs int
	const waiting = `select count(*) from river.river_job where kind = 'sync_directory' and state <> 'completed'`
	if err := conn.QueryRow(ctx, waiting).Scan(&jobs); err != nil {
		return err
	}
	if jobs > 0 {
		return fmt.Errorf("%d changes are not in the edge directory", jobs)
	}
	return nil
}

// settle waits until all clicks and events are processed. This means that the queues and
// journals of the collectors are empty, that every entry of the streams is stored and
// acknowledged, and that every delivery has ended.
func (s *storm) settle(ctx context.Context) error {
	err := awaitWithin(ctx, settleTimeout, "all clicks are stored", func(ctx context.Context) error {
		var errs []error
		for n, c := range s.system.collectors {
			if err := c.checkEmpty(ctx); err != nil {
				errs = append(errs, fmt.Errorf("collector %d: %w", n, err))
			}
		}
		return errors.Join(append(errs, s.streamsStored(ctx))...)
	})
	if err != nil {
		return err
	}
	// Check the streams again, because a collector may have appended clicks after the last
	// check of its stream.
	if err := await(ctx, "the streams are stored", s.streamsStored); err != nil {
		return err
	}
	return s.settleWebhooks(ctx)
}

// deliveryTimeout is the maximum time until every delivery has ended. It is longer than
// the lease of a killed core (40 s) plus the wait for a retry, which starts 72 s after an
// attempt that timed out.
const deliveryTimeout = 3 * time.Minute

// settleWebhooks waits until no delivery is pending and until no job that can create a
// delivery is due soon.
func (s *storm) settleWebhooks(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, s.system.postgres.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	// The query does not count jobs that ran in a killed core. They have not created
	// events, and River runs them again only after several minutes. By then the checker
	// has stopped the core.
	const pendingWork = `
		select (select count(*) from river.river_job
			where kind = 'attribute_awaited' and (state = 'available' or state = 'running' and attempted_at > now() - interval '5 seconds'
				or state in ('scheduled', 'retryable') and scheduled_at < now() + interval '30 seconds')) as jobs,
			count(*) as deliveries, count(*) filter (where attempt_count > 0) as tried, coalesce(min(due_at)::text, 'never') as next
		from webhook_deliveries where due_at is not null or status in ('pending', 'failed')`
	return awaitWithin(ctx, deliveryTimeout, "every event is delivered", func(ctx context.Context) error {
		var jobs, deliveries, tried int
		var next string
		if err := pool.QueryRow(ctx, pendingWork).Scan(&jobs, &deliveries, &tried, &next); err != nil {
			return err
		}
		if jobs+deliveries > 0 {
			return fmt.Errorf("%d jobs and %d deliveries are pending, %d of the deliveries after a failed attempt, the next one is due at %s",
				jobs, deliveries, tried, next)
		}
		return nil
	})
}

// checkEmpty returns an error if the queue or the journal of the collector contains
// clicks.
func (c *collector) checkEmpty(ctx context.Context) error {
	text, err := get(ctx, "http://"+c.metricsAddress+"/metrics")
	if err != nil {
		return err
	}
	for _, name := range []string{"tributary_collector_queue_clicks", "tributary_collector_journal_clicks"} {
		if n := metric(text, name); n > 0 {
			return fmt.Errorf("%s %.0f (%s)", name, n, c.journalSummary())
		}
	}
	return nil
}

// metric returns the value of a gauge without labels, or 0 if the gauge does not exist.
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

// journalSummary returns a summary of the journal's folder for error messages.
func (c *collector) journalSummary() string {
	files, size := 0, int64(0)
	entries, _ := os.ReadDir(c.journal)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			files, size = files+1, size+info.Size()
		}
	}
	return fmt.Sprintf("%d bytes in %d files of %s", size, files, c.journal)
}

// streamsStored returns an error if an entry of the stream of a region is not yet stored.
func (s *storm) streamsStored(ctx context.Context) error {
	err := streamStored(ctx, s.system.stream, clickstream.Key(0))
	for shard := range farStreams {
		err = errors.Join(err, streamStored(ctx, s.system.farStream, clickstream.Key(shard)))
	}
	return err
}

func streamStored(ctx context.Context, client *redis.Client, key string) error {
	exists, err := client.Exists(ctx, key).Result()
	if err != nil || exists == 0 {
		return err
	}
	stream, err := client.XInfoStream(ctx, key).Result()
	if err != nil {
		return err
	}
	groups, err := client.XInfoGroups(ctx, key).Result()
	if err != nil {
		return err
	}
	if len(groups) == 0 && stream.Length > 0 {
		return fmt.Errorf("%s has %d entries but no consumer group", key, stream.Length)
	}
	for _, group := range groups {
		if group.Pending > 0 || stream.Length > 0 && group.LastDeliveredID != stream.LastGeneratedID {
			return fmt.Errorf("%s: %d entries pending, last delivered entry %s, last entry %s", key, group.Pending, group.LastDeliveredID, stream.LastGeneratedID)
		}
	}
	return nil
}

// readTables reads the clicks and dead letters from the database, and the click counts
// from the API.
func (s *storm) readTables(ctx context.Context) (tables, error) {
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
	if t.deadLetters, err = collect[deadLetterRow](ctx, conn, letters); err != nil {
		return t, err
	}
	nonBots := make(map[uuid.UUID]int64)
	for _, row := range t.clicks {
		if !row.IsBot {
			nonBots[row.ParticipantID]++
		}
	}
	// The counts are updated seconds after the rows are stored. The error is ignored
	// here, because the checker reports counts that do not match.
	_ = await(ctx, "the click counts match the rows", func(ctx context.Context) error {
		if t.counts, err = clickCounts(ctx, s.system.api, s.targets); err != nil {
			return err
		}
		for _, target := range s.targets {
			if t.counts[target.participant] != nonBots[target.participant] {
				return fmt.Errorf("the click count of participant %s differs", target.participant)
			}
		}
		return nil
	})
	return t, err
}

// readOutbox reads conversions, events and deliveries from the database. The core has
// stopped, so they do not change.
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

// findPanics returns the log lines that show a panic, a fatal error or a data race.
func (s *storm) findPanics() []string {
	var found []string
	logs, _ := filepath.Glob(s.system.file("logs/*.log"))
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			found = append(found, err.Error())
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
				strings.Contains(line, "WARNING: DATA RACE") || strings.Contains(line, `"msg":"panic"`) {
				found = append(found, filepath.Base(path)+": "+strings.TrimSpace(line))
			}
		}
	}
	return found
}
