package affiliate

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParsePeriod(t *testing.T) {
	for _, c := range []struct {
		name, from, to, zone string
		wantFrom, wantBefore string // empty if the bound is open
	}{
		{name: "nothing"},
		{name: "one day", from: "2026-03-01", to: "2026-03-01", wantFrom: "2026-03-01T00:00:00Z", wantBefore: "2026-03-02T00:00:00Z"},
		{name: "from only", from: "2026-03-01", wantFrom: "2026-03-01T00:00:00Z"},
		{name: "to only, end of February", to: "2026-02-28", wantBefore: "2026-03-01T00:00:00Z"},
		{name: "leap day", to: "2028-02-29", wantBefore: "2028-03-01T00:00:00Z"},
		{name: "timestamps are included", from: "2026-03-01T10:00:00.005Z", to: "2026-03-01T10:00:00.005Z", wantFrom: "2026-03-01T10:00:00.005Z", wantBefore: "2026-03-01T10:00:00.006Z"},
		{name: "an offset takes precedence over the zone", from: "2026-03-01T10:00:00+02:00", zone: "America/New_York", wantFrom: "2026-03-01T08:00:00Z"},
		{name: "finer than a millisecond", from: "2026-03-01T10:00:00.0054Z", to: "2026-03-01T10:00:00.0056Z", wantFrom: "2026-03-01T10:00:00.006Z", wantBefore: "2026-03-01T10:00:00.006Z"},
		{name: "a day and a timestamp on it", from: "2026-03-01", to: "2026-03-01T00:00:00Z", wantFrom: "2026-03-01T00:00:00Z", wantBefore: "2026-03-01T00:00:00.001Z"},
		{name: "zone", from: "2026-01-10", to: "2026-01-10", zone: "America/New_York", wantFrom: "2026-01-10T05:00:00Z", wantBefore: "2026-01-11T05:00:00Z"},
		{name: "a day of 23 hours", from: "2026-03-29", to: "2026-03-29", zone: "Europe/Berlin", wantFrom: "2026-03-28T23:00:00Z", wantBefore: "2026-03-29T22:00:00Z"},
		{name: "a day of 25 hours", from: "2026-10-25", to: "2026-10-25", zone: "Europe/Berlin", wantFrom: "2026-10-24T22:00:00Z", wantBefore: "2026-10-25T23:00:00Z"},
		{name: "midnight skipped, so the day starts at 01:00", from: "2018-11-04", to: "2018-11-04", zone: "America/Sao_Paulo", wantFrom: "2018-11-04T03:00:00Z", wantBefore: "2018-11-05T02:00:00Z"},
		{name: "midnight twice, the first one counts", from: "2025-11-02", to: "2025-11-02", zone: "America/Havana", wantFrom: "2025-11-02T04:00:00Z", wantBefore: "2025-11-03T05:00:00Z"},
		{name: "a day that the zone left out is empty", from: "2011-12-30", to: "2011-12-30", zone: "Pacific/Apia", wantFrom: "2011-12-30T10:00:00Z", wantBefore: "2011-12-30T10:00:00Z"},
		{name: "the last possible date", to: "9999-12-31", wantBefore: "+10000-01-01"},
		{name: "year 0", to: "0000-12-31", wantBefore: "0001-01-01T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := ParsePeriod(c.from, c.to, c.zone)
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			check := func(bound string, got *time.Time, want string) {
				t.Helper()
				switch {
				case want == "":
					if got != nil {
						t.Errorf("%s is %v, want open", bound, got)
					}
				case got == nil:
					t.Errorf("%s is open, want %s", bound, want)
				case want == "+10000-01-01":
					if !got.Equal(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) {
						t.Errorf("%s is %v, want %s", bound, got, want)
					}
				case got.Format(time.RFC3339Nano) != want:
					t.Errorf("%s is %v, want %s", bound, got.Format(time.RFC3339Nano), want)
				}
			}
			check("from", got.From, c.wantFrom)
			check("before", got.Before, c.wantBefore)
		})
	}
}

func TestParsePeriod_ReportsAllViolations(t *testing.T) {
	for _, c := range []struct {
		from, to, zone string
		fields         string
	}{
		{from: "2026-03-02", to: "2026-03-01", fields: "date_to"},
		{from: "2026-03-02", to: "2026-03-01T23:59:59.999Z", fields: "date_to"},
		{from: "2026-03-01T10:00:00.001Z", to: "2026-03-01T10:00:00Z", fields: "date_to"},
		{from: "2026-03-02T00:00:00Z", to: "2026-03-01", fields: "date_to"},
		{from: "2026-02-30", fields: "date_from"},
		{from: "2026-3-1", fields: "date_from"},
		{from: "20260301", fields: "date_from"},
		{from: " 2026-03-01", fields: "date_from"},
		{from: "2026-03-01T10:00", fields: "date_from"},
		{from: "2026-03-01T10:00:00", fields: "date_from"},
		{from: "2026-03-01 10:00:00Z", fields: "date_from"},
		{from: "2026-03-01T1:00:00Z", fields: "date_from"},
		{from: "2026-03-01T10:00:00,5Z", fields: "date_from"},
		{from: "2026-03-01T10:00:00+24:00", fields: "date_from"},
		{to: "yesterday", fields: "date_to"},
		{to: "1772359200", fields: "date_to"},
		{zone: "Mars/Olympus", fields: "timezone"},
		{zone: "Local", fields: "timezone"},
		{zone: "../../etc/passwd", fields: "timezone"},
		{zone: "/etc/localtime", fields: "timezone"},
		{zone: "Europe", fields: "timezone"},
		{zone: "+02:00", fields: "timezone"},
		{zone: "Europe/Berlin\x00", fields: "timezone"},
		{from: "x", to: "y", zone: "z", fields: "timezone date_from date_to"},
	} {
		_, wrong := ParsePeriod(c.from, c.to, c.zone)
		var fields []string
		for _, v := range wrong {
			fields = append(fields, v.Field)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("from %q to %q in %q: violations of %q, want %q", c.from, c.to, c.zone, got, c.fields)
		}
	}
}

