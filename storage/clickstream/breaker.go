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
	// breakerProbe is how long Redis is left alone after the last probe's end.
	breakerProbe = 500 * time.Millisecond
)

// errBreakerOpen says that Redis was not even asked.
var errBreakerOpen = fmt.Errorf("redis has failed %d times in a row", breakerFailures)

// breaker is a redis.Hook that stops asking a Redis that does not answer, but for one
// call at a time: a Redis that hangs does not hold a second one.
type breaker struct {
	now func() time.Time

	mu        sync.Mutex
	failures  int
	nextProbe time.Time
	probing   bool // a probe is out
}

// admitted marks a call that was let through, whose connection may have to
// greet the server first: the greeting passes here too.
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

// admit says whether a call may go out, and whether as the probe: then probed follows.
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
	// A refusal by the server is an answer: Redis is there. OOM and MISCONF are
	// refusals too and are the caller's to handle. A caller that gave up says
	// nothing about Redis; a deadline does.
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
