package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

func TestWorkspace_CloseBooks(t *testing.T) {
	now := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	october := "2026-10-31T23:00:00.000Z" // midnight in Berlin, after the end of daylight saving time
	for name, tc := range map[string]struct {
		zone, before, text string
		want               string // the new end of the closed periods
		refused            affiliate.Reason
	}{
		"a date closes the day in the time zone":   {"Europe/Berlin", "", "2026-10-31", october, ""},
		"a date in UTC":                            {"UTC", "", "2026-10-31", "2026-11-01T00:00:00.000Z", ""},
		"a time is the end itself":                 {"Europe/Berlin", "", "2026-11-01T00:00:00+01:00", october, ""},
		"a part of a millisecond is closed too":    {"UTC", "", "2026-11-01T00:00:00.0001Z", "2026-11-01T00:00:00.001Z", ""},
		"the same time again":                      {"Europe/Berlin", october, "2026-10-31", october, ""},
		"a later day":                              {"Europe/Berlin", october, "2026-11-02", "2026-11-02T23:00:00.000Z", ""},
		"now":                                      {"UTC", "", "2026-11-03T12:00:00Z", "2026-11-03T12:00:00.000Z", ""},
		"the future":                               {"UTC", "", "2026-11-03T12:00:00.001Z", "", affiliate.ReasonValidation},
		"a day that has not ended":                 {"UTC", "", "2026-11-03", "", affiliate.ReasonValidation},
		"a day that has ended only in other zones": {"America/Los_Angeles", "", "2026-11-03", "", affiliate.ReasonValidation},
		"a day before":                             {"Europe/Berlin", october, "2026-10-30", "", affiliate.ReasonPeriodClosed},
		"a millisecond before":                     {"Europe/Berlin", october, "2026-10-31T22:59:59.999Z", "", affiliate.ReasonPeriodClosed},
		"no date":                                  {"UTC", "", "October", "", affiliate.ReasonValidation},
		"nothing":                                  {"UTC", "", "", "", affiliate.ReasonValidation},
	} {
		w := account.Workspace{Timezone: tc.zone}
		if tc.before != "" {
			closed, err := time.Parse(time.RFC3339, tc.before)
			if err != nil {
				t.Fatal(err)
			}
			w.BooksClosedUntil = &closed
		}
		after, err := w.CloseBooks(tc.text, now)
		var refusal *affiliate.Error
		errors.As(err, &refusal)
		switch {
		case tc.refused == "" && (err != nil || affiliate.FormatTime(*after.BooksClosedUntil) != tc.want):
			t.Errorf("%s: CloseBooks(%q) returned %v, %v, want %s", name, tc.text, after.BooksClosedUntil, err, tc.want)
		case tc.refused != "" && (refusal == nil || refusal.Reason != tc.refused):
			t.Errorf("%s: CloseBooks(%q) returned %v, want %s", name, tc.text, err, tc.refused)
		case tc.refused == affiliate.ReasonPeriodClosed && refusal.Metadata["books_closed_until"] != tc.before:
			t.Errorf("%s: the error has the metadata %v, want the end of the closed periods", name, refusal.Metadata)
		}
	}
}

// The end of the closed periods never moves back and is never in the future, for any
// sequence of requests.
func TestWorkspace_CloseBooks_OnlyMovesForward(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		w := account.Workspace{Timezone: rapid.SampledFrom([]string{"UTC", "Asia/Kathmandu", "America/New_York"}).Draw(t, "zone")}
		now := start
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 72*3600).Draw(t, "seconds")) * time.Second)
			layout := rapid.SampledFrom([]string{time.DateOnly, time.RFC3339}).Draw(t, "layout")
			text := now.Add(time.Duration(rapid.Int64Range(-100*3600, 30*3600).Draw(t, "ago")) * time.Second).Format(layout)
			before := w.BooksClosedUntil
			after, err := w.CloseBooks(text, now)
			switch {
			case err != nil && after.BooksClosedUntil != before:
				t.Fatalf("the refused %s has changed the end to %v", text, after.BooksClosedUntil)
			case err == nil && (after.BooksClosedUntil.After(now) || before != nil && after.BooksClosedUntil.Before(*before)):
				t.Fatalf("at %v, %s has moved the end from %v to %v", now, text, before, after.BooksClosedUntil)
			}
			w = after
		}
	})
}

