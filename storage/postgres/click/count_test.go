package click_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// clickCountKey is the key by which the test sums the rows of stats_deltas.
type clickCountKey struct {
	workspace, mode, program, participant, link string
}

// clickCounts returns the sums of the rows in stats_deltas.
func clickCounts(f *pgtest.Fixture) map[clickCountKey]int64 {
	f.Helper()
	rows, _ := f.SQL.Query(f.Context(), `
		select workspace_id::text, mode, program_id::text, participant_id::text, coalesce(link_id::text, ''),
			sum(clicks)::bigint, sum(abs(signups) + abs(conversions) + abs(revenue_cents) + abs(commission_cents))::bigint, max(currency)
		from stats_deltas group by 1, 2, 3, 4, 5`)
	counts := map[clickCountKey]int64{}
	var c clickCountKey
	var n, other int64
	var currency string
	_, err := pgx.ForEachRow(rows, []any{&c.workspace, &c.mode, &c.program, &c.participant, &c.link, &n, &other, &currency}, func() error {
		counts[c] = n
		if other != 0 || currency != "" {
			f.Errorf("the columns of %+v that do not count clicks have the sum %d and the currency %q, want 0 and no currency", c, other, currency)
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return counts
}

// wantCounts returns the sums that stats_deltas must have after clicks were stored.
func wantCounts(clicks []click.Click) map[clickCountKey]int64 {
	counts := map[clickCountKey]int64{}
	for _, c := range clicks {
		if c.IsBot {
			continue
		}
		key := clickCountKey{
			workspace: c.Workspace.String(), mode: string(c.Mode), program: c.Program.String(), participant: c.Participant.String(), link: c.Link.String(),
		}
		counts[key]++
	}
	return counts
}

// mixedClicks returns n clicks of a few links, participants and modes. Some of the
// clicks are unique, and some come from bots.
func mixedClicks(n int) []click.Click {
	clicks := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), n)
	for i := range clicks {
		// Three of the clicks determine the programmes, participants and links of all.
		c, source := &clicks[i], clicks[i%3]
		c.Program, c.Participant, c.Link, c.Unique = source.Program, source.Participant, source.Link, i%11 < 4
		if i%5 == 0 {
			c.Link = affiliate.LinkID{UUID: source.ID.UUID}
		}
		if i%7 == 0 {
			c.Mode = affiliate.ModeTest
		}
		if i%4 == 0 {
			c.IsBot, c.BotReason = true, "agent"
		}
	}
	return clicks
}

func TestStoreClicks_CountsEachClickOnce(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	stored := mixedClicks(420)
	if err := clicks.Store(t.Context(), f.DB, stored[:300]); err != nil {
		t.Fatal(err)
	}
	if got, want := clickCounts(f), wantCounts(stored[:300]); !maps.Equal(got, want) {
		t.Fatalf("after the first batch, the click counts are\n%v\nwant\n%v", got, want)
	}
	if deltas := f.Count(`select count(*) from stats_deltas`); deltas != len(wantCounts(stored[:300])) {
		t.Errorf("stats_deltas has %d rows, want %d", deltas, len(wantCounts(stored[:300])))
	}
	// Store the first batch again, a batch with 100 old and 100 new clicks, a batch that
	// contains one click twice, and a batch without new clicks.
	for _, batch := range [][]click.Click{stored[:300], stored[200:400], append(slices.Clone(stored[400:]), stored[419]), stored} {
		if err := clicks.Store(t.Context(), f.DB, batch); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := clickCounts(f), wantCounts(stored); !maps.Equal(got, want) {
		t.Errorf("after all batches, the click counts are\n%v\nwant\n%v", got, want)
	}
}

func TestStoreClicks_ConcurrentDuplicatesAreCountedOnce(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	stored := mixedClicks(600)
	var group sync.WaitGroup
	start := make(chan struct{})
	for range 2 {
		for at := 0; at < len(stored); at += 100 {
			group.Go(func() {
				<-start
				if err := clicks.Store(context.Background(), f.DB, stored[at:at+100]); err != nil {
					t.Error(err)
				}
			})
		}
	}
	close(start)
	group.Wait()
	if got, want := clickCounts(f), wantCounts(stored); !maps.Equal(got, want) {
		t.Errorf("the click counts are\n%v\nwant\n%v", got, want)
	}
}

func TestStoreClicks_StoresButDoesNotCountBots(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	stored := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), 3)
	for i := range stored {
		stored[i].IsBot, stored[i].ForeignOrigin = true, i == 1
	}
	for range 2 {
		if err := clicks.Store(t.Context(), f.DB, stored); err != nil {
			t.Fatal(err)
		}
	}
	if stored, foreign := f.Count(`select count(*) from clicks`), f.Count(`select count(*) from clicks where foreign_origin`); stored != 3 || foreign != 1 {
		t.Errorf("%d clicks are stored, %d of them with foreign_origin, want 3 and 1", stored, foreign)
	}
	if counts := clickCounts(f); len(counts) > 0 {
		t.Errorf("the click counts are %v, want none", counts)
	}
}

