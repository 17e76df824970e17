package analytics_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	rules "github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/conversion"
	privacyservice "github.com/tributary-hq/tributary/server/privacy"
	"github.com/tributary-hq/tributary/server/servertest"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

type (
	request        = affiliatev1.AnalyticsRequest
	programRequest = affiliatev1.ProgramAnalyticsRequest
)

// fixture is a shop in live mode with two programmes, in EUR and in USD. Pat takes part in
// both programmes, Quinn only in the first.
type fixture struct {
	*pgtest.Shop
	dollars            *pgtest.Shop // the second programme
	pat, quinn, patUSD pgtest.Participant
	service            *analytics.Service
	worker             *server.Worker[rules.AddAnalytics]
	conversions        *conversion.Service
	clock              *pgtest.Clock
	random             *rand.Rand

	clicks []click.Click
	sales  []string // external ids
}

func newFixture(t *testing.T, now time.Time) *fixture {
	t.Helper()
	clock := pgtest.NewClock(now)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rules := pgtest.Rules(func(r *program.Rules) { r.HoldDays, r.AutoApproval = 0, false })
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, rules), clock: clock, random: rand.New(rand.NewPCG(seed, 0))}
	f.dollars = &pgtest.Shop{Fixture: f.Fixture, Scope: f.Scope, Owner: f.Owner}
	f.dollars.Program = f.NewProgram(f.Scope, rules, pgtest.Row{"currency": "USD"})
	f.pat, f.quinn = f.Join("Pat"), f.Join("Quinn")
	f.NewPromoCode(f.pat, "pat10")
	f.patUSD = f.NewParticipant(f.Scope, f.dollars.Program, f.pat.Partner)
	quiet := slog.New(slog.DiscardHandler)
	f.service = analytics.New(f.DB, quiet, clock.Now)
	f.worker = analytics.NewWorker(f.DB, quiet, clock.Now)
	f.conversions = conversion.New(conversion.Config{
		DB: f.DB, Tail: emptyTail{}, HashKeys: affiliate.HashKeys{[]byte("key of the tests")}, Now: clock.Now, Log: quiet,
	})
	return f
}

// emptyTail is a click stream without entries.
type emptyTail struct{}

func (emptyTail) Find(context.Context, affiliate.ClickID) (click click.Click, ok bool, err error) {
	return click, false, nil
}

func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

func (f *fixture) asPat() context.Context {
	return servertest.AsPartner(f, f.pat.Partner, f.Scope.Mode)
}

func (f *fixture) asKey() context.Context { return servertest.AsSecretKey(f, f.Scope) }

// addWaiting runs the job.
func (f *fixture) addWaiting() {
	f.Helper()
	if err := f.worker.Work(f.Context(), nil); err != nil {
		f.Fatal(err)
	}
}

// oneOf returns one of the values at random.
func oneOf[T any](f *fixture, values ...T) T { return values[f.random.IntN(len(values))] }

// chance returns true in one of n calls.
func (f *fixture) chance(n int) bool { return f.random.IntN(n) == 0 }

// someTime returns a time in the given period.
func (f *fixture) someTime(from, to time.Time) time.Time {
	return from.Add(time.Duration(f.random.Int64N(int64(to.Sub(from))))).UTC().Truncate(time.Millisecond)
}

// addClicks stores random clicks of a participant.
func (f *fixture) addClicks(p pgtest.Participant, n int) {
	f.Helper()
	stored := make([]click.Click, n)
	for i := range stored {
		at := f.someTime(f.clock.Now().Add(-60*24*time.Hour), f.clock.Now())
		stored[i] = f.UnstoredClick(p, func(c *click.Click) {
			c.ID = affiliate.NewID[affiliate.ClickID](at)
			c.ClickedAt, c.ReceivedAt, c.ExpiresAt = at, at, click.WindowEnd(at, 30)
			c.IsBot, c.Unique = f.chance(8), false
			c.Unique = !c.IsBot && f.chance(2)
			c.Country, c.Device = oneOf(f, "", "DE", "FR", "NP"), oneOf(f, "desktop", "mobile")
			c.Browser, c.OS = oneOf(f, "Firefox", "Chrome", ""), oneOf(f, "Linux", "macOS")
			c.ReferrerDomain, c.LandingURL = oneOf(f, "", "blog.example", "news.example"), oneOf(f, "https://shop.example/", "https://shop.example/sale")
			c.UTM = click.UTM{Source: oneOf(f, "", "mail"), Medium: oneOf(f, "", "post"), Campaign: oneOf(f, "", "spring", "summer")}
			c.SubID = oneOf(f, "", "a", "b", "c")
		})
	}
	if err := clicks.Store(f.Context(), f.DB, stored); err != nil {
		f.Fatal(err)
	}
	f.clicks = append(f.clicks, stored...)
}

