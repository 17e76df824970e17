// Command structure prints how large the packages and files of the checkout are, how they
// depend on each other, and how often a column is written by hand. Only source files are
// counted: hand-written Go files that are not tests. Harness code is the code that no
// released binary contains, see isHarness. Product code is the rest.
//
// It must run in the root of the checkout:
//
//	go run ./tools/structure         # print the numbers
//	go run ./tools/structure -list   # and the files, types and lists behind them
//	go run ./tools/structure -check  # fail if one of the limits is exceeded
//
// The limits are: at most 25 source files in a package, at most 400 lines in a file that
// is not a table, no circle of folders below affiliate, and at most 10 arrows back up
// between the files below affiliate.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
)

// The limits of -check.
const (
	maxPackageFiles = 25
	maxFileLines    = 400
	maxBackArrows   = 10
)

// number is a row of the table.
type number struct {
	title string
	value string
	limit int      // the check fails if there are more names; -1 means no limit
	names []string // of the counted files, types or lists
}

// counted returns a number without a limit.
func counted(title string, names []string) number { return limited(title, names, -1) }

func limited(title string, names []string, limit int) number {
	return number{title: title, value: strconv.Itoa(len(names)), limit: limit, names: names}
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("structure: ")
	check := flag.Bool("check", false, "fail if one of the limits is exceeded")
	list := flag.Bool("list", false, "print the names of the counted files, types and lists")
	flag.Parse()
	if err := run(os.Stdout, ".", *check, *list); err != nil {
		log.Fatal(err)
	}
}

// run writes the numbers of the checkout in root. With check it only computes the numbers
// that have a limit, and returns an error that lists the names above a limit.
func run(w io.Writer, root string, check, list bool) error {
	files, err := sourceFiles(os.DirFS(root))
	if err != nil {
		return err
	}
	patterns := []string{"./affiliate/..."}
	if !check {
		patterns = append(patterns, "./server/...", "./storage/...", "./cmd/...")
	}
	code, err := load(root, patterns...)
	if err != nil {
		return err
	}
	numbers := append(fileLimits(files), code.arrowLimits()...)
	if check {
		return exceeded(numbers)
	}
	numbers = append(numbers, code.interfaces()...)
	for _, table := range []string{"commissions", "participants", "payouts"} {
		n, err := columnPlaces(os.DirFS(root), table, files)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	numbers = append(numbers, sizes(files)...)
	numbers = append(numbers, code.exportedNames())
	return printTable(w, numbers, list)
}

// exceeded returns an error with the names of all numbers that are above their limits.
func exceeded(numbers []number) error {
	var errs []error
	for _, n := range numbers {
		if n.limit >= 0 && len(n.names) > n.limit {
			errs = append(errs, fmt.Errorf("%s: %d, at most %d allowed:\n\t%s", n.title, len(n.names), n.limit, strings.Join(n.names, "\n\t")))
		}
	}
	return errors.Join(errs...)
}

func printTable(w io.Writer, numbers []number, list bool) error {
	for _, n := range numbers {
		line := fmt.Sprintf("%-62s %-32s", n.title, n.value)
		if n.limit >= 0 {
			line += fmt.Sprintf(" at most %d", n.limit)
		}
		if list && len(n.names) > 0 {
			line = strings.TrimRight(line, " ") + "\n    " + strings.Join(n.names, "\n    ")
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}
