package clickstream

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// once is a hook of a Cluster client. That client sends a command again after a
// timeout or a lost connection, however few retries it is given, because it counts
// them together with the redirections that it has to follow. Under this hook it only
// follows what a node answered: MOVED and ASK, and READONLY of one that is a master
// no more.
type once struct{}

// unrepeatable is a command that is not sent again once it may have been done.
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

// lookup is a hook of a client that asks sentinels for its master. What they answer
// is not what Redis answers: "no such master" would pass for "nothing there".
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
