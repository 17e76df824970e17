package analytics_test

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
)

// The tests of this file compare each response with a plain computation over all clicks and
// conversions. The computation uses no code of the packages under test.

// record is a click or a conversion.
type record struct {
	At           time.Time
	Program      string
	Participant  string
	Link         string
	Values       map[string]string
	Click        bool
	Bot, Unique  bool
	ID           string
	EventType    string
	Customer     string
	Currency     string
	Amount       int64
	Refunded     int64
	Status       string
	Earned       int64
	EarnedIn     string
	firstOfBuyer bool
	// WithoutCustomer says that an attributed conversion names no customer.
	WithoutCustomer bool
	first           *record // of the customer
}

// records reads all clicks and conversions of the shop.
func (f *fixture) records() []record {
	f.Helper()
	const columns = `coalesce(c.country, '') as country, coalesce(c.device, '') as device, coalesce(c.browser, '') as browser,
		coalesce(c.os, '') as os, coalesce(c.referrer_domain, '') as referrer, coalesce(c.landing_url, '') as landing_page,
		coalesce(c.utm_source, '') as utm_source, coalesce(c.utm_medium, '') as utm_medium, coalesce(c.utm_campaign, '') as utm_campaign`
	var all []record
	read := func(sql string, each func(map[string]any) record) {
		f.Helper()
		rows, _ := f.SQL.Query(f.Context(), sql, f.Scope.Workspace, f.Scope.Mode)
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			f.Fatal(err)
		}
		for _, row := range found {
			r := each(row)
			r.At = row["at"].(time.Time)
			r.Program, r.Participant, r.Link = row["program"].(string), row["participant"].(string), row["link"].(string)
			r.Values = map[string]string{}
			for _, d := range dimensions {
				if text, ok := row[d].(string); ok {
					r.Values[d] = text
				}
			}
			all = append(all, r)
		}
	}
	read(`select c.received_at as at, c.program_id::text as program, c.participant_id::text as participant, c.link_id::text as link,
			c.is_bot, c.is_unique, coalesce(c.sub_id, '') as sub_id, `+columns+`
		from clicks c where c.workspace_id = $1 and c.mode = $2`, func(row map[string]any) record {
		return record{Click: true, Bot: row["is_bot"].(bool), Unique: row["is_unique"].(bool)}
	})
	read(`select n.occurred_at as at, case when n.attributed then n.program_id::text else '' end as program,
			case when n.attributed then n.participant_id::text else '' end as participant,
			case when n.attributed then coalesce(n.link_id::text, '') else '' end as link,
			n.id::text as id, n.event_type, case when n.attributed then coalesce(n.customer_ref, '') else '' end as customer,
			n.attributed and n.customer_ref is null and n.buyer_erased_at is null as without_customer,
			coalesce(n.currency, '') as currency, n.amount_cents, n.refunded_amount_cents,
			coalesce(m.status, '') as status, coalesce(m.amount_cents, 0) as earned, coalesce(m.currency, '') as earned_in,
			coalesce(n.sub_id, c.sub_id, '') as sub_id, case when d.method = 'promo_code' then n.promo_code else '' end as promo_code, `+columns+`
		from conversions n
		join attribution_decisions d on d.workspace_id = n.workspace_id and d.id = n.decision_id
		left join commissions m on m.workspace_id = n.workspace_id and m.decision_id = n.decision_id
		left join clicks c on c.workspace_id = n.workspace_id and c.id = n.click_id and d.method = 'click' and n.attributed
		where n.workspace_id = $1 and n.mode = $2`, func(row map[string]any) record {
		return record{
			ID: row["id"].(string), EventType: row["event_type"].(string), Customer: row["customer"].(string),
			WithoutCustomer: row["without_customer"].(bool), Currency: row["currency"].(string),
			Amount: row["amount_cents"].(int64), Refunded: row["refunded_amount_cents"].(int64),
			Status: row["status"].(string), Earned: row["earned"].(int64), EarnedIn: row["earned_in"].(string),
		}
	})
	firsts := map[string]*record{}
	for i := range all {
		r := &all[i]
		if first := firsts[r.Customer]; first == nil || r.At.Before(first.At) || r.At.Equal(first.At) && r.ID < first.ID {
			firsts[r.Customer] = r
		}
	}
	for i := range all {
		if r := &all[i]; r.Customer != "" {
			r.firstOfBuyer, r.first = firsts[r.Customer] == r, firsts[r.Customer]
		}
	}
	return all
}

