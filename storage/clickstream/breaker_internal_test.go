package clickstream

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

var errRedis = errors.New("redis does not respond")

// openBreaker returns a breaker that has just opened, and its clock.
func openBreaker(t *testing.T) (b *breaker, now *time.Time) {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b = &breaker{now: func() time.Time { return at }}
	for range breakerFailures {
		if err := b.guard(t.Context(), returning(errRedis)); !errors.Is(err, errRedis) {
			t.Fatalf("a call before the breaker opens returned %v, want the error of the call", err)
		}
	}
	return b, &at
}

func returning(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// callSent makes a call that fails, and reports whether the breaker sent the call.
func callSent(t *testing.T, b *breaker) bool {
	t.Helper()
	return !errors.Is(b.guard(t.Context(), returning(errRedis)), ErrBreakerOpen)
}

func TestBreaker_SendsOneProbeAtATime(t *testing.T) {
	b, now := openBreaker(t)
	*now = now.Add(breakerProbe)
	err := b.guard(t.Context(), func(ctx context.Context) error {
		for range 3 {
			*now = now.Add(time.Hour)
			if callSent(t, b) {
				t.Error("a second probe was sent while the first was running")
			}
		}
		// The probe may open a connection, which sends the command HELLO with the context
		// of the probe.
		if err := b.guard(ctx, returning(nil)); err != nil {
			t.Errorf("a command with the context of the probe returned %v, want no error", err)
		}
		return errRedis
	})
	if !errors.Is(err, errRedis) {
		t.Fatalf("the probe returned %v, want the error of its call", err)
	}
	*now = now.Add(breakerProbe - 1)
	if callSent(t, b) {
		t.Error("the next probe was sent before the pause had ended")
	}
	*now = now.Add(1)
	if !callSent(t, b) {
		t.Error("no probe was sent after the pause")
	}
	*now = now.Add(breakerProbe)
	if err := b.guard(t.Context(), returning(nil)); err != nil {
		t.Fatalf("the successful probe returned %v", err)
	}
	for range breakerFailures {
		if !callSent(t, b) {
			t.Error("after a successful probe, a call was not sent")
		}
	}
	if callSent(t, b) {
		t.Errorf("after %d new failures, a call was sent", breakerFailures)
	}
}

// After a probe that ended without a result, the breaker must send another probe.
func TestBreaker_SendsNextProbeAfterProbeWithoutResult(t *testing.T) {
	for name, end := range map[string]func(context.Context) error{
		"canceled":        returning(context.Canceled),
		"panic":           func(context.Context) error { panic("in the call") },
		"goroutine exits": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b, now := openBreaker(t)
			*now = now.Add(breakerProbe)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_ = b.guard(t.Context(), end)
			}()
			<-ended
			if callSent(t, b) {
				t.Error("the next probe was sent without a pause")
			}
			*now = now.Add(breakerProbe)
			if !callSent(t, b) {
				t.Error("no probe was sent after the pause")
			}
		})
	}
}
