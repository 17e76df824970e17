package webhook

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// TestNothingThatIsDueIsOverlooked works a lane off in random steps against a model
// of its queue: whatever is due and is not being attempted must be in what is ready,
// or in what the next reading would find.
func TestNothingThatIsDueIsOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		l := newLane(affiliate.EndpointKey{}, now)
		l.until = now.Add(24 * time.Hour)
		var queue, flying, storing []webhook.DueDelivery // queue: due, the longest first, those that are busy included
		readings := func(w webhook.Read) []webhook.DueDelivery {
			var due []webhook.DueDelivery
			for _, d := range queue {
				if !d.DueAt.Before(w.From) && !d.DueAt.After(now) && len(due) < w.Limit {
					due = append(due, d)
				}
			}
			return due
		}
		remove := func(from []webhook.DueDelivery, id affiliate.DeliveryID) []webhook.DueDelivery {
			var left []webhook.DueDelivery
			for _, d := range from {
				if d.ID != id {
					left = append(left, d)
				}
			}
			return left
		}
		var reading []webhook.DueDelivery // under way: what it has seen
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"deliveries come": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					// A transaction commits up to a second after what it writes is due.
					late := time.Duration(rapid.IntRange(0, 1000).Draw(t, "late")) * time.Millisecond
					d := webhook.DueDelivery{ID: affiliate.NewID[affiliate.Delivery](now), DueAt: now.Add(-late)}
					at := len(queue)
					for at > 0 && queue[at-1].DueAt.After(d.DueAt) {
						at--
					}
					queue = append(queue[:at], append([]webhook.DueDelivery{d}, queue[at:]...)...)
				}
				l.more = true
			},
			"a reading begins": func(t *rapid.T) {
				if l.reading || !l.wants(now) {
					return
				}
				reading = readings(l.want(now))
			},
			"a reading ends": func(t *rapid.T) {
				if !l.reading {
					return
				}
				l.take(webhook.Target{}, nil, reading, now)
				for _, d := range l.ready {
					for _, other := range append(flying, storing...) {
						if d.ID == other.ID {
							t.Fatal("what is being attempted is ready once more")
						}
					}
				}
			},
			"an attempt begins": func(t *rapid.T) {
				if due, ok := l.next(now); ok {
					flying = append(flying, due)
				}
			},
			"an attempt ends": func(t *rapid.T) {
				if len(flying) == 0 {
					return
				}
				l.ended(webhook.AttemptResult{Due: flying[0], Outcome: webhook.Answered(http.StatusOK, 0), Ended: now})
				flying, storing = flying[1:], append(storing, flying[0])
			},
			"an outcome is stored": func(t *rapid.T) {
				if len(storing) == 0 {
					return
				}
				queue = remove(queue, storing[0].ID)
				l.stored(webhook.AttemptResult{Due: storing[0], Outcome: webhook.Answered(http.StatusOK, 0)})
				storing = storing[1:]
			},
			"": func(t *rapid.T) {
				if l.flying > webhook.InFlight {
					t.Fatalf("%d attempts at the same time", l.flying)
				}
				known := map[affiliate.DeliveryID]bool{}
				for id := range l.busy {
					known[id] = true
				}
				for _, d := range l.ready {
					known[d.ID] = true
				}
				for _, d := range queue {
					if !known[d.ID] && d.DueAt.Before(l.from) {
						t.Fatalf("%s is due at %v and reading begins at %v", d.ID, d.DueAt, l.from)
					}
				}
			},
		})
	})
}
