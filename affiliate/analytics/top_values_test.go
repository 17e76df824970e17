package analytics_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/analytics"
)

var subIDs = analytics.DayValues{Dimension: analytics.SubID, Day: 20_000}

// A million values that occur once do not replace a value with more than a thousandth of the
// clicks, wherever its clicks are among the others, and never take more than the places.
func TestSelectValues_JunkDoesNotHideLargeValues(t *testing.T) {
	t.Parallel()
	kept := analytics.Weights{}
	const batches, junk = 200, 5_000
	for batch := range batches {
		added := map[string]int64{"steady": junk / 500}
		if batch == 0 {
			added["early"] = 3_000
		}
		if batch == batches-1 {
			added["late"] = 3_000
		}
		for n := range junk {
			added[fmt.Sprintf("junk-%d-%d", batch, n)] = 1
		}
		analytics.SelectValues(kept, analytics.Weights{subIDs: added})
		if n := len(kept[subIDs]); n > analytics.MaxValues {
			t.Fatalf("after batch %d, %d values are counted separately, want at most %d", batch, n, analytics.MaxValues)
		}
	}
	for _, value := range []string{"early", "steady", "late"} {
		if kept[subIDs][value] < 2_000 {
			t.Errorf("the value %s has the weight %d, want at least its clicks", value, kept[subIDs][value])
		}
	}
}

func TestSelectValues_SaysWhatHasChanged(t *testing.T) {
	t.Parallel()
	full := map[string]int64{}
	for n := range analytics.MaxValues {
		full[fmt.Sprintf("value-%04d", n)] = int64(n + 1)
	}
	other := analytics.DayValues{Dimension: analytics.Country, Day: 20_000}
	kept := analytics.Weights{subIDs: maps.Clone(full), other: {"DE": 5, "FR": 1}}
	s := analytics.SelectValues(kept, analytics.Weights{subIDs: {"new": 2, "value-0500": 1}, other: {"DE": 1}})
	if got := s.Replaced[subIDs]; !slices.Equal(got, []string{"value-0000"}) || len(s.Replaced[other]) > 0 {
		t.Errorf("the values %v and %v are replaced, want only the value with the lowest weight", got, s.Replaced[other])
	}
	want := analytics.Weights{subIDs: {"new": 3, "value-0500": 502}, other: {"DE": 6}}
	for key, values := range want {
		if !maps.Equal(s.Changed[key], values) {
			t.Errorf("the weights %v of %v have changed, want %v", s.Changed[key], key, values)
		}
	}
	if !s.Kept(analytics.SubID, 20_000, "new") || s.Kept(analytics.SubID, 20_000, "value-0000") || s.Kept(analytics.SubID, 20_001, "new") {
		t.Error("Kept does not follow the replacement")
	}
}
