package commission_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// randomPeriod returns a period with random bounds. Each bound is derived from a random
// instant, which is in the given number of days before the time end. The bound is this
// instant, the midnight before it, a millisecond before or after this midnight, the start
// of its month, or missing.
func randomPeriod(r *rand.Rand, end time.Time, days int) affiliate.Period {
	bound := func() *time.Time {
		at := end.Add(-time.Duration(r.Int64N(int64(days) * 24 * int64(time.Hour)))).Truncate(time.Millisecond)
		switch r.IntN(5) {
		case 0:
			return nil
		case 1:
			at = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		case 2:
			at = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		case 3:
			at = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, int(time.Millisecond)*(1-2*r.IntN(2)), time.UTC)
		}
		return &at
	}
	p := affiliate.Period{From: bound(), Before: bound()}
	if p.From != nil && p.Before != nil && p.From.After(*p.Before) && r.IntN(10) > 0 {
		p.From, p.Before = p.Before, p.From
	}
	return p
}

// A period is divided into spans. The grain of a span is the unit by which the counters
// count it: a month, a day or, for the empty grain, single rows. The grain "ever" is only
// for a period without bounds. The spans must be consecutive and cover the whole period.
// Each span must begin and end at boundaries of its grain. A span of single rows must be
// the first or the last span and shorter than a day. If it is the only span, it must be
// shorter than two days.
func TestSpansOf_CoverPeriodWithoutGaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	equal := func(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }
	isDay := func(at *time.Time) bool { return at == nil || at.Equal(at.Truncate(24*time.Hour)) }
	isMonth := func(at *time.Time) bool { return at == nil || isDay(at) && at.Day() == 1 }
	for range 20_000 {
		p := randomPeriod(r, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 1+r.IntN(800))
		spans := commissions.SpansOf(p)
		describe := func() string { return fmt.Sprintf("%v – %v as %+v", p.From, p.Before, spans) }
		if p.From != nil && p.Before != nil && !p.From.Before(*p.Before) {
			if len(spans) != 0 {
				t.Fatalf("an empty period has spans: %s", describe())
			}
			continue
		}
		if len(spans) == 0 || !equal(spans[0].Period.From, p.From) || !equal(spans[len(spans)-1].Period.Before, p.Before) {
			t.Fatalf("the spans do not start and end with the period: %s", describe())
		}
		days := 0
		for i, s := range spans {
			if i > 0 && (s.Period.From == nil || !equal(s.Period.From, spans[i-1].Period.Before)) {
				t.Fatalf("a gap between spans: %s", describe())
			}
			length := time.Duration(1 << 62)
			if s.Period.From != nil && s.Period.Before != nil {
				length = s.Period.Before.Sub(*s.Period.From)
			}
			if length <= 0 {
				t.Fatalf("an empty span: %s", describe())
			}
			var fits bool
			switch s.Grain {
			case "":
				fits = length < 24*time.Hour && (i == 0 || i == len(spans)-1 || len(spans) == 2) ||
					length < 48*time.Hour && len(spans) == 1
			case "day":
				days += int(length / (24 * time.Hour))
				fits = isDay(s.Period.From) && isDay(s.Period.Before) && days <= 60
			case "month":
				fits = isMonth(s.Period.From) && isMonth(s.Period.Before)
			case "ever":
				fits = len(spans) == 1 && p == affiliate.Period{}
			}
			if !fits {
				t.Fatalf("the span %+v has wrong bounds for its grain: %s", s, describe())
			}
		}
	}
}

