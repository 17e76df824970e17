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

// ecbBase is the base currency of all rates of the European Central Bank.
const ecbBase = "EUR"

// formerCurrencies are currencies that no longer exist. The historical files of the
// European Central Bank have columns for them.
var formerCurrencies = []string{"BGN", "CYP", "EEK", "HRK", "LTL", "LVL", "MTL", "ROL", "SIT", "SKK", "TRL"}

// Parse reads rates from a comma-separated file. The header selects one of two forms:
//
//	date,base,quote,rate          each line has one rate
//	Date,USD,JPY,…                each line has all rates of one date, per euro; the
//	                              European Central Bank publishes this form
//
// A date has the form YYYY-MM-DD, in the second form also 2 January 2006. In the second
// form, cells that are empty or N/A are skipped, and so are the columns of currencies
// that no longer exist. Every other cell must be valid, and no pair and date may have
// two rates; otherwise Parse returns an error with the line number.
func Parse(r io.Reader) ([]affiliate.FXRate, error) {
	p := parser{csv: csv.NewReader(r), seen: map[affiliate.FXRate]int{}}
	p.csv.FieldsPerRecord = -1
	p.csv.TrimLeadingSpace = true
	header, err := p.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	width, read := len(header), p.readPair
	switch {
	case strings.EqualFold(strings.Join(header, ","), "date,base,quote,rate"):
	case strings.EqualFold(header[0], "date") && width > 1:
		if p.columns, err = p.readHeader(header); err != nil {
			return nil, err
		}
		read = p.readDay
	default:
		return nil, p.lineError("the header is neither date,base,quote,rate nor Date followed by currencies")
	}
	for {
		cells, err := p.next()
		switch {
		case errors.Is(err, io.EOF) && len(p.rates) == 0:
			return nil, errors.New("the file has no rates")
		case errors.Is(err, io.EOF):
			return p.rates, nil
		case err != nil:
			return nil, err
		case len(cells) != width:
			return nil, p.lineError("the line has %d cells, the header has %d", len(cells), width)
		}
		if err := read(cells); err != nil {
			return nil, err
		}
	}
}

// parser holds the state of reading one file.
type parser struct {
	csv     *csv.Reader
	columns []string // second form: the currency of each column, or "" for a skipped column
	rates   []affiliate.FXRate
	// seen maps each pair and date to its line. The Rate of its keys is empty.
	seen map[affiliate.FXRate]int
}

// next reads one line and removes the spaces around its cells.
func (p *parser) next() ([]string, error) {
	cells, err := p.csv.Read()
	var malformed *csv.ParseError
	if errors.As(err, &malformed) {
		return nil, fmt.Errorf("line %d: %w", malformed.Line, malformed.Err)
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, err
}

func (p *parser) line() int {
	line, _ := p.csv.FieldPos(0)
	return line
}

func (p *parser) lineError(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{p.line()}, args...)...)
}

// readHeader returns the currency of each column of a header of the second form.
func (p *parser) readHeader(header []string) ([]string, error) {
	columns := make([]string, len(header))
	for i, cell := range header[1:] {
		code, ok := affiliate.ParseCurrency(cell)
		switch {
		case ok:
			columns[i+1] = code
		case cell == "" && i+2 == len(header): // each line ends with a comma
		case !slices.Contains(formerCurrencies, strings.ToUpper(cell)):
			return nil, p.lineError("%q is not a currency", cell)
		}
	}
	return columns, nil
}

// readPair reads a line of the first form.
func (p *parser) readPair(cells []string) error {
	date, err := time.Parse(time.DateOnly, cells[0])
	if err != nil {
		return p.lineError("%q is not a date", cells[0])
	}
	return p.add(date, cells[1], cells[2], cells[3])
}

// readDay reads a line of the second form.
func (p *parser) readDay(cells []string) error {
	date, err := time.Parse(time.DateOnly, cells[0])
	if err != nil {
		date, err = time.Parse("2 January 2006", cells[0])
	}
	if err != nil {
		return p.lineError("%q is not a date", cells[0])
	}
	for i, quote := range p.columns {
		if quote == "" || cells[i] == "" || strings.EqualFold(cells[i], "N/A") {
			continue
		}
		if err := p.add(date, ecbBase, quote, cells[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) add(date time.Time, base, quote, rate string) error {
	key := affiliate.FXRate{Date: date}
	var ok bool
	if key.Base, ok = affiliate.ParseCurrency(base); !ok {
		return p.lineError("%q is not a currency", base)
	}
	if key.Quote, ok = affiliate.ParseCurrency(quote); !ok {
		return p.lineError("%q is not a currency", quote)
	}
	if key.Base == key.Quote {
		return p.lineError("the rate is from %s to itself", key.Base)
	}
	if first, duplicate := p.seen[key]; duplicate {
		return p.lineError("%s to %s on %s is already on line %d", key.Base, key.Quote, date.Format(time.DateOnly), first)
	}
	p.seen[key] = p.line()
	if key.Rate, ok = affiliate.ParseRate(rate); !ok {
		return p.lineError("%q is not a positive decimal", rate)
	}
	p.rates = append(p.rates, key)
	return nil
}
