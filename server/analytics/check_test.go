package analytics_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// checks returns the results of the consistency checks of the analytics, by name.
func (f *fixture) checks() map[string]affiliate.CheckResult {
	f.Helper()
	results, err := checks.Run(f.Context(), f.DB, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	found := map[string]affiliate.CheckResult{}
	for _, r := range results {
		if strings.HasPrefix(r.Name, "analytics_") {
			found[r.Name] = r
		}
	}
	return found
}

func (f *fixture) wantNoViolations(when string) {
	f.Helper()
	for name, r := range f.checks() {
		if r.Violated > 0 {
			f.Errorf("%s: check %s reports %v", when, name, r.Violations)
		}
	}
}

// yesterday returns a time of yesterday. The checks compare some numbers only of yesterday and of another day.
func (f *fixture) yesterday() time.Time {
	return f.clock.Now().UTC().Truncate(24 * time.Hour).Add(-time.Hour)
}

// reportYesterday reports a purchase of yesterday and returns the id of the conversion.
func (f *fixture) reportYesterday(external string, req *affiliatev1.ReportConversionRequest) string {
	f.Helper()
	req.ExternalTransactionId, req.EventType = external, affiliatev1.EventType_EVENT_TYPE_PURCHASE
	req.AmountCents, req.Currency = new(int64(10_000)), new("EUR")
	req.OccurredAt = timestamppb.New(f.yesterday().Add(30 * time.Minute))
	got, err := f.conversions.ReportConversion(f.asKey(), req)
	if err != nil {
		f.Fatal(err)
	}
	return got.GetId()
}

// difference is a change of the database that one of the checks must report.
type difference struct {
	check   string
	corrupt string // a statement; {name} is replaced by a value of the test
	want    string // a regular expression for one of the lines, with the same replacements
}

// inTotal adds a large number to a column of a total of the programme.
func inTotal(column, currency string) string {
	return `update analytics_days set ` + column + ` = coalesce(` + column + `, 0) + 1000000000
		where program_id = '{program}' and participant_id = '{none}' and dimension = '' and day = '{day}' and currency = '` + currency + `'`
}

// inCountry sets a column of a sum of the country DE.
func inCountry(column, value, participant string) string {
	return `update analytics_days set ` + column + ` = ` + value + `
		where program_id = '{program}' and participant_id = '` + participant + `' and dimension = 'country' and value = 'DE' and day = '{day}' and currency = ''`
}

var differences = map[string]difference{
	"a lost click": {
		"analytics_clicks",
		`update analytics_days set clicks = clicks - 1 where dimension = '' and day = '{day}' and participant_id <> '{none}'`,
		`: participant {pat}, {day}: the analytics have \d+ clicks`,
	},
	"a click that was not counted": {
		"analytics_clicks", `update clicks set is_bot = not is_bot where received_at = '{yesterday}'`, `: participant {pat}, {day}: the analytics have \d+ clicks`,
	},
	"a conversion that was not counted again": {
		"analytics_conversions", `update conversions set refunded_amount_cents = refunded_amount_cents + 1 where id = '{conversion}'`,
		`the analytics contain an earlier state of the conversion {conversion}`,
	},
	"a conversion that is wrongly counted as a new customer": {
		"analytics_conversions", `update analytics_conversions set without_customer = not without_customer where conversion_id = '{conversion}'`,
		`the analytics count the customer of the conversion {conversion} wrongly`,
	},
	"a conversion that was not counted": {
		"analytics_conversions", `update analytics_conversions set conversion_id = '{unknown}' where conversion_id = '{conversion}'`,
		`the analytics do not contain the conversion {conversion}`,
	},

	"conversions":   {"analytics_sums", inTotal("conversions", ""), `: programme {program}, {day}: the analytics have 1\d{9} conversions, expected \d{1,3}$`},
	"signups":       {"analytics_sums", inTotal("signups", ""), `: programme {program}, {day}: the analytics have 1\d{9} signups, expected \d{1,3}$`},
	"new customers": {"analytics_sums", inTotal("new_customers", ""), `have 1\d{9} new customers, expected \d{1,3}$`},
	"approved":      {"analytics_sums", inTotal("approved", ""), `have 1\d{9} approved commissions, expected \d{1,3}$`},
	"paid":          {"analytics_sums", inTotal("paid", ""), `have 1\d{9} paid commissions, expected \d{1,3}$`},
	"orders":        {"analytics_sums", inTotal("orders", "EUR"), `have 1\d{9} orders in EUR, expected \d{1,3}$`},
	"revenue":       {"analytics_sums", inTotal("revenue_cents", "EUR"), `have 1\d{9} cents of revenue in EUR, expected \d{1,8}$`},
	"refunds":       {"analytics_sums", inTotal("refunded_cents", "EUR"), `have 1\d{9} refunded cents in EUR, expected \d{1,8}$`},
	"commissions":   {"analytics_sums", inTotal("commission_cents", "EUR"), `have 1\d{9} cents of commissions in EUR, expected \d{1,8}$`},
	"orders in a sum of counts": {
		"analytics_sums", inTotal("orders", ""), `have 1\d{9} orders, expected 0$`,
	},
	"a currency": {
		"analytics_sums", `update analytics_days set currency = 'XXX' where dimension = '' and day = '{day}' and participant_id = '{none}' and currency = 'EUR'`,
		`: programme {program}, {day}: the analytics have 0 orders in EUR, expected \d+$`,
	},
	"a new customer that is not the first conversion": {
		"analytics_sums", `update analytics_customers set conversion_id = '{unknown}' where conversion_id = '{conversion}'`,
		`: programme {program}, {day}: the analytics have \d+ new customers, expected \d+$`,
	},

	"conversions of a value": {
		"analytics_values", inCountry("conversions", "1000", "{none}"), `: programme {program}, {day}: the values of country have 1\d{3} conversions, expected \d{1,3}$`,
	},
	"lost values": {
		"analytics_values", `delete from analytics_days where dimension = 'event_type' and day = '{day}'`,
		`: programme {program}, {day}: the values of event_type have 0 conversions, expected \d+$`,
	},
	"clicks of a value": {
		"analytics_value_clicks", inCountry("clicks", "1000", "{none}"),
		`: programme {program}, {day}: the values of country have 1\d{3} clicks with those of bots, expected at most \d{1,3}$`,
	},
	"clicks of bots of a value": {
		"analytics_value_clicks", inCountry("bot_clicks", "1000", "{none}"), `the values of country have 1\d{3} clicks with those of bots, expected at most \d{1,3}$`,
	},

	"a lost customer": {
		"analytics_customers", `delete from analytics_customers where conversion_id = '{conversion}'`,
		`: programme {program}, {day}: the analytics do not contain the customer whose first conversion is {conversion}$`,
	},
	"an unknown customer": {
		"analytics_customers", `
			insert into analytics_customers (workspace_id, mode, customer_ref, conversion_id, first_at, program_id, participant_id, link_id, activity)
			select workspace_id, mode, 'unknown', conversion_id, first_at, program_id, participant_id, link_id, activity from analytics_customers where conversion_id = '{conversion}'`,
		`^workspace {workspace}, live: the analytics contain the customer with the first conversion {conversion}, who has no attributed conversion$`,
	},
	"a conversion that is not the first": {
		"analytics_customers", `update analytics_customers set conversion_id = '{unknown}' where conversion_id = '{conversion}'`,
		`: programme {program}, {day}: the analytics have {unknown} at {day} 23:30:00 as the first conversion of a customer, expected {conversion} at {day} 23:30:00$`,
	},
	"the time of a first conversion": {
		"analytics_customers", `update analytics_customers set first_at = first_at + interval '1 minute' where conversion_id = '{conversion}'`,
		`: the analytics have {conversion} at {day} 23:31:00 as the first conversion of a customer, expected {conversion} at {day} 23:30:00$`,
	},

	"customers of a cohort": {
		"analytics_cohorts", `update analytics_cohorts set customers = customers + 1000 where program_id = '{none}' and month = date_trunc('month', timestamp '{day}')`,
		`^workspace {workspace}, live: the cohort of .* has \d+ conversions of 1\d{3} customers in the month .*, expected \d+ of \d{1,3}$`,
	},
	"a lost cohort": {"analytics_cohorts", `delete from analytics_cohorts`, `the cohort of .* has 0 conversions of 0 customers`},

	"a negative number of clicks": {
		"analytics_negative", inCountry("clicks", "-5", "{pat}"),
		`: programme {program}, participant {pat}, {day}: a sum of the dimension 'country' has -5 clicks \(\d+ unique\), \d+ of bots and \d+ conversions, expected no number below 0$`,
	},
	"a negative number of unique clicks":  {"analytics_negative", inCountry("unique_clicks", "-5", "{pat}"), `'country' has \d+ clicks \(-5 unique\)`},
	"a negative number of clicks of bots": {"analytics_negative", inCountry("bot_clicks", "-5", "{pat}"), `'country' has .*, -5 of bots and`},
	"a negative number of conversions":    {"analytics_negative", inCountry("conversions", "-5", "{pat}"), `'country' has .* and -5 conversions`},
	"a negative total": {
		"analytics_negative", inTotal("conversions", "") + `; update analytics_days set conversions = -conversions where conversions >= 1000000000`,
		`: programme {program}, participant {none}, {day}: a sum of the dimension '' has .* and -1\d{9} conversions`,
	},

	"a sum of a value": {
		"analytics_programs", `
			insert into analytics_days (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id, clicks, quarters)
			values ('{workspace}', 'live', '{program}', '{none}', 'country', '{day}', 'XX', '', '{none}', 1, '\x')`,
		`: programme {program}, {day}: a value of country has the sum 1, but the sum of its participants is 0$`,
	},
}

// The nightly checks accept the sums of random histories, and detect each kind of difference.
func TestCheckAccounts_ComparesAnalytics(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t, time.Now())
	f.addHistory()
	yesterday := f.yesterday()
	click := f.NewClick(f.pat, func(c *click.Click) {
		c.ID = affiliate.NewID[affiliate.ClickID](yesterday)
		c.ClickedAt, c.ReceivedAt, c.Country = yesterday, yesterday, "DE"
	})
	conversion := f.reportYesterday("yesterday", &affiliatev1.ReportConversionRequest{ClickId: new(click.ID.String()), CustomerId: new("yesterday")})
	f.wantNoViolations("with entries in the log")
	f.addWaiting()
	f.wantNoViolations("without entries in the log")
	for name, r := range f.checks() {
		if r.Compared == 0 {
			t.Errorf("check %s compares nothing", name)
		}
	}
	values := strings.NewReplacer(
		"{workspace}", f.Scope.Workspace.String(), "{program}", f.Program.String(), "{pat}", f.pat.ID.String(), "{conversion}", conversion,
		"{yesterday}", yesterday.Format(time.RFC3339), "{day}", yesterday.Format(time.DateOnly),
		"{none}", "00000000-0000-0000-0000-000000000000", "{unknown}", "11111111-1111-1111-1111-111111111111")
	for name, d := range differences {
		t.Run(name, func(t *testing.T) {
			lines := f.checksAfter(values.Replace(d.corrupt))[d.check].Violations
			if !regexp.MustCompile(`(?m)` + values.Replace(d.want)).MatchString(strings.Join(lines, "\n")) {
				t.Errorf("check %s reports %q, want a line that matches %s", d.check, lines, values.Replace(d.want))
			}
		})
	}
	f.wantNoViolations("after the changes were taken back")
}