// Clicks and their counts must commit together. Clicks that are rejected must not be
// counted, and clicks that cannot be counted must not be stored.
func TestStoreClicks_StoresAndCountsTogether(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	stored := mixedClicks(10)
	stored[9].SubID = "nul\x00"
	var data *clicks.DataError
	if err := clicks.Store(t.Context(), f.DB, stored); !errors.As(err, &data) {
		t.Fatalf("StoreClicks with a NUL character returned %v, want a DataError", err)
	}
	if counts := clickCounts(f); len(counts) > 0 {
		t.Errorf("after the rejection, the click counts are %v, want none", counts)
	}
	f.Exec(`revoke insert on stats_deltas from tributary_app`)
	if err := clicks.Store(t.Context(), f.DB, stored[:9]); err == nil || errors.As(err, &data) {
		t.Errorf("StoreClicks without the right to count returned %v, want an error that is not a DataError", err)
	}
	if stored := f.Count(`select count(*) from clicks`); stored != 0 {
		t.Errorf("%d clicks are stored, want 0", stored)
	}
}

// Every partition must have each column as the table defines it, whether the partition
// was created before or after the column was added.
func TestClickPartitions_HaveAllColumnsOfTheTable(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	today := time.Now()
	if created, err := postgres.EnsureClickPartitions(t.Context(), f.DB, today.AddDate(0, 0, -1), today.AddDate(0, 0, 2)); err != nil || created == 0 {
		t.Fatalf("EnsureClickPartitions created %d partitions (error %v), want more than 0", created, err)
	}
	missing := f.Texts(`
		select i.inhrelid::regclass || '.' || c.attname
		from pg_inherits i
		join pg_attribute c on c.attrelid = i.inhparent and c.attnum > 0 and not c.attisdropped
		left join pg_attribute a on a.attrelid = i.inhrelid and a.attname = c.attname and a.atttypid = c.atttypid and a.attnotnull = c.attnotnull
		where i.inhparent = 'clicks'::regclass and a.attname is null`)
	if len(missing) > 0 {
		t.Errorf("the partitions lack the columns %q, want none", missing)
	}
	stored := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), 2)
	// No partition exists for this day, so the click is stored in the default partition.
	stored[1].ClickedAt = stored[1].ClickedAt.AddDate(5, 0, 0)
	for i := range stored {
		stored[i].ForeignOrigin, stored[i].Unique, stored[i].Country = true, true, "DE"
	}
	if err := clicks.Store(t.Context(), f.DB, stored); err != nil {
		t.Fatal(err)
	}
	if partitions := f.Count(`select count(distinct tableoid) from clicks where foreign_origin and is_unique and country = 'DE'`); partitions != 2 {
		t.Errorf("the two clicks are in %d partitions, want 2", partitions)
	}
	for _, click := range stored {
		_, err := f.SQL.Exec(t.Context(), `update clicks set is_unique = null where id = $1`, click.ID)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "23502" {
			t.Errorf("setting is_unique to null returned %v, want the error code 23502", err)
		}
	}
}
