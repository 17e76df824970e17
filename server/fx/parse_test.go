package fx_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/server/fx"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"one rate per line": {
			"date,base,quote,rate\n2026-03-09,EUR,USD,1.0800\r\n2026-03-10,eur,jpy,160\n",
			"2026-03-09 EUR USD 1.08|2026-03-10 EUR JPY 160",
		},
		"spaces, quotes and a byte order mark": {
			"\ufeffDate, Base, Quote, Rate\n\"2026-03-09\", EUR , USD, 1.08",
			"2026-03-09 EUR USD 1.08",
		},
		"one date per line": {
			"Date,USD,JPY,CYP,GBP,\n2026-03-09,1.08,160,0.5,N/A,\n2008-01-02,1.47,,N/A,0.74,\n",
			"2026-03-09 EUR USD 1.08|2026-03-09 EUR JPY 160|2008-01-02 EUR USD 1.47|2008-01-02 EUR GBP 0.74",
		},
		"the European Central Bank's daily file": {
			"Date, USD, JPY, \n09 March 2026, 1.0800, 160.00, \n",
			"2026-03-09 EUR USD 1.08|2026-03-09 EUR JPY 160",
		},
		"both directions": {
			"date,base,quote,rate\n2026-03-09,EUR,USD,1.08\n2026-03-09,USD,EUR,0.92\n",
			"2026-03-09 EUR USD 1.08|2026-03-09 USD EUR 0.92",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rates, err := fx.Parse(strings.NewReader(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rates {
				if r.Date.Location() != time.UTC {
					t.Errorf("Parse returned the date %v, want a date in UTC", r.Date)
				}
				got = append(got, strings.Join([]string{r.Date.Format(time.DateOnly), r.Base, r.Quote, r.Rate}, " "))
			}
			if got := strings.Join(got, "|"); got != tc.want {
				t.Errorf("Parse returned %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParse_ErrorsNameTheLine(t *testing.T) {
	const ratePerLine, datePerLine = "date,base,quote,rate\n2026-03-09,EUR,USD,1.08\n", "Date,USD,JPY\n2026-03-09,1.08,160\n"
	for name, tc := range map[string]struct{ file, want string }{
		"empty file":          {"", "the file is empty"},
		"only a header":       {"date,base,quote,rate\n", "the file has no rates"},
		"no cell has a rate":  {"Date,USD\n2026-03-09,N/A\n", "the file has no rates"},
		"missing header":      {"2026-03-09,EUR,USD,1.08\n", "line 1: the header is neither"},
		"unknown header":      {"date,base,quote,value\n", `line 1: "base" is not a currency`},
		"unknown column":      {"Date,USD,XAU\n", `line 1: "XAU" is not a currency`},
		"empty column":        {"Date,USD,,JPY\n", `line 1: "" is not a currency`},
		"too few cells":       {ratePerLine + "2026-03-10,EUR,USD\n", "line 3: the line has 3 cells, the header has 4"},
		"too many cells":      {datePerLine + "2026-03-10,1,2,3\n", "line 3: the line has 4 cells, the header has 3"},
		"unclosed quote":      {ratePerLine + "2026-03-10,\"EUR,USD,1\n", "line 3: extraneous or missing"},
		"unknown base":        {ratePerLine + "2026-03-10,EUX,USD,1\n", `line 3: "EUX" is not a currency`},
		"unknown quote":       {ratePerLine + "2026-03-10,EUR,XAU,1\n", `line 3: "XAU" is not a currency`},
		"same base and quote": {ratePerLine + "2026-03-10,EUR,EUR,1\n", "line 3: the rate is from EUR to itself"},
		"base as a column":    {"Date,USD,EUR\n2026-03-09,1,1\n", "line 2: the rate is from EUR to itself"},
		"zero":                {ratePerLine + "2026-03-10,EUR,USD,0.0\n", `line 3: "0.0" is not a positive decimal`},
		"negative":            {datePerLine + "2026-03-10,1,-160\n", `line 3: "-160" is not a positive decimal`},
		"decimal comma":       {ratePerLine + "2026-03-10,EUR,USD,\"1,08\"\n", `line 3: "1,08" is not a positive decimal`},
		"empty rate":          {ratePerLine + "2026-03-10,EUR,USD,\n", `line 3: "" is not a positive decimal`},
		"impossible date":     {ratePerLine + "2026-02-30,EUR,USD,1\n", `line 3: "2026-02-30" is not a date`},
		"American date":       {datePerLine + "03/10/2026,1,1\n", `line 3: "03/10/2026" is not a date`},
		"date with a time":    {ratePerLine + "2026-03-10T00:00:00Z,EUR,USD,1\n", "is not a date"},
		"duplicate rate":      {ratePerLine + "\n2026-03-09,eur,usd,1.08\n", "line 4: EUR to USD on 2026-03-09 is already on line 2"},
		"duplicate date":      {datePerLine + "2026-03-10,1,1\n2026-03-09,1.08,160\n", "line 4: EUR to USD on 2026-03-09 is already on line 2"},
		"error in the middle": {datePerLine + "2026-03-10,1,1\n2026-03-11,1,x\n2026-03-12,1,1\n", `line 4: "x" is not a positive decimal`},
	} {
		t.Run(name, func(t *testing.T) {
			if rates, err := fx.Parse(strings.NewReader(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) || rates != nil {
				t.Errorf("Parse returned %v and the error %v, want no rates and %s", rates, err, tc.want)
			}
		})
	}
}