func TestPayoutTransition_PaidAt(t *testing.T) {
	confirmed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := confirmed.AddDate(0, 0, 120)
	closed := now.AddDate(0, 0, -10)
	for name, tc := range map[string]struct {
		at, paidAt, confirmed time.Time
		refused               affiliate.Reason
	}{
		"now":                                 {now, now, confirmed, ""},
		"in the future":                       {now, now.Add(time.Millisecond), confirmed, affiliate.ReasonValidation},
		"90 days ago":                         {now, now.Add(-payout.MaxPaidAge), confirmed, affiliate.ReasonPeriodClosed},
		"more than 90 days ago":               {now, now.Add(-payout.MaxPaidAge - time.Millisecond), confirmed, affiliate.ReasonValidation},
		"at the confirmation":                 {now, closed, closed, ""},
		"before the confirmation":             {now, closed.Add(-time.Millisecond), closed, affiliate.ReasonValidation},
		"the begin of the open period":        {now, closed, confirmed, ""},
		"the end of the closed period":        {now, closed.Add(-time.Millisecond), confirmed, affiliate.ReasonPeriodClosed},
		"the time of a slow clock, by itself": {closed.Add(-time.Second), closed.Add(-time.Second), confirmed, ""},
	} {
		p := payout.Payout{Status: payout.Processing, AmountCents: 1, InitiatedAt: &tc.confirmed}
		request := payout.Transition{Move: payout.MoveMarkPaid, At: tc.at, PaidAt: tc.paidAt}
		_, refusal := request.Apply(p)
		dated := request
		if refusal == nil {
			dated, refusal = request.InOpenPeriod(&closed)
		}
		switch {
		case tc.refused == "" && (refusal != nil || dated.PaidAt.Before(closed) || dated.At.Before(closed)):
			t.Errorf("%s: the payment is dated %v, %v, want a date in the open period", name, dated.PaidAt, refusal)
		case tc.refused != "" && (refusal == nil || refusal.Reason != tc.refused):
			t.Errorf("%s: the refusal is %v, want %s", name, refusal, tc.refused)
		case tc.refused == affiliate.ReasonValidation && refusal.Violations[0].Field != "paid_at":
			t.Errorf("%s: the violations are %v, want paid_at", name, refusal.Violations)
		}
		if dated, refusal := request.InOpenPeriod(nil); refusal != nil || !dated.PaidAt.Equal(tc.paidAt) {
			t.Errorf("%s: with open books the payment is dated %v, %v", name, dated.PaidAt, refusal)
		}
	}
}

// An entry keeps the time of its cause if the cause is reported later.
func TestLedgerEntry_OccurredAt(t *testing.T) {
	at := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	earlier := at.AddDate(0, 0, -3)
	commission := commission.Commission{Status: commission.Approved, AmountCents: 10, CreatedAt: at}
	created := func(occurredAt time.Time) *ledger.Entry {
		changes, err := conversion.BeginCommission(&commission, conversion.Conversion{OccurredAt: occurredAt}, affiliate.System, nil, at)
		if err != nil || len(changes) != 1 {
			t.Fatalf("BeginCommission returned %v, %v", changes, err)
		}
		return changes[0].LedgerEntry()
	}
	paid := func(status payout.Status, move payout.Move, paidAt time.Time) *ledger.Entry {
		change, refusal := payout.Transition{Move: move, At: at, PaidAt: paidAt}.Apply(payout.Payout{Status: status, AmountCents: 10})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return change.LedgerEntry()
	}
	for name, tc := range map[string]struct {
		entry *ledger.Entry
		want  *time.Time
	}{
		"a sale that is reported later": {created(earlier), &earlier},
		"a sale of now":                 {created(at), nil},
		"a payment of an earlier day":   {paid(payout.Pending, payout.MoveMarkPaid, earlier), &earlier},
		"a payment of now":              {paid(payout.Pending, payout.MoveMarkPaid, at), nil},
		"a payout that is sent":         {paid(payout.Pending, payout.MoveProcess, time.Time{}), nil},
	} {
		if got := tc.entry.OccurredAt; !tc.entry.CreatedAt.Equal(at) || (got == nil) != (tc.want == nil) || got != nil && !got.Equal(*tc.want) {
			t.Errorf("%s: the entry is dated %v and occurred at %v, want %v and %v", name, tc.entry.CreatedAt, got, at, tc.want)
		}
	}
}

func TestRunningTotals(t *testing.T) {
	totals := ledger.RunningTotals{}
	for _, tc := range []struct {
		currency    string
		cents, want int64
	}{{"USD", -5, -5}, {"EUR", 10, 10}, {"USD", 7, 2}, {"EUR", -10, 0}} {
		if got := totals.Add(ledger.Entry{Currency: tc.currency, AmountCents: tc.cents}); got != tc.want {
			t.Errorf("after %d %s the total is %d, want %d", tc.cents, tc.currency, got, tc.want)
		}
	}
	want := []ledger.Balance{{Currency: "EUR"}, {Currency: "USD", BalanceCents: 2}}
	if got := totals.Balances(); !slices.Equal(got, want) {
		t.Errorf("the totals are %v, want %v", got, want)
	}
}
