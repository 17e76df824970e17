package webhook

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

func TestCountOutcomes(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := noon.Add(-d); return &at }
	const days = 24 * time.Hour
	change := func(o Outcome, before, after DeliveryStatus) DeliveryChange {
		return DeliveryChange{Result: AttemptResult{Outcome: o, Ended: noon}, Before: State{Status: before}, After: State{Status: after}}
	}
	success := change(ResponseOutcome(http.StatusOK, 0), DeliveryPending, DeliveryDelivered)
	failure := change(Outcome{ErrorCode: Timeout}, DeliveryPending, DeliveryFailed)
	deadLetter := change(Outcome{ErrorCode: Timeout}, DeliveryFailed, DeliveryDeadLettered)
	gone := change(ResponseOutcome(http.StatusGone, 0), DeliveryPending, DeliveryDeadLettered)
	for _, tc := range []struct {
		name     string
		active   bool
		health   Health
		changes  []DeliveryChange
		failures int
		dead     int
		since    *time.Time
		disabled DisabledReason
	}{
		{"a success resets the failures", true, Health{ConsecutiveFailures: 3, FailingSince: ago(days), DeadLetters: 7}, []DeliveryChange{success}, 0, 0, nil, ""},
		{"failures after a success", true, Health{ConsecutiveFailures: 3, FailingSince: ago(days)}, []DeliveryChange{success, failure, deadLetter}, 2, 1, ago(0), ""},
		{"another failure", true, Health{ConsecutiveFailures: 3, FailingSince: ago(days)}, []DeliveryChange{failure}, 4, 0, ago(days), ""},
		{"410 disables", true, Health{}, []DeliveryChange{gone}, 1, 1, ago(0), DisabledGone},
		{"five days and twenty dead letters disable", true, Health{FailingSince: ago(5 * days), DeadLetters: 19}, []DeliveryChange{deadLetter}, 1, 20, ago(5 * days), DisabledFailing},
		{"nineteen dead letters do not disable", true, Health{FailingSince: ago(5 * days), DeadLetters: 18}, []DeliveryChange{deadLetter}, 1, 19, ago(5 * days), ""},
		{"less than five days do not disable", true, Health{FailingSince: ago(5*days - 1), DeadLetters: 40}, []DeliveryChange{deadLetter}, 1, 41, ago(5*days - 1), ""},
		{"a disabled endpoint is not disabled again", false, Health{}, []DeliveryChange{gone}, 1, 1, ago(0), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := Endpoint{Active: tc.active, Epoch: 1, Version: 1, Health: tc.health}
			after := CountOutcomes(before, tc.changes)
			h := after.Health
			if h.ConsecutiveFailures != tc.failures || h.DeadLetters != tc.dead || !h.LastDeliveryAt.Equal(noon) {
				t.Errorf("health %+v; want %d consecutive failures, %d dead letters, last delivery at %s", h, tc.failures, tc.dead, noon)
			}
			if (h.FailingSince == nil) != (tc.since == nil) || tc.since != nil && !h.FailingSince.Equal(*tc.since) {
				t.Errorf("failing since %v, want %v", h.FailingSince, tc.since)
			}
			switch {
			case tc.disabled == "" && (after.Active != tc.active || after.Epoch != 1 || after.Version != 1):
				t.Errorf("endpoint %+v; want no change except in Health", after)
			case tc.disabled != "" && (after.Active || *after.DisabledReason != tc.disabled || after.Epoch != 2 || after.Version != 2):
				t.Errorf("endpoint %+v; want it disabled as %s, with epoch 2 and version 2", after, tc.disabled)
			}
		})
	}
}

// The outcomes of an outage of the database are stored long after the attempts. The
// notifications then have the time of storing, so that they are new in the feed.
func TestHealthNotifications(t *testing.T) {
	const day = 24 * time.Hour
	stored := noon.Add(3 * time.Hour)
	dayOf := func(at time.Time) *time.Time { start := at.Truncate(day); return &start }
	endpoint := func(active bool, deadLetterDay *time.Time) Endpoint {
		e := Endpoint{Active: active, Health: Health{LastDeadLetterDay: deadLetterDay, LastDeliveryAt: &noon}}
		if !active {
			reason := DisabledFailing
			e.DisabledReason = &reason
		}
		return e
	}
	deadLetter, disabled := notification.NotifyEndpointDeadLetter, notification.NotifyEndpointDisabled
	for _, tc := range []struct {
		name          string
		before, after Endpoint
		want          []notification.Type
	}{
		{"no dead letter", endpoint(true, nil), endpoint(true, nil), nil},
		{"the first dead letter", endpoint(true, nil), endpoint(true, dayOf(noon)), []notification.Type{deadLetter}},
		{"another one on the same day", endpoint(true, dayOf(noon)), endpoint(true, dayOf(noon)), nil},
		{"the first one of the next day", endpoint(true, dayOf(noon.Add(-day))), endpoint(true, dayOf(noon)), []notification.Type{deadLetter}},
		{"disabled after five days", endpoint(true, dayOf(noon)), endpoint(false, dayOf(noon)), []notification.Type{disabled}},
		{"disabled before", endpoint(false, dayOf(noon)), endpoint(false, dayOf(noon)), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []notification.Type
			for _, n := range HealthNotifications(tc.before, tc.after, stored) {
				got = append(got, n.Type)
				if !n.CreatedAt().Equal(stored) {
					t.Errorf("the time of %s is %s, want %s", n.Type, n.CreatedAt(), stored)
				}
				if n.Type == disabled && n.Facts["reason"] == "" {
					t.Error("the notification does not say why the endpoint was disabled")
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("notifications %q, want %q", got, tc.want)
			}
		})
	}
}
