package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// turnsName is the environment variable that test/load/compare sets when it starts this
// program. Its value is the name of the program for messages, before or after. If it is
// set, this program prints no table. Before each round it waits until test/load/compare
// starts the round. At the end it reports the CPU time of each row by round.
const turnsName = "BENCH_TURNS"

// turns is the communication with test/load/compare. This program writes messages to
// standard output. It reads one line from standard input before each round.
type turns struct {
	side string
	in   *bufio.Reader
	out  *json.Encoder
	// labels maps the first sample of a side to the label under which the rounds of the
	// side were measured.
	labels map[*sample]string
	rows   []reportedRow
}

// message is a message to test/load/compare. It contains the round for which this program
// waits. The last message contains the rows.
type message struct {
	Wait  string        `json:"wait,omitempty"`
	Round int           `json:"round"`
	Rows  []reportedRow `json:"rows,omitempty"`
}

// reportedRow is a row of the table as test/load/compare reads it.
type reportedRow struct {
	// Label is the field Wait of the messages for the row's rounds.
	Label string `json:"label"`
	Name  string `json:"name"`
	// CPU is the CPU time per request in nanoseconds, by round. The values are 0 if the
	// row has no requests.
	CPU []float64 `json:"cpu"`
	// Spent is the CPU time of all processes of the service in nanoseconds, by round.
	Spent []float64 `json:"spent"`
}

// newTurns returns nil if this program was not started by test/load/compare.
func newTurns() *turns {
	side := os.Getenv(turnsName)
	if side == "" {
		return nil
	}
	return &turns{side: side, in: bufio.NewReader(os.Stdin), out: json.NewEncoder(os.Stdout), labels: map[*sample]string{}}
}

// wait waits until this program may measure the round.
func (t *turns) wait(label string, round int) error {
	if t == nil {
		return nil
	}
	if err := t.out.Encode(message{Wait: label, Round: round}); err != nil {
		return err
	}
	_, err := t.in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return errors.New("the comparison has ended")
	}
	return err
}

// keep stores the label under which the samples were measured.
func (t *turns) keep(label string, sides [][]sample) {
	if t == nil {
		return
	}
	for _, samples := range sides {
		t.labels[&samples[0]] = label
	}
}

// report adds a row unless an earlier row has the same samples.
func (t *turns) report(id, what string, ours []sample) {
	label, found := t.labels[&ours[0]]
	if !found {
		return
	}
	delete(t.labels, &ours[0])
	t.rows = append(t.rows, reportedRow{
		Label: label, Name: strings.TrimSpace(id + " " + strings.TrimSpace(what)), CPU: each(ours, cpu), Spent: each(ours, roundCPU),
	})
}

// end writes the rows.
func (t *turns) end() error { return t.out.Encode(message{Rows: t.rows}) }

// yardstick returns the side that measures a yardstick. If test/load/compare has started
// this program, only the service is measured, so yardstick returns a side that does
// nothing.
func (b *bench) yardstick(measure side) side {
	if b.turns == nil {
		return measure
	}
	return func(context.Context) (sample, error) { return sample{}, nil }
}

// services are the names of the processes whose CPU time belongs to the service.
var services = []string{"core", "collector", "gateway"}

// measureSide runs a side and adds the CPU time of the service's processes to the sample.
// If there is no such process, the service runs in this process, so measureSide adds the
// CPU time of this process.
func measureSide(ctx context.Context, s side) (sample, error) {
	own, children, err := cpuTimes()
	if err != nil {
		return sample{}, err
	}
	got, err := s(ctx)
	if err != nil {
		return sample{}, err
	}
	ownAfter, childrenAfter, err := cpuTimes()
	if got.roundCPU = childrenAfter - children; got.roundCPU == 0 {
		got.roundCPU = ownAfter - own
	}
	return got, err
}

// cpuTimes returns two CPU times. own is the CPU time of this process. children is the
// CPU time of the running processes of the service and of all children that have exited.
func cpuTimes() (own, children time.Duration, err error) {
	var usage syscall.Rusage
	total := func(who int) (time.Duration, error) {
		err := syscall.Getrusage(who, &usage)
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
	}
	if own, err = total(syscall.RUSAGE_SELF); err != nil {
		return 0, 0, err
	}
	if children, err = total(syscall.RUSAGE_CHILDREN); err != nil {
		return 0, 0, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isService(pid) {
			continue
		}
		if running, err := cpuTime(pid); err == nil { // an error means that the process has ended
			children += running
		}
	}
	return own, children, nil
}

// isService reports whether a process is a child of this one and part of the service.
func isService(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false // the process has ended
	}
	// The format is: pid (name) state parent ...
	name, rest, _ := strings.Cut(string(text), ") ")
	_, name, _ = strings.Cut(name, "(")
	fields := strings.Fields(rest)
	return len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && slices.Contains(services, name)
}
