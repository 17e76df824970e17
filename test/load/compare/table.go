package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// line is a line of the table.
type line struct {
	name string
	unit string
	// before and after are medians in nanoseconds.
	before, after float64
	estimate      estimate
	verdict       string
}

// compareRows compares rows with the same name. paired contains the labels of the rows
// whose rounds were measured in pairs.
func compareRows(before, after []row, paired map[string]bool) []line {
	var table []line
	for _, b := range before {
		i := slices.IndexFunc(after, func(a row) bool { return a.Name == b.Name })
		if i < 0 {
			table = append(table, line{name: b.Name, verdict: "only before"})
			continue
		}
		table = append(table, compareRow(b, after[i], paired[b.Label]))
	}
	for _, a := range after {
		if !slices.ContainsFunc(before, func(b row) bool { return b.Name == a.Name }) {
			table = append(table, line{name: a.Name, verdict: "only after"})
		}
	}
	return table
}

func compareRow(before, after row, paired bool) line {
	l := line{name: before.Name, unit: "a request"}
	b, a := before.CPU, after.CPU
	if !measured(b) || !measured(a) {
		l.unit, b, a = "a round", before.Spent, after.Spent
	}
	l.before, l.after, l.estimate = median(b), median(a), pairedRatio(b, a)
	if l.verdict = l.estimate.verdict(); !paired {
		l.verdict = notCompared
	}
	return l
}

// measured reports whether there are values other than zero.
func measured(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func printTable(to io.Writer, table []line) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tCPU\tbefore\tafter\tratio\t95 % interval\tverdict")
	for _, l := range table {
		cells := []string{l.name, "", "", "", "", "", l.verdict}
		if l.estimate.pairs > 0 {
			cells = []string{
				l.name, l.unit, duration(l.before), duration(l.after), fmt.Sprintf("%.3f", l.estimate.ratio),
				fmt.Sprintf("%.3f to %.3f", l.estimate.low, l.estimate.high), l.verdict,
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func duration(nanoseconds float64) string {
	if nanoseconds < float64(time.Millisecond) {
		return fmt.Sprintf("%.1f µs", nanoseconds/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.1f ms", nanoseconds/float64(time.Millisecond))
}

// failures returns an error if a row is worse, or if a row of both programs was not
// compared.
func failures(table []line) error {
	var bad []string
	for _, l := range table {
		if l.verdict == worse || l.verdict == notCompared {
			bad = append(bad, l.name+": "+l.verdict)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d rows fail:\n%s", len(bad), strings.Join(bad, "\n"))
	}
	return nil
}
