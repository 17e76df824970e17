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
	"github.com/tributary-hq/tributary/affiliate/attribution"
)

// ecbBase is the base currency of all rates of the European Central Bank.
const ecbBase = "EUR"

// formerCurrencies are currencies that no longer exist. The historical files of the
// European Central Bank have columns for these currencies.
var formerCurrencies = []string{"BGN", "CYP", "EEK", "HRK", "LTL", "LVL", "MTL", "ROL", "SIT", "SKK", "TRL"}

// Parse reads rates from a comma-separated file. The header line determines which of two
// formats the file has:
//
//	date,base,quote,rate          Each line has one rate.
//	Date,USD,JPY,…                Each line has the rates of the euro to all currencies
//	                              on one date. The European Central Bank publishes
//	                              files in this format.
//
// A date has the form YYYY-MM-DD. In the second format, the form 2 January 2006 is
// accepted too. Parse skips cells of the second format that are empty or N/A, and columns
// of currencies that no longer exist. If any other cell is invalid, or if the file has
// two rates for the same currencies and date, Parse returns an error with the line
// number.
func Parse(r io.Reader) ([]attribution.FXRate, error) {
	p := parser{csv: csv.NewReader(r), seen: map[attribution.FXRate]int{}}
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

// parser holds the state of Parse.
type parser struct {
	csv     *csv.Reader
	columns []string // in the second format: the currency of each column, or "" for a skipped column
	rates   []attribution.FXRate
	// seen maps the currencies and the date of each rate to the rate's line number. The
	// field Rate of the keys is empty.
	seen map[attribution.FXRate]int
}

// next reads one line. It removes leading and trailing spaces from the cells.
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

// readHeader returns the currency of each column in the header of the second format.
func (p *parser) readHeader(header []string) ([]string, error) {
	columns := make([]string, len(header))
	for i, cell := range header[1:] {
		code, ok := affiliate.ParseCurrency(cell)
		switch {
		case ok:
			columns[i+1] = code
		case cell == "" && i+2 == len(header): // in some files each line ends with a comma
		case !slices.Contains(formerCurrencies, strings.ToUpper(cell)):
			return nil, p.lineError("%q is not a currency", cell)
		}
	}
	return columns, nil
}

// readPair reads a line of the first format, which has the rate of one currency pair.
func (p *parser) readPair(cells []string) error {
	date, err := time.Parse(time.DateOnly, cells[0])
	if err != nil {
		return p.lineError("%q is not a date", cells[0])
	}
	return p.add(date, cells[1], cells[2], cells[3])
}

// readDay reads a line of the second format, which has the rates of one day.
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
	key := attribution.FXRate{Date: date}
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
	if key.Rate, ok = attribution.ParseRate(rate); !ok {
		return p.lineError("%q is not a positive decimal", rate)
	}
	p.rates = append(p.rates, key)
	return nil
}
