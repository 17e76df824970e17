// Command naive is the collector without group commit: it sends a separate XADD for each
// click. All other code and settings are the same as in cmd/collector. GOGC and
// GOMEMLIMIT must be set in the environment.
//
// The command still uses the batcher of the collector, but with so many shards that two
// clicks are rarely in the same batch. If they are, the command splits the batch. The
// batcher costs two goroutine switches per click, about a microsecond, which a call of
// XADD in the handler would not need.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// shards is the number of shards. It is several times the number of measured connections,
// so that batches of two clicks are rare. A batch of two clicks needs four clicks at the
// same time in one shard.
const shards = 1024

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "naive:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	cfg, err := settings.Read[settings.Collector]()
	if err != nil {
		return err
	}
	stream, err := clickstream.Connect(cfg.Stream(nil))
	if err != nil {
		return err
	}
	lookups, err := clickstream.Connect(cfg.Cache(nil))
	if err != nil {
		return err
	}
	limits, err := clickstream.Connect(cfg.Cache(nil))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	reader := directory.NewReader(lookups, time.Now)
	lease := ratelimit.NewLease(limits, ratelimit.Options{HashKey: cfg.HashKeys.Keys().First(), Log: log})
	writer := clickstream.NewWriter(stream, 1)
	config := edge.Config(cfg, nil)
	config.Shards = shards
	err = collector.New(config, collector.Deps{
		Sink: unbatched{writer}, Directory: reader, Limits: lease,
		MissingDependency: func(ctx context.Context) string {
			if writer.Ping(ctx) != nil {
				return "redis"
			}
			return ""
		},
		Background: []func(context.Context){reader.Run, lease.Run},
		Log:        log,
	}).Run(ctx, listener, nil)
	return errors.Join(err, stream.Close(), lookups.Close(), limits.Close())
}

// unbatched is a sink that appends each click separately to one stream.
type unbatched struct{ stream *clickstream.Writer }

// Append implements collector.Sink.
func (o unbatched) Append(ctx context.Context, _ int, batch []byte, _ int) error {
	for len(batch) > 0 {
		_, _, size := protowire.ConsumeField(batch)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := o.stream.Append(ctx, 0, batch[:size], 1); err != nil {
			return err
		}
		batch = batch[size:]
	}
	return nil
}
