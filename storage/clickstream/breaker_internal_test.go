package clickstream

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

var errRedis = errors.New("redis is away")

// openBreaker is one that has just opened, at the time that it goes by.
func openBreaker(t *testing.T) (b *breaker, now *time.Time) {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b = &breaker{now: func() time.Time { return at }}
	for range breakerFailures {
		if err := b.guard(t.Context(), answering(errRedis)); !errors.Is(err, errRedis) {
			t.Fatal(err)
		}
	}
	return b, &at
}

func answering(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// reached says whether a call goes out, which fails as Redis does.
func reached(t *testing.T, b *breaker) bool {
	t.Helper()
	return !errors.Is(b.guard(t.Context(), answering(errRedis)), errBreakerOpen)
}

func TestNoSecondProbeGoesOutWhileOneIs(t *testing.T) {
	b, now := openBreaker(t)
	*now = now.Add(breakerProbe)
	err := b.guard(t.Context(), func(ctx context.Context) error {
		for range 3 {
			*now = now.Add(time.Hour)
			if reached(t, b) {
				t.Error("a second probe is out")
			}
		}
		// Its own connection's greeting passes.
		if err := b.guard(ctx, answering(nil)); err != nil {
			t.Error(err)
		}
		return errRedis
	})
	if !errors.Is(err, errRedis) {
		t.Fatal(err)
	}
	*now = now.Add(breakerProbe - 1)
	if reached(t, b) {
		t.Error("the next probe does not count from the last one's end")
	}
	*now = now.Add(1)
	if !reached(t, b) {
		t.Error("no probe after its time")
	}
	*now = now.Add(breakerProbe)
	if err := b.guard(t.Context(), answering(nil)); err != nil {
		t.Fatal(err)
	}
	for range breakerFailures {
		if !reached(t, b) {
			t.Error("closed to a Redis that is back")
		}
	}
	if reached(t, b) {
		t.Error("open to a Redis that has gone again")
	}
}

// However a probe ends, the next one has its turn.
func TestAProbeThatNeverReportsIsNotTheLast(t *testing.T) {
	for name, end := range map[string]func(context.Context) error{
		"cancelled": answering(context.Canceled),
		"panic":     func(context.Context) error { panic("within the call") },
		"exit":      func(context.Context) error { runtime.Goexit(); return nil },
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
			if reached(t, b) {
				t.Error("it says nothing of Redis, and Redis is asked at once")
			}
			*now = now.Add(breakerProbe)
			if !reached(t, b) {
				t.Error("no other probe goes out")
			}
		})
	}
}
