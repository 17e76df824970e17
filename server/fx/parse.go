package fx

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// ecbBase is what the rates of the European Central Bank are per unit of.
const ecbBase = "EUR"

// withdrawn are currencies that the European Central Bank's files of the past
// have a column for, and that nobody is charged in any more.
var withdrawn = []string{"BGN", "CYP", "EEK", "HRK", "LTL", "LVL", "MTL", "ROL", "SIT", "SKK", "TRL"}

// Parse reads a file of rates in one of two forms, with a comma between cells:
//
//	date,base,quote,rate          one rate a line
//	Date,USD,JPY,…                one date a line, all rates per euro, as the
//	                              European Central Bank publishes them
//
// A date is YYYY-MM-DD, in the second form also 2 January 2006. There an empty
// cell or N/A is no rate, and columns of withdrawn currencies are passed over.
// Everything else that cannot be a rate is an error that names its line, and so
// is a second rate of one pair and date.
func Parse(r io.Reader) ([]affiliate.FXRate, error) {
	f := file{csv: csv.NewReader(r), seen: map[affiliate.FXRate]int{}}
	f.csv.FieldsPerRecord = -1
	f.csv.TrimLeadingSpace = true
	header, err := f.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	width, read := len(header), f.pair
	switch {
	case strings.EqualFold(strings.Join(header, ","), "date,base,quote,rate"):
	case strings.EqualFold(header[0], "date") && width > 1:
		if f.columns, err = f.currencies(header); err != nil {
			return nil, err
		}
		read = f.day
	default:
		return nil, f.fault("the header is neither date,base,quote,rate nor Date and currencies")
	}
	for {
		cells, err := f.next()
		switch {
		case errors.Is(err, io.EOF) && len(f.rates) == 0:
			return nil, errors.New("there is no rate in it")
		case errors.Is(err, io.EOF):
			return f.rates, nil
		case err != nil:
			return nil, err
		case len(cells) != width:
			return nil, f.fault("it has %d cells, the header %d", len(cells), width)
		}
		if err := read(cells); err != nil {
			return nil, err
		}
	}
}

// file is a file under way.
type file struct {
	csv     *csv.Reader
	columns []string // currencies of the second form, empty where there is none
	rates   []affiliate.FXRate
	// seen has the line of each pair and date; its keys have no rate.
	seen map[affiliate.FXRate]int
}

func (f *file) next() ([]string, error) {
	cells, err := f.csv.Read()
	var malformed *csv.ParseError
	if errors.As(err, &malformed) {
		return nil, fmt.Errorf("line %d: %w", malformed.Line, malformed.Err)
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, err
}

func (f *file) line() int {
	line, _ := f.csv.FieldPos(0)
	return line
}

func (f *file) fault(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{f.line()}, args...)...)
}

func (f *file) currencies(header []string) ([]string, error) {
	columns := make([]string, len(header))
	for i, cell := range header[1:] {
		code, ok := affiliate.ParseCurrency(cell)
		switch {
		case ok:
			columns[i+1] = code
		case cell == "" && i+2 == len(header): // lines end with a comma
		case !slices.Contains(withdrawn, strings.ToUpper(cell)):
			return nil, f.fault("%q is no currency", cell)
		}
	}
	return columns, nil
}

// pair reads a line of the first form.
func (f *file) pair(cells []string) error {
	date, err := time.Parse(time.DateOnly, cells[0])
	if err != nil {
		return f.fault("%q is no date", cells[0])
	}
	return f.add(date, cells[1], cells[2], cells[3])
}

// day reads a line of the second form.
func (f *file) day(cells []string) error {
	date, err := time.Parse(time.DateOnly, cells[0])
	if err != nil {
		date, err = time.Parse("2 January 2006", cells[0])
	}
	if err != nil {
		return f.fault("%q is no date", cells[0])
	}
	for i, quote := range f.columns {
		if quote == "" || cells[i] == "" || strings.EqualFold(cells[i], "N/A") {
			continue
		}
		if err := f.add(date, ecbBase, quote, cells[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) add(date time.Time, base, quote, rate string) error {
	key := affiliate.FXRate{Date: date}
	var ok bool
	if key.Base, ok = affiliate.ParseCurrency(base); !ok {
		return f.fault("%q is no currency", base)
	}
	if key.Quote, ok = affiliate.ParseCurrency(quote); !ok {
		return f.fault("%q is no currency", quote)
	}
	if key.Base == key.Quote {
		return f.fault("a rate from %s to itself", key.Base)
	}
	if first, again := f.seen[key]; again {
		return f.fault("%s to %s on %s stands on line %d already", key.Base, key.Quote, date.Format(time.DateOnly), first)
	}
	f.seen[key] = f.line()
	if key.Rate, ok = affiliate.ParseRate(rate); !ok {
		return f.fault("%q is no positive decimal", rate)
	}
	f.rates = append(f.rates, key)
	return nil
}
