package clock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// machine is a clock that is set wrong.
type machine struct{ ahead time.Duration }

func (m *machine) now() time.Time { return time.Now().Add(m.ahead) }

func serverTime(context.Context) (time.Time, error) { return time.Now(), nil }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestCompare_RefusesWrongClock(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		want  string
	}{
		{0, ""},
		{30 * time.Second, ""},
		{-30 * time.Second, ""},
		{10 * time.Minute, "the clock of this machine is 10m0s ahead of the clock of Postgres (maximum: 30s): synchronise the clocks (NTP) and start again"},
		{-31 * time.Second, "the clock of this machine is 31s behind the clock of Postgres (maximum: 30s): synchronise the clocks (NTP) and start again"},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := New((&machine{c.ahead}).now)
			err := clock.Compare(t.Context(), Server{"Postgres", serverTime}, discard(), prometheus.NewRegistry())
			if got := errorText(err); got != c.want {
				t.Errorf("%s ahead: the error is %q, want %q", c.ahead, got, c.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A step of the machine's clock does not change the time of the process. It is reported by the
// next comparison.
func TestNow_IgnoresStepOfMachinesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m, registry := &machine{1500 * time.Millisecond}, prometheus.NewRegistry()
		clock := New(m.now)
		if err := clock.Compare(t.Context(), Server{"Postgres", serverTime}, slog.New(slog.NewTextHandler(&log, nil)), registry); err != nil {
			t.Fatal(err)
		}
		if got := testutil.ToFloat64(clock.offset); got != 1.5 || log.Len() > 0 {
			t.Errorf("the offset is %v with the log %q, want 1.5 and no log", got, &log)
		}
		m.ahead = 10 * time.Minute
		go clock.Run(t.Context())
		time.Sleep(interval + time.Second)
		synctest.Wait()
		if got := clock.Now(); !got.Equal(time.Now()) {
			t.Errorf("the time is %s, want that of the server, %s", got, time.Now())
		}
		if got := testutil.ToFloat64(clock.offset); got != 600 || !strings.Contains(log.String(), "level=WARN") {
			t.Errorf("the offset is %v with the log %q, want 600 and a warning", got, &log)
		}
	})
}

// A process can start before its server. It follows the server's clock once it responds.
func TestRun_ComparesSoonAfterServerResponds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reachable := false
		read := func(ctx context.Context) (time.Time, error) {
			if !reachable {
				return time.Time{}, errors.New("refused")
			}
			return serverTime(ctx)
		}
		clock := New((&machine{10 * time.Minute}).now)
		if err := clock.Compare(t.Context(), Server{"Redis", read}, discard(), prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(clock.Now()).Round(time.Second); got != 10*time.Minute {
			t.Errorf("without a server, the clock is %s ahead, want the machine's clock", got)
		}
		reachable = true
		go clock.Run(t.Context())
		time.Sleep(firstInterval)
		synctest.Wait()
		if got := clock.Now(); !got.Equal(time.Now()) {
			t.Errorf("the time is %s, want that of the server, %s", got, time.Now())
		}
	})
}

// If the response of the server takes long, the comparison is not exact. It must not move an
// exact clock by half of this time.
func TestCompare_KeepsMachinesTimeThatASlowResponseCannotRefute(t *testing.T) {
	slow := func(context.Context) (time.Time, error) {
		time.Sleep(200 * time.Millisecond)
		return time.Now(), nil
	}
	for _, c := range []struct{ ahead, want time.Duration }{
		{0, 0}, {90 * time.Millisecond, 90 * time.Millisecond}, {time.Second, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := New((&machine{c.ahead}).now)
			if err := clock.Compare(t.Context(), Server{"Redis", slow}, discard(), prometheus.NewRegistry()); err != nil {
				t.Fatal(err)
			}
			if got := time.Until(clock.Now()); got != c.want {
				t.Errorf("with a machine's clock that is %s ahead, the clock is %s ahead, want %s", c.ahead, got, c.want)
			}
		})
	}
}
