// Command naive is the collector without group commit: it sends a separate XADD for each
// click. Everything else is the collector's code, with the same settings. GOGC and
// GOMEMLIMIT are not set here.
//
// The command still uses the collector's batcher, with so many shards that two clicks
// are rarely in one batch. A batch of two clicks is split again. So a click costs two goroutine
// switches, about a microsecond, that an XADD in its handler would not need.
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

// shards is the number of shards. It is several times the number of measured connections:
// a batch of two clicks needs four clicks at the same time in one shard.
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
	stream, err := clickstream.Connect(cfg.Stream())
	if err != nil {
		return err
	}
	lookups, err := clickstream.Connect(cfg.Cache())
	if err != nil {
		return err
	}
	limits, err := clickstream.Connect(cfg.Cache())
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	reader := directory.NewReader(lookups, time.Now)
	lease := ratelimit.NewLease(limits, ratelimit.Options{HashKey: cfg.HashKey, Log: log})
	writer := clickstream.NewWriter(stream, 1)
	config := edge.Config(cfg)
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
