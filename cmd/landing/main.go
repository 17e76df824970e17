// Command landing serves the forms of a public landing page: the waitlist and the contact
// form.
//
//	landing             serve the forms
//	landing migrate     create or upgrade the schemas of the service in the database
//	landing contacts    print the contact messages, newest first, each as one line of JSON
//	    --limit N       at most N messages (default 100)
//	    --before ID     only messages older than the message with this id
//	landing healthcheck [--serving|--ready]
//	                    check that the service on this machine runs, that it runs and is not
//	                    stopping, or that it is ready; the exit code is 0 if the check succeeds
//	landing version     print version and commit
//
// The settings are read from the environment; docs/operations/settings.md lists them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/cmd/version"
	"github.com/tributary-hq/tributary/landing/store"
)

var errUsage = errors.New("usage: landing | landing migrate | landing contacts [--limit N] [--before ID] | " +
	"landing healthcheck [--serving|--ready] | landing version")

func main() { private.Main("landing", errUsage, run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 0:
		return serve(ctx)
	case args[0] == "contacts":
		return printContacts(ctx, args[1:], out)
	case len(args) == 1 && args[0] == "migrate":
		cfg, err := settings.Read[settings.LandingDatabase]()
		if err != nil {
			return err
		}
		return store.Migrate(ctx, cfg.DatabaseURL())
	case args[0] == "healthcheck":
		cfg, err := settings.Read[settings.LandingMetrics]()
		if err != nil {
			return err
		}
		return private.Check(ctx, cfg.LandingMetricsListen, args[1:])
	case len(args) == 1 && args[0] == "version":
		_, err := fmt.Fprintln(out, version.String())
		return err
	}
	return errUsage
}

func serve(ctx context.Context) error {
	cfg, err := settings.Read[settings.Landing]()
	if err != nil {
		return err
	}
	log := tracing.NewLogger(os.Stderr, cfg.LogLevel)
	files := certificates.New(log)
	files.ReloadOnHangup()
	settings.WarnUnknown(log, os.Environ())
	var listen net.ListenConfig
	public, err := listen.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("TRIBUTARY_LANDING_LISTEN: %w", err)
	}
	metrics, err := listen.Listen(ctx, "tcp", cfg.LandingMetricsListen)
	if err != nil {
		return errors.Join(fmt.Errorf("TRIBUTARY_LANDING_METRICS_LISTEN: %w", err), public.Close())
	}
	log.Info("landing is listening", "version", version.String(), "address", public.Addr().String(), "metrics", metrics.Addr().String())
	return assemble.RunLanding(ctx, cfg, files, public, metrics, log)
}

const defaultLimit = 100

func printContacts(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("contacts", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	limit := flags.Int("limit", defaultLimit, "")
	var before uuid.UUID
	flags.Func("before", "", func(text string) (err error) {
		before, err = uuid.Parse(text)
		return err
	})
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *limit < 1 {
		return errUsage
	}
	cfg, err := settings.Read[settings.LandingDatabase]()
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, cfg.DatabaseURL(), nil)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer s.Close()
	messages, err := s.ContactMessages(ctx, before, *limit)
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(out)
	for _, m := range messages {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		for _, r := range string(text) {
			writeRune(lines, r)
		}
		_ = lines.WriteByte('\n') // Flush returns the error
	}
	return lines.Flush()
}

// writeRune writes one character of a JSON text. It escapes the control characters that
// json.Marshal does not escape, because a terminal could interpret them.
func writeRune(w *bufio.Writer, r rune) {
	if r >= 0x7f && r <= 0x9f {
		fmt.Fprintf(w, `\u%04x`, r)
		return
	}
	_, _ = w.WriteRune(r)
}
