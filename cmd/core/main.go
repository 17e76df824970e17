// Command core runs the gRPC core of the service and what belongs to it.
//
//	core serve [--gateway]   serve gRPC, ingestion and jobs; with --gateway REST too
//	core migrate             bring the database to this binary's schema
//	core check               prove that what is kept twice agrees; exit code 1 when it does not
//	core fx load FILE…       load rates of exchange, each file whole or not at all
//	core version             print version and commit
//
// Its settings come from the environment; docs/operations/settings.md lists them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/version"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const usage = `usage: core serve [--gateway] | migrate | check | fx load FILE… | version`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "core:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "serve":
		flags := flag.NewFlagSet("serve", flag.ContinueOnError)
		gateway := flags.Bool("gateway", false, "serve REST in the same process")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, *gateway)
	case "migrate":
		cfg, err := settings.Read[settings.Database]()
		if err != nil {
			return err
		}
		return postgres.Migrate(ctx, cfg.DatabaseURL)
	case "check":
		return checkBooks(ctx, out)
	case "fx":
		if len(args) < 3 || args[1] != "load" {
			return errors.New(usage)
		}
		return loadRates(ctx, out, args[2:])
	case "version":
		_, err := fmt.Fprintln(out, version.String())
		return err
	}
	return errors.New(usage)
}

// gcPercent lets the heap grow to two and a half times what lives in it before it
// is collected, unless GOGC says otherwise. That is some ten megabytes: memory is
// cheaper here than the collector's share of every request.
const gcPercent = 150

func serve(ctx context.Context, withGateway bool) error {
	cfg, err := settings.Read[settings.Core]()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	settings.WarnUnknown(log, os.Environ())
	// net/http remarks by itself that a server said more than it announced, and quotes
	// it: nothing of a webhook receiver's answer is kept.
	stdlog.SetOutput(io.Discard)
	core, err := assemble.NewCore(ctx, cfg, log, time.Now)
	if err != nil {
		return err
	}
	defer core.Close()
	var (
		on     assemble.Listeners
		listen net.ListenConfig
	)
	if on.GRPC, err = listen.Listen(ctx, "tcp", cfg.GRPCListen); err != nil {
		return err
	}
	if on.Metrics, err = listen.Listen(ctx, "tcp", cfg.MetricsListen); err != nil {
		return err
	}
	if withGateway {
		if on.API, err = listen.Listen(ctx, "tcp", cfg.APIListen); err != nil {
			return err
		}
	}
	log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("grpc", cfg.GRPCListen), slog.Bool("gateway", withGateway))
	return core.Run(ctx, on)
}