// insertRandom creates n random commissions of the last 100 days in three programmes: the
// fixture's programme, a second programme, and a programme in the other mode. Some
// commissions have equal times. inScope contains the commissions of the fixture's mode.
func (f *fixture) insertRandom(r *rand.Rand, n int) (inScope []commission.Commission, second affiliate.ProgramID) {
	f.Helper()
	second = f.NewProgram(f.Scope, pgtest.Row{"name": "Second", "currency": "USD"})
	participants := []pgtest.Participant{
		f.Join("Paula"), f.Join("Paula"), f.NewParticipant(f.Scope, second, f.NewPartner("Paula")), f.InOtherMode().Join("Paula"),
	}
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	for range n {
		c := f.NewDue(participants[r.IntN(len(participants))], func(c *commission.Commission) {
			at := f.Now().Add(-time.Duration(r.Int64N(int64(100 * 24 * time.Hour)))).Truncate(time.Millisecond)
			switch r.IntN(4) {
			case 0:
				at = at.Truncate(24 * time.Hour) // equal times at the boundary between two days
			case 1:
				at = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(3)-1) * time.Millisecond)
			}
			c.CreatedAt = at
			c.Status = commission.Status(pick("pending", "pending", "approved", "rejected", "paid", "refunded"))
			c.NeedsReview = r.IntN(4) == 0
			c.Currency = pick("EUR", "EUR", "USD", "JPY")
			c.AmountCents = r.Int64N(200)
			c.HoldUntil = []*time.Time{nil, new(f.Now()), new(f.Now().Add(time.Millisecond))}[r.IntN(3)]
		})
		if c.Scope == f.Scope {
			inScope = append(inScope, c)
		}
	}
	return inScope, second
}

func matches(f commission.Filter, c commission.Commission) bool {
	return (f.Program == nil || *f.Program == c.Program) && (f.Status == "" || f.Status == c.Status) &&
		(f.NeedsReview == nil || *f.NeedsReview == c.NeedsReview) &&
		(f.HoldActive == nil || c.Status == commission.Pending && *f.HoldActive == c.HoldActive(f.At)) && f.Created.Contains(c.CreatedAt)
}

// Every page, total, sum and export must be equal to the result that the test computes
// from all commissions.
func TestCommissions_ListsStatsAndExportsEqualBruteForce(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	r := rand.New(rand.NewPCG(3, 4))
	all, second := f.insertRandom(r, 250)
	for range 80 {
		filter := commission.Filter{Created: randomPeriod(r, f.Now(), 100), At: f.Now()}
		if r.IntN(3) == 0 {
			filter.Program = []*affiliate.ProgramID{&f.Program, &second}[r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			filter.Status = commission.Pending
		}
		if r.IntN(3) == 0 {
			flagged := r.IntN(2) == 0
			filter.NeedsReview = &flagged
		}
		if r.IntN(3) == 0 {
			filter.HoldActive = new(r.IntN(2) == 0)
		}
		order := commission.Order{By: commission.SortCreatedAt, Ascending: r.IntN(2) == 0}
		if r.IntN(4) == 0 {
			order.By = commission.SortAmountCents
		}
		var want []commission.Commission
		for _, c := range all {
			if matches(filter, c) {
				want = append(want, c)
			}
		}
		slices.SortFunc(want, func(a, b commission.Commission) int {
			key := a.CreatedAt.Compare(b.CreatedAt)
			if order.By == commission.SortAmountCents {
				key = cmp.Compare(a.AmountCents, b.AmountCents)
			}
			if !order.Ascending {
				key = -key
			}
			return cmp.Or(key, b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID.UUID[:], a.ID.UUID[:]))
		})
		what := fmt.Sprintf("%+v %+v", filter, order)

		size := 1 + r.IntN(40)
		for number := 1; number <= len(want)/size+2; number++ {
			items, total, err := commissions.List(t.Context(), f.DB, f.Scope, filter, order, affiliate.Page{Number: number, Size: size})
			if err != nil || total != int64(len(want)) {
				t.Fatalf("%s: the total is %d, %v, want %d", what, total, err, len(want))
			}
			from := min((number-1)*size, len(want))
			expected := want[from:min(from+size, len(want))]
			if !slices.EqualFunc(items, expected, func(a commission.Item, b commission.Commission) bool { return a.ID == b.ID }) {
				t.Fatalf("%s: page %d with the size %d does not have the expected commissions", what, number, size)
			}
		}
		f.checkStats(what, filter, want)
		f.checkExport(what, filter, order, want)
	}
}

