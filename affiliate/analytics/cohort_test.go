package analytics_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// The cohorts of a period with months in any time zone follow from sums whose months begin in
// UTC and from the conversions in the windows.
func TestCohortReport_EqualsPlainComputation(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var owners []analytics.Owner
	for range 2 {
		program := affiliate.NewID[affiliate.ProgramID](start)
		for range 2 {
			owners = append(owners, analytics.Owner{
				Program: program, Participant: affiliate.NewID[affiliate.ParticipantID](start), Link: affiliate.NewID[affiliate.LinkID](start),
			})
		}
	}
	owners[3].Link = affiliate.LinkID{}
	for round := range 300 {
		zone, err := time.LoadLocation([]string{"UTC", "Asia/Kathmandu", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Australia/Lord_Howe"}[round%5])
		if err != nil {
			t.Fatal(err)
		}
		// Half of the times are within two days of the beginning of a month.
		someTime := func() time.Time {
			if random.IntN(2) == 0 {
				return start.Add(time.Duration(random.Int64N(int64(150 * 24 * time.Hour))))
			}
			return start.AddDate(0, random.IntN(6), 0).Add(time.Duration(random.Int64N(int64(96*time.Hour))) - 48*time.Hour)
		}
		from, to := someTime(), someTime()
		if to.Before(from) {
			from, to = to, from
		}
		period, wrong := analytics.ParseCohorts(from.Format(time.RFC3339), to.Format(time.RFC3339), zone.String(), to)
		if err := wrong.Err(); err != nil {
			t.Fatal(err)
		}
		customers, conversions := map[string]*analytics.Customer{}, map[string][]analytics.Conversion{}
		for range 20 {
			c := analytics.Conversion{
				ID: affiliate.NewID[affiliate.ConversionID](start), Customer: strconv.Itoa(random.IntN(8)), OccurredAt: someTime(),
				Owner: owners[random.IntN(len(owners))], EventType: affiliate.Purchase, Currency: []string{"EUR", "USD"}[random.IntN(2)],
				AmountCents: random.Int64N(100), Commission: commission.Paid, CommissionCents: 1, CommissionCurrency: "EUR",
			}
			conversions[c.Customer] = append(conversions[c.Customer], c)
			customer := customers[c.Customer]
			if customer == nil {
				customer = &analytics.Customer{Ref: c.Customer, Activity: analytics.Activity{}}
				customers[c.Customer] = customer
			}
			if customer.First.IsZero() || c.OccurredAt.Before(customer.FirstAt) {
				customer.First, customer.FirstAt, customer.Owner = c.ID, c.OccurredAt, c.Owner
			}
			customer.Activity.Add(&c, analytics.MonthOf(c.OccurredAt), 1)
		}
		sums := analytics.CohortSums{}
		for _, customer := range customers {
			encoded, _ := customer.Activity.BytesValue()
			var decoded analytics.Activity
			err := decoded.ScanBytes(encoded)
			if err != nil || !maps.Equal(decoded, customer.Activity) {
				t.Fatalf("the decoded activity is %v, %v, want %v", decoded, err, customer.Activity)
			}
			sums.AddCustomer(customer, 1)
		}
		for _, level := range []analytics.Owner{{}, {Program: owners[0].Program}, {Program: owners[1].Program, Participant: owners[1].Participant}, owners[2]} {
			matches := func(o analytics.Owner) bool {
				return (level.Program.IsZero() || o.Program == level.Program) && (level.Participant.IsZero() || o.Participant == level.Participant) &&
					(level.Link.IsZero() || o.Link == level.Link)
			}
			report := analytics.NewCohortReport(period, "EUR")
			windows := report.Windows()
			for i, w := range windows {
				if w.From >= w.To || i > 0 && w.From <= windows[i-1].To {
					t.Fatalf("seed %d, round %d: the windows %v are empty or overlap", seed, round, windows)
				}
			}
			for key, counts := range sums {
				if key.Owner == level {
					report.Add(key.Cohort, key.Month, key.Currency, counts)
				}
			}
			for ref, customer := range customers {
				var inWindows []analytics.Conversion
				for _, c := range conversions[ref] {
					q := analytics.QuarterOf(c.OccurredAt)
					if matches(c.Owner) && slices.ContainsFunc(windows, func(w analytics.Period) bool { return w.Contains(q) }) {
						inWindows = append(inWindows, c)
					}
				}
				if len(inWindows) > 0 {
					report.Move(level, customer, inWindows)
				}
			}
			want := map[string]analytics.CohortCounts{}
			for ref, customer := range customers {
				first := analytics.QuarterOf(customer.FirstAt)
				if !matches(customer.Owner) || !period.Contains(first) {
					continue
				}
				active := map[string]bool{}
				for _, c := range conversions[ref] {
					if !matches(c.Owner) || analytics.QuarterOf(c.OccurredAt) >= period.To {
						continue
					}
					name := customer.FirstAt.In(zone).Format("2006-01 ") + c.OccurredAt.In(zone).Format("2006-01")
					cell := want[name]
					cell.Conversions, cell.CommissionCents = cell.Conversions+1, cell.CommissionCents+1
					if c.Currency == "EUR" {
						cell.RevenueCents += c.AmountCents
					}
					if !active[name] {
						active[name] = true
						cell.Customers++
					}
					want[name] = cell
				}
			}
			got := map[string]analytics.CohortCounts{}
			for _, cohort := range report.Cohorts() {
				month := cohort.Start.In(zone)
				for i, cell := range cohort.Cells {
					if cell != (analytics.CohortCounts{}) {
						got[month.Format("2006-01 ")+time.Date(month.Year(), month.Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC).Format("2006-01")] = cell
					}
				}
			}
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d, round %d: cohorts of %v from %s to %s in %s:\n got  %v\n want %v", seed, round, level, from, to, zone, got, want)
			}
		}
	}
}
