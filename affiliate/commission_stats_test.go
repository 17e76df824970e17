package affiliate

import (
	"reflect"
	"testing"
)

func TestNewCommissionStats_AddsAmountsOfOneCurrency(t *testing.T) {
	group := func(status CommissionStatus, flagged bool, currency string, n, cents int64) CommissionGroup {
		return CommissionGroup{status, flagged, currency, CommissionSum{n, cents}}
	}
	got := NewCommissionStats("EUR", []CommissionGroup{
		group(CommissionPending, false, "EUR", 2, 100),
		group(CommissionPending, true, "EUR", 1, 51),
		group(CommissionPending, false, "EUR", 1, 0), // a second group with the same status, flag and currency
		group(CommissionPaid, true, "JPY", 3, 7000),
		group(CommissionRejected, false, "USD", 0, 0), // an empty group
	})
	want := CommissionStats{
		Count: 7, NeedsReview: 4, Currency: "EUR", InCurrency: CommissionSum{4, 151},
		ByStatus:   map[CommissionStatus]CommissionSum{CommissionPending: {4, 151}, CommissionPaid: {3, 0}},
		ByCurrency: map[string]CommissionSum{"EUR": {4, 151}, "JPY": {3, 7000}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for sum, average := range map[CommissionSum]int64{
		{}: 0, {4, 151}: 38, {4, 150}: 38, {4, 149}: 37, {3, 1}: 0, {1, 7}: 7, {2, 1}: 1,
	} {
		if got := (CommissionStats{InCurrency: sum}).AverageCents(); got != average {
			t.Errorf("the average of %+v is %d, want %d", sum, got, average)
		}
	}
}
