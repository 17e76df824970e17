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
	// breakerFailures is the number of failures in a row that opens the breaker.
	breakerFailures = 5
	// breakerProbe is the pause between the end of one probe and the start of the next.
	breakerProbe = 500 * time.Millisecond
)

// ErrBreakerOpen means that the command was not sent because the breaker is open.
var ErrBreakerOpen = fmt.Errorf("the command was not sent, because redis has failed %d times in a row", breakerFailures)

// breaker is a circuit breaker. It implements redis.Hook. After breakerFailures failures
// in a row, the breaker opens. While it is open, it sends one command at a time as a
// probe and rejects all other commands. Therefore only the probe waits for a Redis that
// hangs. A successful probe closes the breaker.
type breaker struct {
	now func() time.Time

	mu        sync.Mutex
	failures  int       // in a row
	nextProbe time.Time // earliest start of the next probe
	probing   bool      // a probe is running
}

// admittedKey is the context key that marks a call as admitted. An admitted call may open
// a new connection and then sends the command HELLO through this hook too. The hook must
// not reject HELLO, so it lets all commands with this mark pass.
type admittedKey struct{}

func (b *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := b.guard(ctx, func(ctx context.Context) error { return next(ctx, command) })
		if errors.Is(err, ErrBreakerOpen) {
			command.SetErr(err)
		}
		return err
	}
}

func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := b.guard(ctx, func(ctx context.Context) error { return next(ctx, commands) })
		if errors.Is(err, ErrBreakerOpen) {
			for _, command := range commands {
				command.SetErr(err)
			}
		}
		return err
	}
}

func (b *breaker) guard(ctx context.Context, call func(context.Context) error) error {
	if ctx.Value(admittedKey{}) != nil {
		return call(ctx)
	}
	ok, probe := b.admit()
	if !ok {
		return ErrBreakerOpen
	}
	if probe {
		defer b.endProbe() // deferred, because the call may panic
	}
	err := call(context.WithValue(ctx, admittedKey{}, true))
	b.recordResult(err)
	return err
}

// admit reports whether a call may be sent and whether it is a probe. The caller must
// call endProbe after a probe.
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

func (b *breaker) endProbe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	b.nextProbe = b.now().Add(breakerProbe)
}

func (b *breaker) recordResult(err error) {
	// An error response, for example OOM or MISCONF, proves that Redis is running. It
	// counts as a success here, and the caller handles the error. A canceled context
	// counts neither as a success nor as a failure. An exceeded deadline counts as a
	// failure.
	var response redis.Error
	healthy := err == nil || errors.As(err, &response)
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

// noRetryHook is a hook of a Cluster client. Without the hook, the client repeats a
// command after a timeout or a lost connection, even if MaxRetries is -1, because
// MaxRedirects also allows retries. With the hook, the client repeats a command only if a
// node responds with MOVED, ASK or READONLY. A former master responds with READONLY.
type noRetryHook struct{}

// noRetryCommand is a command that the client must not repeat after it may have been
// executed.
type noRetryCommand struct{ redis.Cmder }

func (noRetryCommand) NoRetry() bool { return true }

func (noRetryHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (noRetryHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error { return next(ctx, noRetryCommand{command}) }
}

func (noRetryHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		wrapped := make([]redis.Cmder, len(commands))
		for i, command := range commands {
			wrapped[i] = noRetryCommand{command}
		}
		return next(ctx, wrapped)
	}
}

// sentinelErrorHook is a hook of a Sentinel client. It replaces the error responses of
// sentinels, because callers would treat them as error responses of the master. For
// example, they would treat "no such master" as a missing key.
type sentinelErrorHook struct{}

func (sentinelErrorHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		var response redis.Error
		if errors.As(err, &response) {
			err = errors.New("the sentinels do not return a master: " + err.Error())
		}
		return conn, err
	}
}

func (sentinelErrorHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (sentinelErrorHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
