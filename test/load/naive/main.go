// Command naive is the collector without its group commit: every click is an XADD
// of its own. Everything else is the collector's, and so are the settings that it
// reads. GOGC and GOMEMLIMIT are not set here.
//
// The collector's own batcher is under it still, over so many lines that hardly
// two clicks ever meet in one; those that do are taken apart again. So a click
// pays two switches between goroutines that an XADD right in its handler would
// not need, a microsecond or so.
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

// lines is several times the connections that are measured: a batch of two
// clicks needs four of them under way in one line.
const lines = 1024

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
	config.Shards = lines
	err = collector.New(config, collector.Deps{
		Sink: one{writer}, Directory: reader, Limits: lease,
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

// one appends every click by itself, all to one stream.
type one struct{ stream *clickstream.Writer }

// Append implements collector.Sink.
func (o one) Append(ctx context.Context, _ int, batch []byte, _ int) error {
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
