// Command dev runs the whole of Tributary in one process, for development:
//
//	dev          start everything, with demo data; Ctrl-C stops it
//	dev reset    forget the data
//	dev listen   print the events of a running one as they are delivered
//
//	.dev/ ── lock ─▶ Postgres, Redis ─▶ core + gateway ─▶ collector ─▶ demo ─▶ .dev/env
//	  (private ones, unless the environment names them)      (through REST)
//
// It guarantees that what was acknowledged is there at the next start, that the
// demo is brought back to where the printed walk begins, whatever part of it was
// lost, that stopping goes from our parts to Redis to Postgres, and that a part
// which dies ends the process with its reason. One process at a time has the
// folder.
//
// It promises no security beyond loopback: passwords and keys of the demo are
// printed, HTTP and gRPC are plain, and the machine's own processes are trusted
// as proxies. Production runs cmd/core, cmd/gateway and cmd/collector.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: dev [run | reset | listen [--subscribe name,…]]"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second Ctrl-C ends the process at once, and its servers with it.
	context.AfterFunc(ctx, stop)
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0, len(args) == 1 && args[0] == "run":
		return run(ctx, folderName, os.Environ(), os.Stdout)
	case len(args) == 1 && args[0] == "reset":
		return reset(folderName, os.Stdout)
	case args[0] == "listen":
		return receive(ctx, folderName, args[1:], os.Stdout)
	}
	return errors.New(usage)
}