// report reports a random conversion.
func (f *fixture) report() {
	f.Helper()
	external := "sale-" + strconv.Itoa(len(f.sales))
	occurred := f.someTime(f.clock.Now().Add(-60*24*time.Hour), f.clock.Now())
	req := &affiliatev1.ReportConversionRequest{
		ExternalTransactionId: external, AmountCents: new(f.random.Int64N(20_000)), Currency: new(oneOf(f, "EUR", "EUR", "USD", "JPY")),
		EventType: oneOf(f, affiliatev1.EventType_EVENT_TYPE_PURCHASE, affiliatev1.EventType_EVENT_TYPE_PURCHASE,
			affiliatev1.EventType_EVENT_TYPE_RENEWAL, affiliatev1.EventType_EVENT_TYPE_SIGNUP, affiliatev1.EventType_EVENT_TYPE_LEAD),
	}
	switch click := oneOf(f, f.clicks...); f.random.IntN(5) {
	case 0: // not attributed
		req.ClickId = new(affiliate.NewID[affiliate.ClickID](occurred.Add(-time.Hour)).String())
	case 1:
		req.PromoCode = new("pat10")
	default:
		req.ClickId = new(click.ID.String())
		occurred = f.someTime(click.ReceivedAt, f.clock.Now().Add(time.Millisecond))
	}
	req.OccurredAt = timestamppb.New(occurred)
	if f.chance(2) {
		req.CustomerId = new("customer-" + strconv.Itoa(f.random.IntN(12)))
	}
	if f.chance(4) {
		req.SubId = new(oneOf(f, "c", "d"))
	}
	if _, err := f.conversions.ReportConversion(f.asKey(), req); err != nil {
		f.Fatalf("ReportConversion: %v", err)
	}
	f.sales = append(f.sales, external)
}

// refund refunds a part of a random sale, or what is left of it.
func (f *fixture) refund() {
	f.Helper()
	req := &affiliatev1.RefundConversionRequest{ExternalTransactionId: oneOf(f, f.sales...), ExternalRefundId: "refund-" + strconv.Itoa(f.random.Int())}
	if f.chance(2) {
		req.AmountCents = new(1 + f.random.Int64N(500))
	}
	_, err := f.conversions.RefundConversion(f.asKey(), req)
	if err != nil && pgtest.ReasonOf(f, err) != affiliate.ReasonRefundExceedsAmount {
		f.Fatalf("RefundConversion: %v", err)
	}
}

// review approves, rejects or pays a random commission, if there is one.
func (f *fixture) review() {
	f.Helper()
	move := oneOf(f, commission.MoveApprove, commission.MoveReject, commission.MovePay)
	from := map[commission.Move]string{commission.MoveApprove: "pending", commission.MoveReject: "pending", commission.MovePay: "approved"}[move]
	var c commission.Commission
	err := f.SQL.QueryRow(f.Context(), `
		select id, program_id from commissions where status = $1 order by md5(id::text || $2) limit 1`, from, strconv.Itoa(f.random.Int())).Scan(&c.ID, &c.Program)
	if err != nil {
		return
	}
	c.Scope = f.Scope
	f.MoveCommission(c, commission.Transition{Move: move})
}

// reattribute assigns a random sale to a random participant, if this is possible.
func (f *fixture) reattribute() {
	f.Helper()
	var id string
	if err := f.SQL.QueryRow(f.Context(), `select id from conversions where external_transaction_id = $1`, oneOf(f, f.sales...)).Scan(&id); err != nil {
		f.Fatal(err)
	}
	_, err := f.conversions.ReattributeConversion(f.asOwner(), &affiliatev1.ReattributeConversionRequest{
		ConversionId: id, ParticipantId: oneOf(f, f.pat, f.quinn, f.patUSD).ID.String(), Reason: "R",
	})
	if err != nil && pgtest.ReasonOf(f, err) != affiliate.ReasonValidation {
		f.Fatalf("ReattributeConversion: %v", err)
	}
}

// eraseQuinn erases the participant Quinn and what belongs to it.
func (f *fixture) eraseQuinn() {
	f.Helper()
	service := privacyservice.New(privacyservice.Config{
		DB: f.DB, Directory: noDirectory{}, DeadLetters: noLetters{}, Analytics: f.service,
		Log: privacyservice.NoLog{}, HashKeys: affiliate.HashKeys{[]byte("key of the tests")}, Now: f.clock.Now,
	})
	_, err := service.EraseParticipant(f.asOwner(), &affiliatev1.EraseParticipantRequest{
		ProgramId: f.Program.String(), ParticipantId: f.quinn.ID.String(), Confirmation: new("DELETE"),
	})
	if err != nil {
		f.Fatalf("EraseParticipant: %v", err)
	}
	f.clock.Advance(2 * time.Minute) // so that the second pass of the erasure can run
	var id privacy.ErasureID
	if err := f.SQL.QueryRow(f.Context(), `select id from erasures`).Scan(&id); err != nil {
		f.Fatal(err)
	}
	if wait, err := service.Erase(f.Context(), id); err != nil || wait > 0 {
		f.Fatalf("the erasure returned %v, %v", wait, err)
	}
	f.WantCount(0, "personal values of the erased participant", `
		select count(*) from analytics_days
		where participant_id = $1 and dimension in ('referrer', 'landing_page', 'utm_source', 'utm_medium', 'utm_campaign', 'sub_id')`, f.quinn.ID)
}

type noDirectory struct{}

func (noDirectory) DeleteCodes(context.Context, privacy.DirectoryCodes) error { return nil }

type noLetters struct{}

func (noLetters) Delete(context.Context, affiliate.DeadLetterSearch, affiliate.StreamPosition) (last affiliate.StreamPosition, more bool, err error) {
	return last, false, nil
}