func (f *fixture) checkStats(what string, filter commission.Filter, rows []commission.Commission) {
	f.Helper()
	want := commission.Stats{
		Currency: "EUR", ByStatus: map[commission.Status]commission.Sum{}, ByCurrency: map[string]commission.Sum{},
	}
	if filter.Program != nil && *filter.Program != f.Program {
		want.Currency = "USD"
	}
	for _, c := range rows {
		want.Count++
		switch {
		case c.NeedsReview:
			want.NeedsReview++
		case c.Status == commission.Pending && c.HoldActive(filter.At):
			want.OnHold++
		case c.Status == commission.Pending:
			want.Ready++
		}
		currency, status := want.ByCurrency[c.Currency], want.ByStatus[c.Status]
		want.ByCurrency[c.Currency] = commission.Sum{Count: currency.Count + 1, AmountCents: currency.AmountCents + c.AmountCents}
		status.Count++
		if c.Currency == want.Currency {
			status.AmountCents += c.AmountCents
		}
		want.ByStatus[c.Status] = status
	}
	want.InCurrency = want.ByCurrency[want.Currency]
	if got, err := commissions.Stats(f.Context(), f.DB, f.Scope, filter); err != nil || !reflect.DeepEqual(got, want) {
		f.Fatalf("%s: CommissionStats returned %+v, %v, want %+v", what, got, err, want)
	}
}

func (f *fixture) checkExport(what string, filter commission.Filter, order commission.Order, rows []commission.Commission) {
	f.Helper()
	n := 0
	for row, err := range commissions.Export(f.Context(), f.DB, f.Scope, filter, order) {
		if err != nil {
			f.Fatalf("%s: the export returned the error %v", what, err)
		}
		if n == len(rows) || row.ID != rows[n].ID || !row.CreatedAt.Equal(rows[n].CreatedAt) || string(row.Status) != string(rows[n].Status) ||
			row.AmountCents != rows[n].AmountCents || string(row.Currency) != rows[n].Currency || row.PromoCode != nil || row.Payout != nil {
			f.Fatalf("%s: row %d of the export is %+v, which is not row %d of the %d expected commissions", what, n, row, n, len(rows))
		}
		n++
	}
	if n != len(rows) {
		f.Fatalf("%s: the export has %d rows, want %d", what, n, len(rows))
	}
}

func TestCommissionStats_FiltersBySearch(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(5, 6))
	all, _ := f.insertRandom(r, 40)
	for _, c := range []struct {
		search string
		want   []commission.Commission
	}{{all[7].ExternalTransactionID, all[7:8]}, {"paula", all}, {"nobody", nil}} {
		f.checkStats(c.search, commission.Filter{Search: c.search, At: f.Now()}, c.want)
	}
	_, err := commissions.Stats(t.Context(), f.DB, f.Scope, commission.Filter{Program: new(affiliate.NewID[affiliate.ProgramID](f.Now()))})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

// A page and its total must be read from one snapshot. While new commissions are
// inserted, the number of rows on a page must match the total in the same response.
func TestCommissions_PageAndTotalAreFromOneSnapshot(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Paula")
	for range 15 {
		f.NewDue(p)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			for {
				select {
				case <-done:
					return
				default:
				}
				page := affiliate.Page{Number: 1 + r.IntN(6), Size: 10}
				order := commission.Order{By: commission.SortCreatedAt, Ascending: r.IntN(2) == 0}
				items, total, err := commissions.List(t.Context(), f.DB, f.Scope, commission.Filter{}, order, page)
				if want := min(max(total-page.Offset(), 0), int64(page.Size)); err != nil || int64(len(items)) != want {
					t.Errorf("page %d has %d rows and the total is %d, %v, want %d rows", page.Number, len(items), total, err, want)
					return
				}
			}
		})
	}
	for range 40 {
		f.NewDue(p)
	}
	close(done)
	readers.Wait()
}