// zones lists time zones with unusual changes of their offset.
var zones = []string{
	"", "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "America/Havana", "America/St_Johns",
	"Atlantic/Azores", "Africa/Cairo", "Africa/Casablanca", "Asia/Beirut", "Asia/Tehran", "Asia/Kathmandu", "Asia/Amman",
	"Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Kwajalein", "Pacific/Pago_Pago", "Antarctica/Troll",
	"Asia/Manila", "America/Juneau", "America/Scoresbysund", "America/Nuuk",
}

// In every zone, days must follow each other without gap or overlap, so each instant
// must be in the period of exactly one date. That is the date that clocks in the zone
// show. If the clocks were set back over midnight, it can also be the next date.
func TestParsePeriod_DaysHaveNoGapOrOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		at := time.UnixMilli(rapid.Int64Range(-2_000_000_000_000, 4_000_000_000_000).Draw(t, "at")).UTC()
		day := func(offset int) Period {
			y, m, d := at.In(zone).Date()
			date := time.Date(y, m, d+offset, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			p, wrong := ParsePeriod(date, date, name)
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			return p
		}
		containing := 0
		for offset := -2; offset <= 2; offset++ {
			if day(offset).Contains(at) {
				containing++
				if offset != 0 && offset != 1 {
					t.Fatalf("%v in %s is in the period of the date %d days later", at, name, offset)
				}
			}
			if !day(offset).Before.Equal(*day(offset + 1).From) {
				t.Fatalf("%s: gap or overlap after day %d of %v", name, offset, at)
			}
		}
		if containing != 1 {
			t.Fatalf("%v in %s is in the periods of %d dates, want 1", at, name, containing)
		}
	})
}

// A client can use the createdAt of a row, as a response shows it, as dateFrom and
// dateTo. The period must contain the row. If dateFrom and dateTo differ from createdAt
// by a millisecond or more, the period must not contain the row.
func TestParsePeriod_FindsDisplayedInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 4_000_000_000_000_000).Draw(t, "at")).UTC()
		offset := time.Duration(rapid.Int64Range(-3, 3).Draw(t, "offset in ms")) * time.Millisecond
		shown := FormatTime(at.Add(offset))
		p, wrong := ParsePeriod(shown, shown, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err := wrong.Err(); err != nil {
			t.Fatal(err)
		}
		if p.Contains(at) != (offset == 0) {
			t.Fatalf("the period from %s to %s contains %v: %v", shown, shown, at, p.Contains(at))
		}
	})
}

// A period with wider bounds must contain a period with narrower bounds.
func TestParsePeriod_WiderBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		first := rapid.IntRange(0, 400).Draw(t, "first")
		last := first + rapid.IntRange(0, 30).Draw(t, "last")
		date := func(n int) string { return start.AddDate(0, 0, n).Format(time.DateOnly) }
		narrow, wrong := ParsePeriod(date(first), date(last), zone)
		wide, wrongToo := ParsePeriod(date(first-1), date(last+1), zone)
		if wrong != nil || wrongToo != nil {
			t.Fatal(wrong, wrongToo)
		}
		if !wide.From.Before(*narrow.From) || !wide.Before.After(*narrow.Before) || narrow.Before.Before(*narrow.From) {
			t.Fatalf("the period %v does not contain %v, or one of them ends before it begins", wide, narrow)
		}
		if first < last {
			if _, wrong := ParsePeriod(date(last), date(first), zone); wrong == nil {
				t.Fatal("a period with swapped bounds was accepted")
			}
		}
	})
}

func FuzzParsePeriod(f *testing.F) {
	f.Add("2026-03-01", "2026-03-31", "Europe/Berlin")
	f.Add("2026-03-01T10:00:00Z", "", "")
	f.Add("0000-01-01", "9999-12-31", "Pacific/Apia")
	f.Add("2026-03-01T10:00:00.123456789+14:00", "0000-12-31T23:59:59-23:59", "America/St_Johns")
	f.Fuzz(func(t *testing.T, from, to, zone string) {
		p, wrong := ParsePeriod(from, to, zone)
		if wrong != nil {
			if p != (Period{}) {
				t.Errorf("ParsePeriod(%q, %q, %q) returns violations and the period %v", from, to, zone, p)
			}
			return
		}
		if (p.From == nil) != (from == "") || (p.Before == nil) != (to == "") {
			t.Errorf("ParsePeriod(%q, %q, %q) = %v; want a bound for each parameter that is not empty", from, to, zone, p)
		}
		if p.From != nil && p.Before != nil && p.Before.Before(*p.From) {
			t.Errorf("%q to %q in %q ends before it starts: %v", from, to, zone, p)
		}
		for _, bound := range []*time.Time{p.From, p.Before} {
			if bound != nil && (bound.Nanosecond()%int(time.Millisecond) != 0 || bound.Location() != time.UTC) {
				t.Errorf("%v is not UTC to the millisecond", bound)
			}
		}
	})
}