// dimensions are the values of groupBy with values of clicks and conversions.
var dimensions = []string{
	"country", "device", "browser", "os", "referrer", "landing_page", "utm_source", "utm_medium", "utm_campaign", "sub_id", "promo_code", "event_type",
}

// value returns the value of a dimension.
func (r record) value(dimension string) string {
	switch dimension {
	case "program":
		return r.Program
	case "participant":
		return r.Participant
	case "link":
		return r.Link
	case "event_type":
		return r.EventType
	}
	return r.Values[dimension]
}

// numbers are the numbers of a selection of records.
type numbers struct {
	clicks, unique, signups, conversions, customers, approved, paid int64
	revenue, refunded, commission                                   map[string]int64
}

func numbersOf(records []record, bots bool) numbers {
	n := numbers{revenue: map[string]int64{}, refunded: map[string]int64{}, commission: map[string]int64{}}
	for _, r := range records {
		switch {
		case r.Click && (!r.Bot || bots):
			n.clicks++
			if r.Unique {
				n.unique++
			}
			continue
		case r.Click:
			continue
		}
		n.conversions++
		switch r.EventType {
		case "signup", "lead":
			n.signups++
		case "purchase", "renewal":
			n.revenue[r.Currency] += r.Amount
			n.refunded[r.Currency] += r.Refunded
		}
		if r.firstOfBuyer || r.WithoutCustomer {
			n.customers++
		}
		switch r.Status {
		case "paid":
			n.paid++
			n.approved++
			n.commission[r.EarnedIn] += r.Earned
		case "approved":
			n.approved++
			n.commission[r.EarnedIn] += r.Earned
		case "pending":
			n.commission[r.EarnedIn] += r.Earned
		}
	}
	return n
}

// ordersIn counts the purchases and renewals in a currency.
func ordersIn(records []record, currency string) (orders int64) {
	for _, r := range records {
		if (r.EventType == "purchase" || r.EventType == "renewal") && r.Currency == currency {
			orders++
		}
	}
	return orders
}

// metrics formats the numbers as the API shows them.
func metrics(records []record, q query) string {
	n := numbersOf(records, q.bots)
	revenue, refunded, commission := n.revenue[q.currency], n.refunded[q.currency], n.commission[q.currency]
	net, roc := strconv.FormatInt(revenue-refunded-commission, 10), quotient(revenue-refunded, commission, 4)
	if q.partner {
		net, roc = "-", "-"
	}
	return fmt.Sprintln(n.clicks, n.unique, n.signups, n.conversions, n.customers, revenue, refunded, commission, net,
		quotient(n.customers, n.clicks, 4), quotient(n.conversions, n.clicks, 4), quotient(commission, n.clicks, 0), quotient(revenue, ordersIn(records, q.currency), 0), roc)
}

// quotient returns a/b with the given number of decimals, rounded half away from zero.
func quotient(a, b int64, decimals int) string {
	if b == 0 {
		return "-"
	}
	text := new(big.Rat).SetFrac64(a, b).FloatString(decimals)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}

// shown formats the metrics of a response.
func shown(m interface {
	GetClicks() int64
	GetUniqueClicks() int64
	GetSignups() int64
	GetConversions() int64
	GetNewCustomers() int64
	GetRevenueCents() int64
	GetRefundedCents() int64
	GetCommissionCents() int64
	ProtoMessage()
}, net *int64, rate, events *float64, epc, aov *int64, roc *float64,
) string {
	return fmt.Sprintln(m.GetClicks(), m.GetUniqueClicks(), m.GetSignups(), m.GetConversions(), m.GetNewCustomers(),
		m.GetRevenueCents(), m.GetRefundedCents(), m.GetCommissionCents(), optional(net), optional(rate), optional(events), optional(epc), optional(aov), optional(roc))
}

