// Command core runs the core of the service and its administrative commands.
//
//	core serve [--gateway]   run gRPC, ingestion and jobs; with --gateway also the REST API
//	core migrate             apply the migrations of this binary to the database
//	core check               check that the stored sums match their entries; the exit code is 1 if a check fails
//	core fx load FILE…       load exchange rates; nothing is stored if a file is invalid
//	core announce TITLE FILE send a text to all workspaces as a notification; the file - is the standard input
//	core analytics recount [--workspace ID] [--from DATE] [--to DATE]
//	                         count the clicks and conversions of days again, in one workspace or in all
//	core mail test ADDRESS   send a test mail and print the reply of the mail server; the
//	                         exit code is 1 if the server does not accept the mail
//	core erasures replay FILE…
//	                         repeat the erasures in the erasure logs, after a restore of an
//	                         older backup
//	core account reset-second-factor --email ADDRESS --kind merchant|partner
//	                         remove the second factor of a user who has lost it
//	core workspace create --email ADDRESS --name NAME --workspace NAME
//	                         create a workspace and its owner, and print the link with
//	                         which the owner sets the password
//	core workspace billing --id ID --active=true|false
//	                         mark the subscription of a workspace as active; an active
//	                         subscription blocks the erasure of the workspace
//	core keys reset SETTING
//	                         accept the loss of the keys of TRIBUTARY_ENCRYPTION_KEYS,
//	                         TRIBUTARY_HASH_KEY or TRIBUTARY_JWT_KEYS: the next core that
//	                         starts may have any keys
//	core secrets DIR [FOLDER=FILE,FILE…]…
//	                         create the files with the secrets of an installation that do not
//	                         exist yet, and copy files into the folders of programs
//	core healthcheck [--serving|--ready]
//	                         check that the core on this machine runs, that it runs and is
//	                         not stopping, or that it is ready; the exit code is 0 if it is
//	core version             print version and commit
//
// The settings are read from the environment; docs/operations/settings.md lists them.
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
	"runtime/debug"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/cmd/version"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const usage = "usage: core serve [--gateway] | migrate | secrets DIR [FOLDER=FILE,FILE…]… | check | fx load FILE… | announce TITLE FILE | mail test ADDRESS | " +
	"erasures replay FILE… | workspace create --email ADDRESS --name NAME --workspace NAME | workspace billing --id ID --active=true|false | " +
	"account reset-second-factor --email ADDRESS --kind merchant|partner | analytics recount [--workspace ID] [--from DATE] [--to DATE] | " +
	"keys reset SETTING | healthcheck [--serving|--ready] | version"

func main() { private.Main("core", nil, run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	// Some commands have two words, and others one.
	words := min(len(args), 2)
	command, rest := strings.Join(args[:words], " "), args[words:]
	switch {
	case len(args) == 0:
	case args[0] == "serve":
		flags := flag.NewFlagSet("serve", flag.ContinueOnError)
		gateway := flags.Bool("gateway", false, "serve REST in the same process")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(ctx, *gateway)
	case args[0] == "migrate":
		cfg, err := settings.Read[settings.Database]()
		if err != nil {
			return err
		}
		return postgres.Migrate(ctx, cfg.DatabaseURL)
	case args[0] == "check":
		return checkConsistency(ctx, out)
	case command == "fx load" && len(rest) > 0:
		return loadRates(ctx, out, rest)
	case args[0] == "announce" && len(args) == 3:
		return announce(ctx, os.Stdin, out, args[1], args[2])
	case command == "mail test" && len(rest) == 1:
		return sendTestMail(ctx, out, rest[0], time.Now())
	case command == "erasures replay" && len(rest) > 0:
		return replayErasures(ctx, out, rest)
	case command == "workspace billing":
		return setBilling(ctx, out, rest)
	case command == "workspace create":
		return createWorkspace(ctx, out, rest, time.Now)
	case command == "account reset-second-factor":
		return resetSecondFactor(ctx, out, rest, time.Now)
	case command == "analytics recount":
		return recountAnalytics(ctx, out, rest, time.Now())
	case command == "keys reset" && len(rest) == 1:
		return resetKeys(ctx, out, rest[0])
	case args[0] == "secrets" && len(args) > 1:
		if err := createSecrets(out, args[1]); err != nil {
			return err
		}
		return copySecrets(out, args[1], args[2:])
	case args[0] == "healthcheck":
		cfg, err := settings.Read[settings.CoreMetrics]()
		if err != nil {
			return err
		}
		return private.Check(ctx, cfg.MetricsListen, args[1:])
	case args[0] == "version":
		_, err := fmt.Fprintln(out, version.String())
		return err
	}
	return errors.New(usage)
}

// gcPercent is used if GOGC is not set. Garbage collection starts when the heap has grown to
// two and a half times the size of the live objects. This costs about ten megabytes of memory
// and saves CPU time in every request.
const gcPercent = 150

func serve(ctx context.Context, withGateway bool) error {
	cfg, err := settings.Read[settings.Core]()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := tracing.NewLogger(os.Stderr, cfg.LogLevel)
	files := certificates.New(log)
	files.ReloadOnHangup()
	settings.WarnUnknown(log, os.Environ())
	// If a webhook receiver sends more bytes than its Content-Length announces, net/http
	// logs these bytes with the standard logger. Responses of receivers must not be
	// logged. Therefore the output of the standard logger is discarded.
	stdlog.SetOutput(io.Discard)
	core, err := assemble.NewCore(ctx, cfg, files, log, clock.New(time.Now))
	if err != nil {
		return err
	}
	defer core.Close()
	var (
		listeners assemble.Listeners
		listen    net.ListenConfig
	)
	if listeners.GRPC, err = listen.Listen(ctx, "tcp", cfg.GRPCListen); err != nil {
		return err
	}
	if listeners.Metrics, err = listen.Listen(ctx, "tcp", cfg.MetricsListen); err != nil {
		return err
	}
	if withGateway {
		if listeners.API, err = listen.Listen(ctx, "tcp", cfg.APIListen); err != nil {
			return err
		}
	}
	log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("version", version.String()), slog.String("grpc", cfg.GRPCListen), slog.Bool("gateway", withGateway))
	return core.Run(ctx, listeners)
}
