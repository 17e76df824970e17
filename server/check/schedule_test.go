package check

import (
	"testing"
	"time"
)

func TestNightly_RunsAtHalfPastThreeUTC(t *testing.T) {
	for now, want := range map[string]string{
		"2026-03-09T03:29:59Z":      "2026-03-09T03:30:00Z",
		"2026-03-09T03:30:00Z":      "2026-03-10T03:30:00Z",
		"2026-03-09T23:00:00Z":      "2026-03-10T03:30:00Z",
		"2026-03-09T23:00:00-05:00": "2026-03-11T03:30:00Z",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := (nightly{}).Next(at).Format(time.RFC3339); got != want {
			t.Errorf("the next run after %s is %s, want %s", now, got, want)
		}
	}
}
