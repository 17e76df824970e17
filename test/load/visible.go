package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	visibleRound       = 2 * time.Second
	visibleRate        = 1000
	visibleConnections = 16
	// pollPause is the pause between two queries of the table. Without a pause, the
	// queries would take too much CPU time from the measured processes.
	pollPause = time.Millisecond
)

// measureVisible measures the time from the 2xx response to a click until the row of the
// click is visible.
func measureVisible(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "clicks", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	defer core.stop()
	opened, err := setUpShop(ctx, core.address)
	if err != nil {
		return core.fail(err)
	}
	edge, err := b.startCollector(ctx, coreRedis)
	if err != nil {
		return err
	}
	defer edge.stop()
	if err := awaitDirectory(ctx, edge, opened.publicKey); err != nil {
		return edge.fail(err)
	}
	conn, err := pgx.Connect(ctx, database.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// Force a generic plan with an index, because the planner has no statistics for a new
	// table and would plan every query again.
	if _, err := conn.Exec(ctx, "set plan_cache_mode = force_generic_plan; set enable_seqscan = off"); err != nil {
		return err
	}
	v := clickTimer{conn: conn, address: edge.address, request: appendPost(nil, clicksPath, opened.publicKey, clickBody)}
	const find = `select workspace_id from programs where id = $1`
	if err := conn.QueryRow(ctx, find, opened.program).Scan(&v.workspace); err != nil {
		return err
	}
	what := fmt.Sprintf("from a click's 2xx to its row at %d/s", visibleRate)
	got, err := b.takeTurns(ctx, what, v.timeClicks, b.yardstick(v.insertRows))
	if err != nil {
		return core.fail(edge.fail(err))
	}
	b.say("%s: the table was queried every %s", what, (v.queryTime / time.Duration(max(1, v.queries))).Round(10*time.Microsecond))
	const yardstickName = "INSERT of one row"
	b.compare("", what+", p50", yardstickName, "", got[0], got[1], p50, millis)
	b.compare("", "  p99", yardstickName, "", got[0], got[1], p99, millis)
	return nil
}

// awaitDirectory waits until the collector finds the key and the code in the edge
// directory. Before that, the collector rejects clicks, or accepts them without a
// programme, which causes more work in ingestion.
func awaitDirectory(ctx context.Context, edge *process, key string) error {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	for {
		response, err := sendClick(ctx, edge.address, key)
		if err == nil && !strings.Contains(response, `"program_id":null`) {
			return nil
		}
		if pause := sleep(ctx, 50*time.Millisecond); pause != nil {
			return errors.Join(fmt.Errorf("the edge directory does not have the shop: %w", pause), err)
		}
	}
}

// clickTimer measures the time from a click's 2xx response to its row.
type clickTimer struct {
	conn      *pgx.Conn
	workspace affiliate.WorkspaceID
	address   string
	request   []byte
	// queries is the number of queries of the table. queryTime is the time of all
	// queries, including the pauses between them.
	queries   int
	queryTime time.Duration
}

// timeClicks sends clicks at a constant rate. It queries the table repeatedly until the
// rows of all clicks exist.
func (v *clickTimer) timeClicks(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+visibleRound+2*responseTimeout)
	defer cancel()
	pending := pendingClicks{since: make(map[[16]byte]time.Time)}
	load := steady{
		address: v.address, connections: visibleConnections, rate: visibleRate, measured: visibleRound, status: http.StatusCreated,
		request:    func(dst []byte, _ int) []byte { return append(dst, v.request...) },
		onResponse: pending.add,
	}
	sent := make(chan error, 1)
	go func() {
		_, err := load.run(ctx)
		sent <- err
	}()
	for over := false; ; {
		began := time.Now()
		select {
		case err := <-sent:
			if err != nil {
				return sample{}, err
			}
			over = true
		default:
		}
		oldest, err := pending.oldest()
		if err != nil {
			return sample{}, err
		}
		if over && oldest.IsZero() {
			break
		}
		stored, err := v.storedClicks(ctx, oldest)
		if err != nil {
			return sample{}, err
		}
		pending.found(stored, time.Now())
		if err := sleep(ctx, pollPause); err != nil {
			return sample{}, fmt.Errorf("click %s did not get a row: %w", oldest, err)
		}
		if !oldest.IsZero() {
			v.queries++
			v.queryTime += time.Since(began)
		}
	}
	slices.Sort(pending.took)
	return sample{rate: visibleRate, p50: quantile(pending.took, 0.5), p99: quantile(pending.took, 0.99)}, nil
}

