package analytics_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
)

func TestQuarters_EncodingKeepsSums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var quarters analytics.Quarters
		var total analytics.Counts
		for range rapid.IntRange(0, 200).Draw(t, "changes") {
			index := rapid.Uint8Range(0, 95).Draw(t, "index")
			var counts analytics.Counts
			counts[rapid.IntRange(0, len(counts)-1).Draw(t, "count")] = rapid.Int64Range(-1e12, 1e12).Draw(t, "change")
			quarters.Add(index, counts)
			total = total.Plus(counts)
		}
		encoded, _ := quarters.BytesValue()
		var decoded analytics.Quarters
		err := decoded.ScanBytes(encoded)
		if err != nil || len(decoded) != len(quarters) {
			t.Fatalf("%d of %d quarters were decoded: %v", len(decoded), len(quarters), err)
		}
		for i, quarter := range decoded {
			if quarter != quarters[i] {
				t.Fatalf("quarter %d is %v, want %v", i, quarter, quarters[i])
			}
			if i > 0 && quarter.Index <= decoded[i-1].Index || quarter.Counts == (analytics.Counts{}) {
				t.Fatalf("the quarters %v are not in order, or contain an empty quarter", decoded)
			}
		}
		if decoded.Total() != total {
			t.Fatalf("the total is %v, want %v", decoded.Total(), total)
		}
	})
}

// Bytes that are no encoding are an error, and never a panic.
func TestDecode_RejectsInvalidBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		_ = new(analytics.Quarters).ScanBytes(b)
		_ = analytics.Sums{}.AddClicks(b, analytics.Weights{})
	})
	for name, b := range map[string][]byte{
		"index of another day": {96, 1, 2}, "unknown count": {0, 0x80, 0x40, 2}, "without counts": {0}, "count that ends early": {0, 1, 0x80},
	} {
		if err := new(analytics.Quarters).ScanBytes(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A list of clicks adds what its clicks add one by one, whatever their order and values are.
func TestClickLog_KeepsClicks(t *testing.T) {
	t.Parallel()
	text := rapid.SampledFrom([]string{"", "", "a", "b", "ü", strings.Repeat("ü", 200)})
	now := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	links := []affiliate.LinkID{affiliate.NewID[affiliate.LinkID](now), affiliate.NewID[affiliate.LinkID](now), {}}
	participants := []affiliate.ParticipantID{affiliate.NewID[affiliate.ParticipantID](now), affiliate.NewID[affiliate.ParticipantID](now)}
	rapid.Check(t, func(t *rapid.T) {
		var all analytics.ClickLog
		var oldest time.Time
		want, wantWeights := analytics.Sums{}, analytics.Weights{}
		for n := range rapid.IntRange(1, 40).Draw(t, "clicks") {
			c := click.Click{
				Participant: rapid.SampledFrom(participants).Draw(t, "participant"), Link: rapid.SampledFrom(links).Draw(t, "link"),
				ReceivedAt: now.Add(time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "minutes")) * time.Minute),
				IsBot:      rapid.Bool().Draw(t, "bot"), Unique: rapid.Bool().Draw(t, "unique"),
				Country: text.Draw(t, "country"), SubID: text.Draw(t, "sub id"), LandingURL: text.Draw(t, "page"), UTM: click.UTM{Source: text.Draw(t, "source")},
			}
			var one analytics.ClickLog
			add := (*analytics.ClickLog).Add
			if rapid.Bool().Draw(t, "removed") {
				add = (*analytics.ClickLog).Remove
			}
			add(&all, &c)
			add(&one, &c)
			if err := want.AddClicks(one.Bytes(), wantWeights); err != nil {
				t.Fatal(err)
			}
			if at := analytics.QuarterOf(c.ReceivedAt).Time(); n == 0 || at.Before(oldest) {
				oldest = at
			}
		}
		got, weights := analytics.Sums{}, analytics.Weights{}
		if err := got.AddClicks(all.Bytes(), weights); err != nil {
			t.Fatal(err)
		}
		want.DropEmpty()
		got.DropEmpty()
		if len(got) != len(want) || !all.Oldest().Equal(oldest) {
			t.Fatalf("%d sums from %v, want %d from %v", len(got), all.Oldest(), len(want), oldest)
		}
		for key, quarters := range want {
			if got[key] == nil || got[key].Total() != quarters.Total() {
				t.Fatalf("the sum of %v is %v, want %v", key, got[key], quarters)
			}
		}
		for key, values := range wantWeights {
			for value, weight := range values {
				if weights[key][value] != weight {
					t.Fatalf("the weight of %v %q is %d, want %d", key, value, weights[key][value], weight)
				}
			}
		}
	})
}
