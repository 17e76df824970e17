// Command dev runs all of Tributary in one process, for development. `dev help` lists its
// commands.
//
//	.dev/ ── lock ─▶ Postgres, Redis ─▶ core + gateway, collector, landing ─▶ demo ─▶ .dev/env
//	  (private servers, unless the environment has other URLs)  (through REST)
//
// It guarantees the following. Acknowledged data is not lost when the process stops. Each
// start creates missing demo data, so that the shell commands that the process prints
// (the walkthrough) work. When the process stops, the parts of the service stop first,
// then Redis, then Postgres. If a part fails, the process prints the error and exits. A
// lock ensures that only one process uses the folder .dev at a time. A child process
// simulates Stripe, and the demo's merchant is connected to it.
//
// It is not secure if other machines can reach its ports. It prints the passwords and
// keys of the demo, it does not encrypt HTTP and gRPC, and it accepts every local process
// as a trusted proxy. In production, run cmd/core, cmd/gateway, cmd/collector and
// cmd/landing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: go run ./cmd/dev [command]

  run                start everything, with demo data; Ctrl-C stops it (the default)
  reset              delete the data of run
  listen             print the webhooks of the running demo
      --events LIST        only these, for example commission.*,payout.paid
      --forward-to URL     send each webhook on to your receiver
  resend EVENT_ID    deliver an event to the running listener again
  stripe             send an event of Stripe to the running demo; without arguments,
                     print how
  cert               write a certificate for your own https receiver on this machine
      --out FOLDER         where to write it (default: this folder)
  help               print this text`

// errUsage is returned for invalid arguments.
var errUsage = errors.New(usage)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the process and its servers immediately.
	context.AfterFunc(ctx, stop)
	err := command(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	name, rest := "run", args
	if len(args) > 0 {
		name, rest = args[0], args[1:]
	}
	switch {
	case name == "run" && len(rest) == 0:
		return run(ctx, folderName, os.Environ(), out)
	case name == "reset" && len(rest) == 0:
		return reset(folderName, out)
	case name == "listen":
		return listenForWebhooks(ctx, folderName, rest, out)
	case name == "resend" && len(rest) == 1:
		return resend(ctx, folderName, rest[0], out)
	case name == "stripe":
		return stripeCommand(ctx, folderName, rest, out)
	case name == stripeServerCommand && len(rest) == 0:
		return serveStripe(ctx, os.Stdin)
	case name == "cert":
		return writeReceiverCertificate(folderName, rest, out)
	case name == "help" || name == "--help" || name == "-h":
		_, err := fmt.Fprintln(out, usage)
		return err
	}
	return errUsage
}
