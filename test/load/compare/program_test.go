package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// scriptedProgram returns a program that behaves like a load program with two rounds for
// each row. It appends each round that it measures to order.
func scriptedProgram(t *testing.T, side string, rows []string, order *[]string) *program {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	t.Cleanup(func() { _, _ = in.Close(), read.Close() })
	go func() {
		turns, messages := bufio.NewReader(in), json.NewEncoder(out)
		m := message{Rows: []row{}}
		for _, label := range rows {
			for round := range 2 {
				if messages.Encode(map[string]any{"wait": label, "round": round}) != nil {
					return
				}
				if _, err := turns.ReadString('\n'); err != nil {
					return
				}
				*order = append(*order, side+" "+label+" "+strconv.Itoa(round))
			}
			m.Rows = append(m.Rows, row{Label: label, Name: "row " + label, CPU: []float64{1, 1}})
		}
		_ = messages.Encode(map[string]any{"rows": m.Rows})
	}()
	return newProgram(side, nil, write, read)
}

func TestAlternate(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after []string
		order         []string
		verdicts      map[string]string
	}{
		{
			name: "the same rows", before: []string{"x", "y"}, after: []string{"x", "y"},
			order:    []string{"b x 0", "a x 0", "a x 1", "b x 1", "b y 0", "a y 0", "a y 1", "b y 1"},
			verdicts: map[string]string{"row x": tooFew, "row y": tooFew},
		},
		{
			name: "a new row", before: []string{"x", "y"}, after: []string{"x", "new", "y"},
			order:    []string{"b x 0", "a x 0", "a x 1", "b x 1", "a new 0", "a new 1", "b y 0", "a y 0", "a y 1", "b y 1"},
			verdicts: map[string]string{"row x": tooFew, "row y": tooFew, "row new": "only after"},
		},
		{
			name: "rows in another order", before: []string{"x", "y", "z"}, after: []string{"y", "x", "z"},
			order:    []string{"a y 0", "a y 1", "b x 0", "a x 0", "a x 1", "b x 1", "b y 0", "b y 1", "b z 0", "a z 0", "a z 1", "b z 1"},
			verdicts: map[string]string{"row x": tooFew, "row y": notCompared, "row z": tooFew},
		},
		{
			name: "a removed row", before: []string{"x", "old", "y"}, after: []string{"x", "y"},
			order:    []string{"b x 0", "a x 0", "a x 1", "b x 1", "a y 0", "a y 1", "b old 0", "b old 1", "b y 0", "b y 1"},
			verdicts: map[string]string{"row x": tooFew, "row old": "only before", "row y": notCompared},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var order []string
			before, after := scriptedProgram(t, "b", test.before, &order), scriptedProgram(t, "a", test.after, &order)
			if err := alternate(before, after); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(order, test.order) {
				t.Errorf("alternate measured the rounds in the order %q, want %q", order, test.order)
			}
			table := compareRows(before.rows, after.rows, before.pairedLabels(after))
			for _, l := range table {
				if l.verdict != test.verdicts[l.name] {
					t.Errorf("the verdict on row %s is %s, want %s", l.name, l.verdict, test.verdicts[l.name])
				}
			}
			if len(table) != len(test.verdicts) {
				t.Errorf("the table has %d rows, want %d: %+v", len(table), len(test.verdicts), table)
			}
		})
	}
}

func TestAlternate_ReturnsErrorIfProgramHasEnded(t *testing.T) {
	read, out := io.Pipe()
	ended := newProgram("before", nil, nil, read)
	var order []string
	_ = out.Close()
	if err := alternate(ended, scriptedProgram(t, "a", []string{"x"}, &order)); err == nil {
		t.Error("alternate returned no error although a program has ended")
	}
}

func TestFailures(t *testing.T) {
	fast, slow := make([]float64, 15), make([]float64, 15)
	for i := range fast {
		fast[i], slow[i] = 100+float64(i%3), 120+float64(i%3)
	}
	paired := map[string]bool{"x": true}
	rows := func(values []float64) []row { return []row{{Label: "x", Name: "X", CPU: values}} }
	if err := failures(compareRows(rows(fast), rows(slow), paired)); err == nil {
		t.Error("failures returned no error although a row is 20 % slower")
	}
	if err := failures(compareRows(rows(slow), rows(fast), paired)); err != nil {
		t.Errorf("failures returned %v for a row that is faster", err)
	}
	if err := failures(compareRows(rows(fast), rows(fast), nil)); err == nil {
		t.Error("failures returned no error although a row was not compared")
	}
	// Rows without requests are compared by the CPU time of their rounds.
	round := func(values []float64) []row {
		return []row{{Label: "x", Name: "X", CPU: make([]float64, 15), Spent: values}}
	}
	if err := failures(compareRows(round(fast), round(slow), paired)); err == nil {
		t.Error("failures returned no error although the rounds of a row are 20 % slower")
	}
}

// A load program that waits for a round reads its input and ignores signals.
func TestStop_ClosesInputOfWaitingProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `trap '' TERM; echo '{"wait":"x"}'; read -r turn; exit 7`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := newProgram("before", cmd, in, out)
	if err := p.next(); err != nil {
		t.Fatal(err)
	}
	p.stop()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7: the program was killed", got)
	}
}
