package clickstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	breakerFailures = 5
	// breakerProbe is the pause after the end of a probe.
	breakerProbe = 500 * time.Millisecond
)

// errBreakerOpen means that the command was not sent.
var errBreakerOpen = fmt.Errorf("redis has failed %d times in a row", breakerFailures)

// breaker is a redis.Hook that sends no commands to a Redis that does not respond, except
// one probe at a time. A Redis that hangs holds only the probe.
type breaker struct {
	now func() time.Time

	mu        sync.Mutex
	failures  int
	nextProbe time.Time
	probing   bool // a probe is running
}

// admitted marks the context of an admitted call. A new connection sends HELLO through
// the same hook, which must pass.
type admitted struct{}

func (b *breaker) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := b.guard(ctx, func(ctx context.Context) error { return next(ctx, command) })
		if errors.Is(err, errBreakerOpen) {
			command.SetErr(err)
		}
		return err
	}
}

func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := b.guard(ctx, func(ctx context.Context) error { return next(ctx, commands) })
		if errors.Is(err, errBreakerOpen) {
			for _, command := range commands {
				command.SetErr(err)
			}
		}
		return err
	}
}

func (b *breaker) guard(ctx context.Context, call func(context.Context) error) error {
	if ctx.Value(admitted{}) != nil {
		return call(ctx)
	}
	ok, probe := b.admit()
	if !ok {
		return errBreakerOpen
	}
	if probe {
		defer b.probed() // also when the call panics or its caller gives up
	}
	err := call(context.WithValue(ctx, admitted{}, true))
	b.report(err)
	return err
}

// admit reports whether a call may be sent and whether it is the probe. After the probe
// the caller calls probed.
func (b *breaker) admit() (ok, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakerFailures {
		return true, false
	}
	if b.probing || b.now().Before(b.nextProbe) {
		return false, false
	}
	b.probing = true
	return true, true
}

func (b *breaker) probed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	b.nextProbe = b.now().Add(breakerProbe)
}

func (b *breaker) report(err error) {
	// An error response shows that Redis is there; OOM and MISCONF are error responses
	// that the caller handles. A canceled context says nothing about Redis, but a deadline
	// does.
	var answer redis.Error
	healthy := err == nil || errors.As(err, &answer)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case healthy:
		b.failures = 0
	case errors.Is(err, context.Canceled):
	default:
		if b.failures++; b.failures == breakerFailures {
			b.nextProbe = b.now().Add(breakerProbe)
		}
	}
}