func optional[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

// query is a request with what the plain computation needs of it.
type query struct {
	name     string
	ctx      context.Context
	surface  string // workspace, programme or partner
	program  string
	partner  bool
	currency string
	bots     bool
	filter   func(record) bool
	req      *request

	from, to time.Time
	zone     *time.Location
}

// matching returns the records of the selection, in a period.
func (q query) matching(all []record, from, to time.Time) []record {
	var found []record
	for _, r := range all {
		if q.filter(r) && !r.At.Before(from) && r.At.Before(to) {
			found = append(found, r)
		}
	}
	return found
}

// queries returns random queries on all surfaces.
func (f *fixture) queries() []query {
	var all []query
	zones := []string{"UTC", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "America/New_York", "Europe/Berlin", "Pacific/Apia"}
	of := func(ids ...string) func(record) bool {
		return func(r record) bool { return slices.Contains(ids, r.Participant) }
	}
	pat, quinn, patUSD := f.pat.ID.String(), f.quinn.ID.String(), f.patUSD.ID.String()
	programme, dollars := f.Program.String(), f.dollars.Program.String()
	for _, selected := range []query{
		{name: "workspace", surface: "workspace", currency: "EUR", filter: func(r record) bool { return r.Program != "" }, req: &request{}},
		{name: "all conversions", surface: "workspace", currency: "EUR", filter: func(record) bool { return true }, req: &request{IncludeUnattributed: new(true)}},
		{name: "one programme", surface: "workspace", currency: "USD", filter: func(r record) bool { return r.Program == dollars }, req: &request{ProgramId: &dollars}},
		{name: "one participant", surface: "workspace", currency: "EUR", filter: of(quinn), req: &request{ParticipantId: &quinn}},
		{
			name: "one link", surface: "workspace", currency: "EUR", filter: func(r record) bool { return r.Link == f.pat.Link.String() },
			req: &request{LinkId: new(f.pat.Link.String())},
		},
		{name: "programme", surface: "programme", program: programme, currency: "EUR", filter: func(r record) bool { return r.Program == programme }, req: &request{}},
		{name: "participant of a programme", surface: "programme", program: programme, currency: "EUR", filter: of(pat), req: &request{ParticipantId: &pat}},
		{name: "partner", surface: "partner", currency: "EUR", filter: of(pat, patUSD), req: &request{}},
		{name: "partner in a programme", surface: "partner", currency: "USD", filter: of(patUSD), req: &request{ProgramId: &dollars}},
	} {
		for range 2 {
			q := selected
			q.req = proto.Clone(q.req).(*request)
			q.bots = f.chance(3)
			if q.bots {
				q.req.IncludeBots = &q.bots
			}
			zone := oneOf(f, zones...)
			q.zone, _ = time.LoadLocation(zone)
			q.req.Timezone = &zone
			today := f.clock.Now().In(q.zone)
			first := today.AddDate(0, 0, -f.random.IntN(60))
			last := first.AddDate(0, 0, f.random.IntN(60))
			q.req.DateFrom, q.req.DateTo = new(first.Format(time.DateOnly)), new(last.Format(time.DateOnly))
			q.from = time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, q.zone)
			q.to = time.Date(last.Year(), last.Month(), last.Day()+1, 0, 0, 0, 0, q.zone)
			q.partner = q.surface == "partner"
			q.ctx = f.asOwner()
			if q.partner {
				q.ctx = f.asPat()
			}
			q.name += fmt.Sprintf(" from %s to %s in %s, bots %t", *q.req.DateFrom, *q.req.DateTo, zone, q.bots)
			all = append(all, q)
		}
	}
	return all
}

// call sends a request to the route of its surface.
func call[R any](q query, workspace, partner func(context.Context, *request) (R, error), program func(context.Context, *programRequest) (R, error)) (R, error) {
	switch q.surface {
	case "partner":
		return partner(q.ctx, q.req)
	case "programme":
		text, err := protojson.Marshal(q.req)
		if err != nil {
			panic(err)
		}
		var req programRequest
		if err := protojson.Unmarshal(text, &req); err != nil {
			panic(err)
		}
		req.ProgramId = q.program
		return program(q.ctx, &req)
	default:
		return workspace(q.ctx, q.req)
	}
}

// TestReports_EqualRawRows compares all reports with a plain computation, after random
// histories around the nights in which the zones change their clocks.
func TestReports_EqualRawRows(t *testing.T) {
	t.Parallel()
	for _, now := range []string{"2026-04-20T11:07:00Z", "2026-11-20T23:50:00Z"} {
		t.Run(now, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, now)
			if err != nil {
				t.Fatal(err)
			}
			f := newFixture(t, at)
			f.addHistory()
			f.wantTrueReports()
			f.wantNoViolations("before the erasure")
			f.addHistory()
			f.eraseQuinn()
			f.wantTrueReports()
			f.wantNoViolations("after the erasure")
		})
	}
}

