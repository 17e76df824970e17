package commission

import (
	"reflect"
	"testing"
)

func TestNewCommissionStats_AddsAmountsOfOneCurrency(t *testing.T) {
	group := func(status Status, flagged bool, currency string, n, cents int64) Group {
		return Group{status, flagged, currency, Sum{n, cents}}
	}
	got := NewStats("EUR", []Group{
		group(Pending, false, "EUR", 2, 100),
		group(Pending, true, "EUR", 1, 51),
		group(Pending, false, "EUR", 1, 0), // a second group with the same status, flag and currency
		group(Paid, true, "JPY", 3, 7000),
		group(Rejected, false, "USD", 0, 0), // an empty group
	})
	want := Stats{
		Count: 7, NeedsReview: 4, Currency: "EUR", InCurrency: Sum{4, 151},
		ByStatus:   map[Status]Sum{Pending: {4, 151}, Paid: {3, 0}},
		ByCurrency: map[string]Sum{"EUR": {4, 151}, "JPY": {3, 7000}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for sum, average := range map[Sum]int64{
		{}: 0, {4, 151}: 38, {4, 150}: 38, {4, 149}: 37, {3, 1}: 0, {1, 7}: 7, {2, 1}: 1,
	} {
		if got := (Stats{InCurrency: sum}).AverageCents(); got != average {
			t.Errorf("the average of %+v is %d, want %d", sum, got, average)
		}
	}
}
