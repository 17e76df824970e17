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
	// turnsFile exists in every load program that can wait before its rounds.
	turnsFile   = loadFolder + "/turns.go"
	stopTimeout = time.Minute
)

// overlay contains the current files that replace files of an older load program, so that
// the older program waits before each round. These files use only a few names of the
// other files. commissions.go also measures, but it must be replaced because its older
// versions measured the rows in random order.
var overlay = []string{turnsFile, loadFolder + "/main.go", loadFolder + "/round.go", loadFolder + "/table.go", loadFolder + "/commissions.go"}

// prepare extracts a commit into source. If necessary, it replaces files of the load
// program with the overlay.
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

// message and row have the format of the messages of the load program
// (test/load/turns.go).
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
	// waitingFor is the round for which the program waits. finished reports that the
	// program has sent its rows.
	waitingFor turn
	finished   bool
	rows       []row
	// measured maps each round that was measured to the number of its pair. labels
	// contains the labels of these rounds.
	measured map[turn]int
	labels   map[string]bool
}

// turn identifies a round of a row.
type turn struct {
	label string
	round int
}

// start builds the load program in the folder source and starts the program with its own
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
	// The program has its own process group. Otherwise it would get Ctrl-C twice: from
	// the terminal and from this process.
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
		return fmt.Errorf("the load program %s has ended: %w", p.side, err)
	}
	p.waitingFor, p.finished, p.rows = turn{m.Wait, m.Round}, m.Wait == "", m.Rows
	return nil
}

// measure starts the round for which the program waits. It returns when the program waits
// for the next round. pair is the number of the round's pair.
func (p *program) measure(pair int) error {
	p.measured[p.waitingFor], p.labels[p.waitingFor.label] = pair, true
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return fmt.Errorf("the load program %s: %w", p.side, err)
	}
	return p.next()
}

// stop waits until the program and its servers have exited. If the program has not sent
// its rows, stop makes it exit: a program that waits for a round exits when its input is
// closed, and a program that measures exits on SIGTERM.
func (p *program) stop() {
	if !p.finished {
		_ = p.in.Close()
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the program has exited
	}
	_ = p.cmd.Wait() // the rows are already read
}

// alternate runs the rounds of two programs alternately until both have sent their rows.
//
// Both programs measure the same rows in the same order, except for rows that only one of
// them has. Only that program measures them. If the two programs wait for different rows,
// alternate must choose the program that continues. If the second program (after) has
// already measured the row for which the first program (before) waits, the first program
// continues. Otherwise the second program continues, because its row may be new.
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

// pairedLabels returns the labels of the rows whose rounds were all measured in pairs by
// both programs.
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