// A value that was replaced and is counted separately again lacks its earlier numbers. If these
// are subtracted, its sum does not become negative.
func TestFold_ReattributionAfterValueWasReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	sale := func(external, subID string) (conversion string) {
		conversion = f.reportYesterday(external, &affiliatev1.ReportConversionRequest{PromoCode: new("pat10"), SubId: &subID})
		f.addWaiting()
		return conversion
	}
	first := sale("1", "x")
	f.Exec(`
		insert into analytics_values (workspace_id, mode, dimension, day, value, weight)
		select $1, 'live', 'sub_id', $2::date, 'heavy ' || n, 1000000 from generate_series(1, 999) as n`, f.Scope.Workspace, f.yesterday())
	sale("2", "y") // replaces x
	again := sale("3", "x")
	for _, conversion := range []string{first, again} {
		_, err := f.conversions.ReattributeConversion(f.asOwner(), &affiliatev1.ReattributeConversionRequest{
			ConversionId: conversion, ParticipantId: f.quinn.ID.String(), Reason: "R",
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.addWaiting()
	f.wantNoViolations("after the reattribution")
	f.WantCount(3, "conversions by sub id", `
		select sum(conversions) from analytics_days where dimension = 'sub_id' and participant_id = '00000000-0000-0000-0000-000000000000'`)
}

// checksAfter returns the results of the checks after a change, which it takes back.
func (f *fixture) checksAfter(sql string) map[string]affiliate.CheckResult {
	f.Helper()
	copies := map[string]string{}
	for _, table := range []string{"analytics_days", "analytics_conversions", "analytics_customers", "analytics_cohorts", "clicks", "conversions"} {
		copies[table] = "copy_of_" + table
		f.Exec(`create table copy_of_` + table + ` as select * from ` + table)
	}
	defer func() {
		for table, copied := range copies {
			f.ExecWithoutForeignKeys(`delete from ` + table)
			f.ExecWithoutForeignKeys(`insert into ` + table + ` select * from ` + copied)
			f.Exec(`drop table ` + copied)
		}
	}()
	f.ExecWithoutForeignKeys(sql)
	return f.checks()
}