// pendingClicks contains the clicks that were acknowledged but whose rows were not found
// yet. since maps the id of a click to the time of its response.
type pendingClicks struct {
	mu    sync.Mutex
	since map[[16]byte]time.Time
	err   error // the error of a response that could not be parsed
	took  []time.Duration
}

func (a *pendingClicks) add(response []byte, at time.Time) {
	id, err := clickID(response)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.err = err
		return
	}
	a.since[id] = at
}

// oldest returns the smallest id of a pending click, or zero if no click is pending.
func (a *pendingClicks) oldest() (first affiliate.ClickID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.since {
		if first.IsZero() || bytes.Compare(id[:], first.UUID[:]) < 0 {
			first.UUID = id
		}
	}
	return first, a.err
}

func (a *pendingClicks) found(ids [][16]byte, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if since, ok := a.since[id]; ok {
			a.took = append(a.took, at.Sub(since))
			delete(a.since, id)
		}
	}
}

// storedClicks returns the ids of the committed clicks that are not smaller than minID.
// The order of ids is the order of their times. If minID is zero, no click is pending,
// and storedClicks returns no ids.
func (v *clickTimer) storedClicks(ctx context.Context, minID affiliate.ClickID) ([][16]byte, error) {
	if minID.IsZero() {
		return nil, nil
	}
	// The condition on the time excludes the partitions of other days.
	const find = `select id from clicks where workspace_id = $1 and mode = 'live' and id >= $2 and clicked_at >= $3`
	at, _ := minID.Time()
	rows, err := v.conn.Query(ctx, find, v.workspace, minID, at)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[[16]byte])
}

// insertRows is the yardstick. It inserts rows of another workspace. Each row is inserted
// by one statement in one transaction and needs one round trip.
func (v *clickTimer) insertRows(ctx context.Context) (sample, error) {
	const add = `
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code,
			received_at, expires_at, created_at, landing_url, referrer_domain, utm_source, utm_medium, utm_campaign, sub_id,
			consent, language, screen, ip_hash, ip_prefix, ua_hash, is_bot, device, browser, os)
		values ($1, $2, $3, 'live', $1, $1, gen_random_uuid(), 'load',
			$3, $3::timestamptz + interval '30 days', $3, 'https://shop.example.com/spring/collection', 'blog.example.org', 'newsletter', 'email', 'spring', 'banner-7',
			'granted', 'en-GB', '1920x1080', $4, '127.0.0.0/24', $4, false, 'desktop', 'Firefox', 'Linux')`
	other := affiliate.NewID[affiliate.WorkspaceID](time.Now())
	var took []time.Duration
	for over := time.Now().Add(visibleRound); time.Now().Before(over); {
		began := time.Now()
		id := affiliate.NewID[affiliate.ClickID](began)
		if _, err := v.conn.Exec(ctx, add, other, id, began.Truncate(time.Millisecond), id.UUID[:]); err != nil {
			return sample{}, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return sample{rate: float64(len(took)) / visibleRound.Seconds(), p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, nil
}

// clickID returns the click id in a collector's response.
func clickID(response []byte) (uuid.UUID, error) {
	const length = 36
	_, rest, ok := bytes.Cut(response, []byte(`"click_id":"`))
	if !ok || len(rest) < length {
		return uuid.UUID{}, fmt.Errorf("no click_id in the response %q", response)
	}
	return uuid.ParseBytes(rest[:length])
}