// addHistory changes the shop at random.
func (f *fixture) addHistory() {
	f.Helper()
	for _, p := range []*affiliate.ParticipantID{&f.pat.ID, &f.quinn.ID, &f.patUSD.ID} {
		switch p {
		case &f.pat.ID:
			f.addClicks(f.pat, 60)
		case &f.quinn.ID:
			f.addClicks(f.quinn, 30)
		default:
			f.addClicks(f.patUSD, 30)
		}
	}
	for range 60 {
		switch f.random.IntN(10) {
		case 0, 1, 2, 3, 4:
			f.report()
		case 5:
			if len(f.sales) > 0 {
				f.refund()
			}
		case 6, 7:
			f.review()
		case 8:
			if len(f.sales) > 0 {
				f.reattribute()
			}
		case 9:
			f.addWaiting()
		}
	}
	// A collector delivers clicks a second time, together with new ones.
	repeated := f.clicks[:10]
	if err := clicks.Store(f.Context(), f.DB, append([]click.Click{f.UnstoredClick(f.pat)}, repeated...)); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) wantTrueReports() {
	f.Helper()
	all := f.records()
	for _, q := range f.queries() {
		f.wantSummary(q, all)
		f.wantFunnel(q, all)
		for _, interval := range []string{"hour", "day", "week", "month"} {
			f.wantTimeseries(q, all, interval)
		}
		for _, dimension := range append([]string{"program", "participant", "link"}, dimensions...) {
			if f.chance(2) { // each dimension is compared in several queries
				f.wantBreakdown(q, all, dimension)
			}
		}
		f.wantCohorts(q, all)
	}
}

func (f *fixture) wantSummary(q query, all []record) {
	f.Helper()
	q.req.Compare = affiliatev1.AnalyticsComparison_ANALYTICS_COMPARISON_PREVIOUS
	got, err := call(q, f.service.GetAnalyticsSummary, f.service.GetPartnerAnalyticsSummary, f.service.GetProgramAnalyticsSummary)
	if err != nil {
		f.Fatalf("summary of %s: %v", q.name, err)
	}
	m := got.GetMetrics()
	if text, want := shown(m, m.NetRevenueCents, m.ConversionRate, m.EventsPerClick, m.EpcCents, m.AovCents, m.ReturnOnCommission), metrics(q.matching(all, q.from, q.to), q); text != want {
		f.Errorf("summary of %s:\n got  %s want %s", q.name, text, want)
	}
	days := int(dateIn(q.to, q.zone).Sub(dateIn(q.from, q.zone)) / (24 * time.Hour))
	date := dateIn(q.from, q.zone).AddDate(0, 0, -days)
	before := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, q.zone)
	m = got.GetPrevious()
	if text, want := shown(m, m.NetRevenueCents, m.ConversionRate, m.EventsPerClick, m.EpcCents, m.AovCents, m.ReturnOnCommission), metrics(q.matching(all, before, q.from), q); text != want {
		f.Errorf("previous period of %s:\n got  %s want %s", q.name, text, want)
	}
	n := numbersOf(q.matching(all, q.from, q.to), q.bots)
	for _, amounts := range got.GetByCurrency() {
		c := amounts.GetCurrency()
		if amounts.GetRevenueCents() != n.revenue[c] || amounts.GetRefundedCents() != n.refunded[c] || amounts.GetCommissionCents() != n.commission[c] {
			f.Errorf("summary of %s: amounts in %s are %v, want %d, %d, %d", q.name, c, amounts, n.revenue[c], n.refunded[c], n.commission[c])
		}
		delete(n.revenue, c)
		delete(n.commission, c)
	}
	for c, cents := range n.revenue {
		if cents != 0 {
			f.Errorf("summary of %s: the revenue of %d in %s is missing", q.name, cents, c)
		}
	}
	for c, cents := range n.commission {
		if cents != 0 {
			f.Errorf("summary of %s: the commission of %d in %s is missing", q.name, cents, c)
		}
	}
}

