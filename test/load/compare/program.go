package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/tools/commits"
)

const (
	loadFolder = "test/load"
	// turnsFile exists in every load program that supports turns.
	turnsFile   = loadFolder + "/turns.go"
	stopTimeout = time.Minute
)

// overlay contains the current files that add turns to an older load program. They use
// only a few names of the rest of the program. commissions.go does measure, but older
// versions measured in a random order.
var overlay = []string{turnsFile, loadFolder + "/main.go", loadFolder + "/round.go", loadFolder + "/table.go", loadFolder + "/commissions.go"}

// prepare extracts a commit into source, and makes sure that its load program supports
// turns.
func prepare(ctx context.Context, commit, root, source string) error {
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	if err := commits.Extract(ctx, commit, source); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(source, turnsFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range overlay {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(source, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// message and row are the messages of test/load (see turns.go there).
type message struct {
	Wait  string
	Round int
	Rows  []row
}

type row struct {
	Label, Name string
	CPU, Spent  []float64
}

// program is a running load program with its servers.
type program struct {
	side string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	// waitingFor is the round for which the program waits. finished reports that it has sent
	// its rows.
	waitingFor turn
	finished   bool
	rows       []row
	// measured maps each measured round to the number of its pair.
	measured map[turn]int
	labels   map[string]bool
}

// turn is a round of a row.
type turn struct {
	label string
	round int
}

// start builds the load program of the module in source and starts it with its own
// servers.
func start(ctx context.Context, side, root, source, binaries, rounds string, parts []string) (*program, error) {
	if err := os.Mkdir(binaries, 0o700); err != nil {
		return nil, err
	}
	if err := commits.Build(ctx, source, binaries, "./"+loadFolder); err != nil {
		return nil, err
	}
	argv := append([]string{"-durable", "--", filepath.Join(binaries, "load")}, parts...)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "withservers"), argv...)
	cmd.Dir, cmd.Stderr = source, os.Stderr
	cmd.Env = append(os.Environ(), "BENCH_TURNS="+side, "BENCH_ROUNDS="+rounds)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	// Without its own process group the program would get Ctrl-C twice: from the
	// terminal and from this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return newProgram(side, cmd, in, out), nil
}

func newProgram(side string, cmd *exec.Cmd, in io.WriteCloser, out io.Reader) *program {
	return &program{
		side: side, cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out)),
		measured: map[turn]int{}, labels: map[string]bool{},
	}
}

// next reads the program's next message.
func (p *program) next() error {
	var m message
	if err := p.out.Decode(&m); err != nil {
		return fmt.Errorf("the load program %s ended: %w", p.side, err)
	}
	p.waitingFor, p.finished, p.rows = turn{m.Wait, m.Round}, m.Wait == "", m.Rows
	return nil
}

// measure starts the round for which the program waits, as part of a pair, and returns
// when the program waits for the next round.
func (p *program) measure(pair int) error {
	p.measured[p.waitingFor], p.labels[p.waitingFor.label] = pair, true
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return fmt.Errorf("the load program %s: %w", p.side, err)
	}
	return p.next()
}

// stop waits until the program and its servers have ended. If the program has not sent
// its rows, stop ends it first: a program that waits for its turn ends when its input is
// closed, and a program that measures ends on SIGTERM.
func (p *program) stop() {
	if !p.finished {
		_ = p.in.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the program has ended
	}
	_ = p.cmd.Wait() // the rows are already read
}

// alternate runs the rounds of two programs alternately until both have sent their rows.
//
// Both programs measure the same rows in the same order, except for rows that only one
// of them has. Those rows are measured alone. If the program before waits for a row that
// the program after has already measured, the program before continues alone. Otherwise
// the program after continues alone, because its row may be new.
func alternate(before, after *program) error {
	if err := errors.Join(before.next(), after.next()); err != nil {
		return err
	}
	for pair := 0; !before.finished || !after.finished; pair++ {
		turns := []*program{before, after}
		switch {
		case before.finished:
			turns = []*program{after}
		case after.finished, before.waitingFor != after.waitingFor && after.labels[before.waitingFor.label]:
			turns = []*program{before}
		case before.waitingFor != after.waitingFor:
			turns = []*program{after}
		case pair%2 == 1:
			turns = []*program{after, before}
		}
		for _, p := range turns {
			if err := p.measure(pair); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairedLabels returns the labels whose rounds both programs measured in pairs.
func (p *program) pairedLabels(other *program) map[string]bool {
	paired := map[string]bool{}
	for t := range p.measured {
		paired[t.label] = true
	}
	for t, pair := range p.measured {
		if at, both := other.measured[t]; !both || at != pair {
			paired[t.label] = false
		}
	}
	return paired
}
