// Command compare holds the CPU time of the service against that of an earlier commit,
// for each row of `make bench`.
//
//	make bench BASE=<commit> [PARTS='collector conversions']
//
// It runs the load program (test/load) of both commits, each on servers of its own. The
// programs prepare themselves and then wait before each round for their turn: the rounds
// of both alternate, another side first each time. So a pair of rounds has the same
// machine, whose speed drifts by a quarter within minutes.
//
// A row's value is the CPU time of the server process per request. Rows without requests
// have the time of all processes of the service in a round instead, whose work is the
// same in each. The ratio after to before is estimated from the pairs, with its 95 %
// interval. A row is worse only if the whole interval lies above 1.10; then the exit code
// is 1. BENCH_ROUNDS (default and least number for a verdict: 15) is the number of pairs.
//
// Each commit's own load program measures it, because programs know the schema, the
// packages and the settings of their commit. A commit whose program does not take turns
// yet gets the present files that do (overlay in program.go); the files that measure stay
// its own.
//
// How it misleads: a row that both commits measure differently is compared all the same.
// Both pairs of servers run all the time; the one that is not measured is idle.
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
	table := compareRows(before.rows, after.rows, before.inStep(after))
	fmt.Printf("before: %.12s, after: the present tree; %s rounds\n\n", commit, rounds)
	if err := printTable(os.Stdout, table); err != nil {
		return err
	}
	return failures(table)
}
