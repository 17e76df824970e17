package clickstream

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// once is a hook of a Cluster client. That client repeats a command after a timeout or a
// lost connection whatever its number of retries is, because it counts them together with
// redirections. With this hook it only follows the responses of nodes: MOVED, ASK, and
// READONLY of a former master.
type once struct{}

// unrepeatable is a command that is not repeated once it may have been executed.
type unrepeatable struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (unrepeatable) NoRetry() bool { return true }

func (once) DialHook(next redis.DialHook) redis.DialHook { return next }

func (once) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error { return next(ctx, unrepeatable{command}) }
}

func (once) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		wrapped := make([]redis.Cmder, len(commands))
		for i, command := range commands {
			wrapped[i] = unrepeatable{command}
		}
		return next(ctx, wrapped)
	}
}

// lookup is a hook of a Sentinel client. It wraps error responses of sentinels, which
// would otherwise look like responses of Redis: "no such master" like a missing key.
type lookup struct{}

func (lookup) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		var answer redis.Error
		if errors.As(err, &answer) {
			err = errors.New("the sentinels name no master: " + err.Error())
		}
		return conn, err
	}
}

func (lookup) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (lookup) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