func dateIn(t time.Time, zone *time.Location) time.Time {
	year, month, day := t.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func (f *fixture) wantFunnel(q query, all []record) {
	f.Helper()
	got, err := call(q, f.service.GetAnalyticsFunnel, f.service.GetPartnerAnalyticsFunnel, f.service.GetProgramAnalyticsFunnel)
	if err != nil {
		f.Fatalf("funnel of %s: %v", q.name, err)
	}
	n := numbersOf(q.matching(all, q.from, q.to), q.bots)
	beforeConversions := n.signups
	if beforeConversions == 0 {
		beforeConversions = n.clicks
	}
	want := fmt.Sprintln("clicks", n.clicks, "-", "signups", n.signups, quotient(n.signups, n.clicks, 4), "conversions", n.conversions, quotient(n.conversions, beforeConversions, 4),
		"approved", n.approved, quotient(n.approved, n.conversions, 4), "paid", n.paid, quotient(n.paid, n.approved, 4))
	var steps []any
	for _, step := range got.GetSteps() {
		steps = append(steps, step.GetName(), step.GetCount(), optional(step.Rate))
	}
	if text := fmt.Sprintln(steps...); text != want {
		f.Errorf("funnel of %s:\n got  %s want %s", q.name, text, want)
	}
}

func (f *fixture) wantTimeseries(q query, all []record, interval string) {
	f.Helper()
	if interval == "hour" {
		last := dateIn(q.from, q.zone).AddDate(0, 0, f.random.IntN(7))
		q.req = proto.Clone(q.req).(*request)
		q.req.DateTo = new(last.Format(time.DateOnly))
		q.to = time.Date(last.Year(), last.Month(), last.Day()+1, 0, 0, 0, 0, q.zone)
	}
	q.req.Interval = server.EnumValue[affiliatev1.AnalyticsInterval](interval)
	got, err := call(q, f.service.GetAnalyticsTimeseries, f.service.GetPartnerAnalyticsTimeseries, f.service.GetProgramAnalyticsTimeseries)
	if err != nil {
		f.Fatalf("time series of %s: %v", q.name, err)
	}
	byStart := map[string][]record{}
	var starts []string
	// Every minute of the period belongs to an interval. The first minute of an interval is
	// its start.
	keyOf := func(t time.Time) string {
		local := t.In(q.zone)
		switch interval {
		case "hour":
			return local.Format("2006-01-02 15 -0700")
		case "week":
			year, week := local.ISOWeek()
			return fmt.Sprint(year, week)
		case "month":
			return local.Format("2006-01")
		}
		return local.Format(time.DateOnly)
	}
	for at := q.from; at.Before(q.to); at = at.Add(15 * time.Minute) {
		if key := keyOf(at); len(starts) == 0 || starts[len(starts)-1] != key {
			starts = append(starts, key)
		}
	}
	for _, r := range q.matching(all, q.from, q.to) {
		byStart[keyOf(r.At)] = append(byStart[keyOf(r.At)], r)
	}
	if len(got.GetPoints()) != len(starts) {
		f.Errorf("time series of %s by %s has %d points, want %d", q.name, interval, len(got.GetPoints()), len(starts))
		return
	}
	for i, p := range got.GetPoints() {
		start := p.GetStart().AsTime()
		if key := keyOf(start); key != starts[i] || keyOf(start.Add(-time.Minute)) == key {
			f.Errorf("time series of %s by %s: point %d starts at %s, want the start of %s", q.name, interval, i, start, starts[i])
		}
		text := shown(p, p.NetRevenueCents, p.ConversionRate, p.EventsPerClick, p.EpcCents, p.AovCents, p.ReturnOnCommission)
		if want := metrics(byStart[starts[i]], q); text != want {
			f.Errorf("time series of %s by %s at %s:\n got  %s want %s", q.name, interval, starts[i], text, want)
		}
	}
}

func (f *fixture) wantBreakdown(q query, all []record, dimension string) {
	f.Helper()
	q.req.GroupBy, q.req.PageSize = server.EnumValue[affiliatev1.AnalyticsDimension](dimension), new(int32(100))
	got, err := call(q, f.service.GetAnalyticsBreakdown, f.service.GetPartnerAnalyticsBreakdown, f.service.GetProgramAnalyticsBreakdown)
	if err != nil {
		f.Fatalf("breakdown of %s by %s: %v", q.name, dimension, err)
	}
	byValue := map[string][]record{}
	for _, r := range q.matching(all, q.from, q.to) {
		// Breakdowns by promo codes and event types leave out clicks. Bots alone make no row
		// visible, but they are part of the sums.
		if r.Click && (dimension == "promo_code" || dimension == "event_type") {
			continue
		}
		byValue[r.value(dimension)] = append(byValue[r.value(dimension)], r)
	}
	if int64(len(byValue)) != got.GetTotal() || len(got.GetRows()) != len(byValue) {
		f.Errorf("breakdown of %s by %s has %d rows and the total %d, want %d", q.name, dimension, len(got.GetRows()), got.GetTotal(), len(byValue))
	}
	for _, row := range got.GetRows() {
		text := shown(row, row.NetRevenueCents, row.ConversionRate, row.EventsPerClick, row.EpcCents, row.AovCents, row.ReturnOnCommission)
		if want := metrics(byValue[row.GetValue()], q); text != want {
			f.Errorf("breakdown of %s by %s, value %q:\n got  %s want %s", q.name, dimension, row.GetValue(), text, want)
		}
	}
	if !slices.IsSortedFunc(got.GetRows(), func(a, b *affiliatev1.AnalyticsRow) int {
		return cmp.Or(cmp.Compare(b.GetClicks(), a.GetClicks()), cmp.Compare(a.GetValue(), b.GetValue()))
	}) {
		f.Errorf("breakdown of %s by %s is not sorted by clicks and value: %v", q.name, dimension, got.GetRows())
	}
	if other := got.GetOther(); other.GetClicks() != 0 || other.GetConversions() != 0 {
		f.Errorf("breakdown of %s by %s: other is %v, want zeros", q.name, dimension, other)
	}
}

func (f *fixture) wantCohorts(q query, all []record) {
	f.Helper()
	got, err := call(q, f.service.GetAnalyticsCohorts, f.service.GetPartnerAnalyticsCohorts, f.service.GetProgramAnalyticsCohorts)
	if err != nil {
		f.Fatalf("cohorts of %s: %v", q.name, err)
	}
	monthOf := func(t time.Time) string { return t.In(q.zone).Format("2006-01") }
	// The period of cohorts is extended to whole months.
	last := q.to.Add(-time.Minute)
	from := time.Date(q.from.Year(), q.from.Month(), 1, 0, 0, 0, 0, q.zone)
	to := time.Date(last.Year(), last.Month()+1, 1, 0, 0, 0, 0, q.zone)
	sizes, cells, active := map[string]int64{}, map[string][]record{}, map[string]map[string]bool{}
	for _, r := range all {
		// The customer belongs to the selection if its first conversion does. A partner with
		// two participations has the cohorts of both.
		if r.Customer == "" || !q.filter(r) || !q.filter(*r.first) || q.partner && r.first.Participant != r.Participant ||
			r.first.At.Before(from) || !r.first.At.Before(to) || !r.At.Before(to) {
			continue
		}
		if r.firstOfBuyer {
			sizes[monthOf(r.At)]++
		}
		cell := monthOf(r.first.At) + " " + monthOf(r.At)
		cells[cell] = append(cells[cell], r)
		if active[cell] == nil {
			active[cell] = map[string]bool{}
		}
		active[cell][r.Customer] = true
	}
	var text, want []string
	for _, c := range got.GetCohorts() {
		start := c.GetStart().AsTime()
		text = append(text, fmt.Sprint(monthOf(start), " ", c.GetSize()))
		want = append(want, fmt.Sprint(monthOf(start), " ", sizes[monthOf(start)]))
		for i, p := range c.GetPeriods() {
			local := start.In(q.zone)
			cell := monthOf(start) + " " + time.Date(local.Year(), local.Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
			n := numbersOf(cells[cell], false)
			text = append(text, fmt.Sprint(p.GetIndex(), p.GetRevenueCents(), p.GetConversions(), p.GetCommissionCents(), p.GetActive()))
			want = append(want, fmt.Sprint(int32(i), n.revenue[q.currency], n.conversions, n.commission[q.currency], len(active[cell])))
		}
	}
	if !slices.Equal(text, want) {
		f.Errorf("cohorts of %s:\n got  %q\n want %q", q.name, text, want)
	}
}
