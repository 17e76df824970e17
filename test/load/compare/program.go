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
	// turnsFile is in every load program that takes turns.
	turnsFile   = loadFolder + "/turns.go"
	stopTimeout = time.Minute
)

// overlay are the present files that make an older load program take turns. They
// depend on the rest of the program by few names. commissions.go measures, but in a
// random order before.
var overlay = []string{turnsFile, loadFolder + "/main.go", loadFolder + "/round.go", loadFolder + "/table.go", loadFolder + "/commissions.go"}

// prepare extracts a commit into source, with a load program that takes turns.
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

// message and row are what test/load writes (turns.go there).
type message struct {
	Wait  string
	Round int
	Rows  []row
}

type row struct {
	Label, Name string
	CPU, Spent  []float64
}

// program is a running load program beside its servers.
type program struct {
	side string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	// waits is the round that it waits for; finished: it has reported its rows.
	waits    turn
	finished bool
	rows     []row
	// measured holds when each round was measured, as the number of its pair.
	measured map[turn]int
	labels   map[string]bool
}

// turn is a round of a row.
type turn struct {
	label string
	round int
}

// start builds the load program of the module in source and starts it beside servers
// of its own.
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
	// Ctrl-C reaches the program through us, once.
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
	p.waits, p.finished, p.rows = turn{m.Wait, m.Round}, m.Wait == "", m.Rows
	return nil
}

// measure lets the program measure the round that it waits for, as part of a pair, and
// returns when it waits for the next.
func (p *program) measure(pair int) error {
	p.measured[p.waits], p.labels[p.waits.label] = pair, true
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return fmt.Errorf("the load program %s: %w", p.side, err)
	}
	return p.next()
}

// stop waits for the end of the program and its servers, and ends them if the program
// has not reported its rows. A program that waits for its turn ends when its input is
// closed, and a program that measures ends on SIGTERM.
func (p *program) stop() {
	if !p.finished {
		_ = p.in.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	}
	_ = p.cmd.Wait() // the rows were read before
}

// alternate lets two programs measure in turn until both have reported their rows.
//
// Both measure the same rows in the same order, except for those that only one has.
// Such a row is measured alone: a program that waits for a row which the other has
// measured is behind, otherwise the program after is ahead with a row that is new.
func alternate(before, after *program) error {
	if err := errors.Join(before.next(), after.next()); err != nil {
		return err
	}
	for pair := 0; !before.finished || !after.finished; pair++ {
		turns := []*program{before, after}
		switch {
		case before.finished:
			turns = []*program{after}
		case after.finished, before.waits != after.waits && after.labels[before.waits.label]:
			turns = []*program{before}
		case before.waits != after.waits:
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

// inStep returns the labels whose rounds both programs measured in pairs.
func (p *program) inStep(other *program) map[string]bool {
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
