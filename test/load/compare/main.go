// Command compare compares the CPU time of the service with the CPU time of an earlier
// commit, for each row of `make bench`.
//
//	make bench BASE=<commit> [PARTS='collector conversions']
//
// It runs the load program (test/load) of both commits, each with its own servers. The
// two programs measure their rounds alternately: before each round a program waits until
// this command starts the round. A pair consists of one round of each program. The
// programs take turns to be the first of a pair. So the two rounds of a pair run under
// the same conditions, although the speed of the machine may change by a quarter within
// minutes.
//
// The value of a row is the CPU time of the server process per request. A row without
// requests uses the CPU time of all processes of the service per round, because the work
// of a round is the same on both sides. The command estimates the ratio of the CPU time
// after to the CPU time before from the pairs, with a 95 % interval. A row is worse only
// if the whole interval is above 1.10; then the exit code is 1. A row is undecided if the
// interval contains 1.10: repeat the run with more rounds on an idle machine. BENCH_ROUNDS
// is the number of pairs. The default is 15, which is also the minimum for a verdict. All
// parts take about two and a half hours, because both commits fill their databases.
//
// A row that only one of the commits has is listed without a verdict. The rows after a
// removed or renamed row are not compared, and the exit code is 1. In this case select other
// parts, or keep the name of the row.
//
// Each commit is measured by its own load program, because the programs depend on the
// schema, the packages and the settings of their commit. The load program of an older
// commit may not be able to wait before its rounds. In this case the command replaces
// some of its files by the current files that implement this (overlay in program.go).
// With the exception of commissions.go, it does not replace the files that measure.
//
// Limits of the method: the command compares a row even if the two commits measure it in
// different ways. The servers of both programs run all the time. The servers of the
// program that does not measure are idle.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/tributary-hq/tributary/tools/commits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("usage: compare COMMIT [PART...]")
	}
	rounds := cmp.Or(os.Getenv("BENCH_ROUNDS"), strconv.Itoa(minRounds))
	commit, err := commits.Resolve(ctx, args[0])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tributary-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	source := filepath.Join(dir, "source")
	if err := prepare(ctx, commit, root, source); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := start(ctx, "before", root, source, filepath.Join(dir, "before"), rounds, args[1:])
	if err != nil {
		return err
	}
	defer before.stop()
	after, err := start(ctx, "after", root, root, filepath.Join(dir, "after"), rounds, args[1:])
	if err != nil {
		return err
	}
	defer after.stop()
	if err := alternate(before, after); err != nil {
		return err
	}
	table := compareRows(before.rows, after.rows, before.pairedLabels(after))
	fmt.Printf("before: %.12s, after: the current tree; %s rounds\n\n", commit, rounds)
	if err := printTable(os.Stdout, table); err != nil {
		return err
	}
	return failures(table)
}
