package webhook

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
)

// TestBacklog_MissesNothingDue calls the methods of a backlog in random order and
// compares it with a model of the queue. Every due delivery that is not being attempted
// must be ready or part of the next read.
func TestBacklog_MissesNothingDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		b := NewBacklog()
		// queue holds the due deliveries in the database, ordered by due time.
		var queue, inFlight, ended []DueDelivery
		dueFrom := func(from time.Time, limit int) []DueDelivery {
			var due []DueDelivery
			for _, d := range queue {
				if !d.DueAt.Before(from) && !d.DueAt.After(now) && len(due) < limit {
					due = append(due, d)
				}
			}
			return due
		}
		remove := func(from []DueDelivery, id affiliate.DeliveryID) []DueDelivery {
			var left []DueDelivery
			for _, d := range from {
				if d.ID != id {
					left = append(left, d)
				}
			}
			return left
		}
		var readResult []DueDelivery // result of the read in progress
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"deliveries are created": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					// A transaction commits up to a second after the due time of its
					// deliveries.
					late := time.Duration(rapid.IntRange(0, 1000).Draw(t, "late")) * time.Millisecond
					d := DueDelivery{ID: affiliate.NewID[affiliate.DeliveryID](now), DueAt: now.Add(-late)}
					at := len(queue)
					for at > 0 && queue[at-1].DueAt.After(d.DueAt) {
						at--
					}
					queue = append(queue[:at], append([]DueDelivery{d}, queue[at:]...)...)
				}
				b.MarkNewDeliveries()
			},
			"a read begins": func(t *rapid.T) {
				if b.NeedsRead() {
					readResult = dueFrom(b.BeginRead(now))
				}
			},
			"a read ends": func(t *rapid.T) {
				if !b.Reading() {
					return
				}
				b.EndRead(readResult, now)
				for _, d := range b.ready {
					for _, other := range slices.Concat(inFlight, ended) {
						if d.ID == other.ID {
							t.Fatal("a delivery whose outcome is not stored yet is ready again")
						}
					}
				}
			},
			"an attempt begins": func(t *rapid.T) {
				if b.Ready(now) {
					inFlight = append(inFlight, b.Next())
				}
			},
			"an attempt ends": func(*rapid.T) {
				if len(inFlight) > 0 {
					inFlight, ended = inFlight[1:], append(ended, inFlight[0])
				}
			},
			"an outcome is stored": func(*rapid.T) {
				if len(ended) == 0 {
					return
				}
				queue = remove(queue, ended[0].ID)
				b.Stored(AttemptResult{Delivery: ended[0], Outcome: ResponseOutcome(http.StatusOK, 0)})
				ended = ended[1:]
			},
			"": func(t *rapid.T) {
				known := map[affiliate.DeliveryID]bool{}
				for id := range b.unstored {
					known[id] = true
				}
				for _, d := range b.ready {
					known[d.ID] = true
				}
				for _, d := range queue {
					if !known[d.ID] && d.DueAt.Before(b.nextReadFrom) {
						t.Fatalf("the next read would miss delivery %s: it is due at %v, and the read begins at %v", d.ID, d.DueAt, b.nextReadFrom)
					}
				}
				if b.Unstored() != len(inFlight)+len(ended) {
					t.Fatalf("Unstored() = %d, want the sum of %d in flight and %d ended", b.Unstored(), len(inFlight), len(ended))
				}
			},
		})
	})
}
