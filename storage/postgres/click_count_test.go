package postgres_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// clickCount is what deltas are added up by.
type clickCount struct {
	workspace, mode, program, participant, link string
	hour                                        time.Time
}

// clickCounts adds the deltas up.
func clickCounts(t *testing.T, conn *pgx.Conn) map[clickCount]int64 {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		select workspace_id::text, mode, program_id::text, participant_id::text, coalesce(link_id::text, ''), hour,
			sum(clicks)::bigint, sum(abs(signups) + abs(conversions) + abs(revenue_cents) + abs(commission_cents))::bigint, max(currency)
		from stats_deltas group by 1, 2, 3, 4, 5, 6`)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[clickCount]int64{}
	var c clickCount
	var n, other int64
	var currency string
	_, err = pgx.ForEachRow(rows, []any{&c.workspace, &c.mode, &c.program, &c.participant, &c.link, &c.hour, &n, &other, &currency}, func() error {
		c.hour = c.hour.UTC()
		counts[c] = n
		if other != 0 || currency != "" {
			t.Errorf("%d in %q of %+v", other, currency, c)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// wantCounts is what clicks come to.
func wantCounts(clicks []affiliate.Click) map[clickCount]int64 {
	counts := map[clickCount]int64{}
	for _, c := range clicks {
		if c.IsBot {
			continue
		}
		of := clickCount{
			workspace: c.Scope.Workspace.String(), mode: string(c.Scope.Mode), program: c.Program.String(), participant: c.Participant.String(),
			hour: c.ReceivedAt.UTC().Truncate(time.Hour),
		}
		if !c.Link.IsZero() {
			of.link = c.Link.String()
		}
		counts[of]++
	}
	return counts
}

// crowdOfClicks are n clicks of a few links, participants, hours and modes, some
// of them of bots, some without a link.
func crowdOfClicks(n int) []affiliate.Click {
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), n)
	midnight := clicks[0].ReceivedAt.Truncate(24 * time.Hour)
	for i := range clicks {
		c, of := &clicks[i], clicks[i%3]
		c.Program, c.Participant = of.Program, of.Participant
		if i%5 > 0 {
			c.Link = affiliate.LinkID{UUID: of.ID.UUID}
		}
		if i%7 == 0 {
			c.Scope.Mode = affiliate.ModeTest
		}
		if i%4 == 0 {
			c.IsBot, c.BotReason = true, "agent"
		}
		// Both ends of two hours.
		c.ReceivedAt = midnight.Add([]time.Duration{0, time.Hour - time.Millisecond, time.Hour, 2*time.Hour - time.Millisecond}[i%4])
	}
	return clicks
}

func TestStoredClicksAreCountedOnce(t *testing.T) {
	store, conn := clickFixture(t)
	clicks := crowdOfClicks(420)
	if err := store.StoreClicks(t.Context(), clicks[:300]); err != nil {
		t.Fatal(err)
	}
	if got, want := clickCounts(t, conn), wantCounts(clicks[:300]); !maps.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	var deltas int
	if err := conn.QueryRow(t.Context(), `select count(*) from stats_deltas`).Scan(&deltas); err != nil || deltas != len(wantCounts(clicks[:300])) {
		t.Errorf("%d deltas, %v", deltas, err)
	}
	// The same again, a batch that is half new, one with a click twice, and one of
	// nothing new.
	for _, batch := range [][]affiliate.Click{clicks[:300], clicks[200:400], append(slices.Clone(clicks[400:]), clicks[419]), clicks} {
		if err := store.StoreClicks(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := clickCounts(t, conn), wantCounts(clicks); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestClicksThatAreStoredTwiceAtOnceAreCountedOnce(t *testing.T) {
	store, conn := clickFixture(t)
	clicks := crowdOfClicks(600)
	var group sync.WaitGroup
	start := make(chan struct{})
	for range 2 {
		for at := 0; at < len(clicks); at += 100 {
			group.Go(func() {
				<-start
				if err := store.StoreClicks(context.Background(), clicks[at:at+100]); err != nil {
					t.Error(err)
				}
			})
		}
	}
	close(start)
	group.Wait()
	if got, want := clickCounts(t, conn), wantCounts(clicks); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestClicksOfBotsAreStoredAndNotCounted(t *testing.T) {
	store, conn := clickFixture(t)
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), 3)
	for i := range clicks {
		clicks[i].IsBot, clicks[i].ForeignOrigin = true, i == 1
	}
	for range 2 {
		if err := store.StoreClicks(t.Context(), clicks); err != nil {
			t.Fatal(err)
		}
	}
	var stored, foreign int
	if err := conn.QueryRow(t.Context(), `select count(*), count(*) filter (where foreign_origin) from clicks`).Scan(&stored, &foreign); err != nil || stored != 3 || foreign != 1 {
		t.Errorf("%d stored, %d foreign, %v", stored, foreign, err)
	}
	if counts := clickCounts(t, conn); len(counts) > 0 {
		t.Errorf("counted %v", counts)
	}
}

// Clicks and their counts are one transaction: what is refused counts nothing,
// and what cannot be counted is not stored.
func TestRefusedClicksAreNotCounted(t *testing.T) {
	store, conn := clickFixture(t)
	clicks := crowdOfClicks(10)
	clicks[9].SubID = "nul\x00"
	var data *postgres.DataError
	if err := store.StoreClicks(t.Context(), clicks); !errors.As(err, &data) {
		t.Fatal(err)
	}
	if counts := clickCounts(t, conn); len(counts) > 0 {
		t.Errorf("counted %v", counts)
	}
	if _, err := conn.Exec(t.Context(), `revoke insert on stats_deltas from tributary_app`); err != nil {
		t.Fatal(err)
	}
	if err := store.StoreClicks(t.Context(), clicks[:9]); err == nil || errors.As(err, &data) {
		t.Errorf("stored without a count: %v", err)
	}
	var stored int
	if err := conn.QueryRow(t.Context(), `select count(*) from clicks`).Scan(&stored); err != nil || stored != 0 {
		t.Errorf("%d stored, %v", stored, err)
	}
}

// Partitions that were there before the column, and those made after it, take
// where a click came from.
func TestEveryPartitionKnowsForeignOrigins(t *testing.T) {
	store, conn := clickFixture(t)
	today := time.Now()
	if made, err := store.EnsureClickPartitions(t.Context(), today.AddDate(0, 0, -1), today.AddDate(0, 0, 2)); err != nil || made == 0 {
		t.Fatalf("%d partitions made, %v", made, err)
	}
	var without int
	err := conn.QueryRow(t.Context(), `
		select count(*) from pg_inherits i
		where i.inhparent = 'clicks'::regclass
			and not exists (select from pg_attribute a where a.attrelid = i.inhrelid and a.attname = 'foreign_origin' and a.attnotnull and not a.attisdropped)`).Scan(&without)
	if err != nil || without != 0 {
		t.Errorf("%d partitions without the column, %v", without, err)
	}
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), 2)
	clicks[0].ForeignOrigin = true
	// A day that no partition was made for.
	clicks[1].ClickedAt, clicks[1].ForeignOrigin = clicks[1].ClickedAt.AddDate(5, 0, 0), true
	if err := store.StoreClicks(t.Context(), clicks); err != nil {
		t.Fatal(err)
	}
	var foreign int
	if err := conn.QueryRow(t.Context(), `select count(*) from clicks where foreign_origin`).Scan(&foreign); err != nil || foreign != 2 {
		t.Errorf("%d foreign, %v", foreign, err)
	}
}
