package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table. Its id is the id of a performance goal, for example C1. A
// row without an id has no goal and helps to explain other rows.
type row struct {
	id, what        string
	ours, yardstick string
	ratios          []float64
	goal            string
}

// compare adds a row that compares the service with its yardstick. It calls value to get
// the compared value of a sample, and format to print the value. yardstickName is printed
// after the value of the yardstick.
func (b *bench) compare(id, what, yardstickName, goal string, ours, theirs []sample, value func(sample) float64, format func(float64) string) {
	if b.turns != nil {
		b.turns.report(id, what, ours)
		return
	}
	b.table = append(b.table, row{
		id: id, what: what, goal: goal,
		ours:      format(median(each(ours, value))),
		yardstick: format(median(each(theirs, value))) + " " + yardstickName,
		ratios:    ratios(ours, theirs, value),
	})
}

func perSecond(v float64) string { return fmt.Sprintf("%.0f/s", v) }
func micros(v float64) string    { return fmt.Sprintf("%.1f µs", v/float64(time.Microsecond)) }
func millis(v float64) string    { return fmt.Sprintf("%.2f ms", v/float64(time.Millisecond)) }
func bytesEach(v float64) string { return fmt.Sprintf("%.0f B", v) }
func megabytes(v float64) string { return fmt.Sprintf("%.1f MB", v/(1<<20)) }

func printTable(out io.Writer, rows []row, machine string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	line("row", "what", "ours", "yardstick", "ratio", "lowest to highest", "goal")
	for _, r := range rows {
		line(r.id, r.what, r.ours, r.yardstick, fmt.Sprintf("%.2f", median(r.ratios)),
			fmt.Sprintf("%.2f to %.2f", slices.Min(r.ratios), slices.Max(r.ratios)), r.goal)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", machine)
	return err
}
