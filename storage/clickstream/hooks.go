package clickstream

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// noRetryHook is a hook of a Cluster client. Without the hook, the client repeats a
// command after a timeout or a lost connection, even if MaxRetries is -1, because
// MaxRedirects also allows retries. With the hook, the client repeats a command only if a
// node responds with MOVED, ASK or READONLY. A former master responds with READONLY.
type noRetryHook struct{}

// noRetryCommand is a command that the client must not repeat after it may have been
// executed.
type noRetryCommand struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
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
