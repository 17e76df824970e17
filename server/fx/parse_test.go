package fx_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/server/fx"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"a rate a line": {
			"date,base,quote,rate\n2026-03-09,EUR,USD,1.0800\r\n2026-03-10,eur,jpy,160\n",
			"2026-03-09 EUR USD 1.08|2026-03-10 EUR JPY 160",
		},
		"spaces, quotes, a byte order mark": {
			"\ufeffDate, Base, Quote, Rate\n\"2026-03-09\", EUR , USD, 1.08",
			"2026-03-09 EUR USD 1.08",
		},
		"a date a line": {
			"Date,USD,JPY,CYP,GBP,\n2026-03-09,1.08,160,0.5,N/A,\n2008-01-02,1.47,,N/A,0.74,\n",
			"2026-03-09 EUR USD 1.08|2026-03-09 EUR JPY 160|2008-01-02 EUR USD 1.47|2008-01-02 EUR GBP 0.74",
		},
		"the European Central Bank's daily file": {
			"Date, USD, JPY, \n09 March 2026, 1.0800, 160.00, \n",
			"2026-03-09 EUR USD 1.08|2026-03-09 EUR JPY 160",
		},
		"both ways round": {
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
					t.Error(r.Date)
				}
				got = append(got, strings.Join([]string{r.Date.Format(time.DateOnly), r.Base, r.Quote, r.Rate}, " "))
			}
			if strings.Join(got, "|") != tc.want {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestFaultsNameTheirLine(t *testing.T) {
	const pairs, wide = "date,base,quote,rate\n2026-03-09,EUR,USD,1.08\n", "Date,USD,JPY\n2026-03-09,1.08,160\n"
	for name, tc := range map[string]struct{ file, want string }{
		"nothing":               {"", "it is empty"},
		"a header alone":        {"date,base,quote,rate\n", "there is no rate in it"},
		"cells without a rate":  {"Date,USD\n2026-03-09,N/A\n", "there is no rate in it"},
		"no header":             {"2026-03-09,EUR,USD,1.08\n", "line 1: the header is neither"},
		"another header":        {"date,base,quote,value\n", `line 1: "base" is no currency`},
		"an unknown column":     {"Date,USD,XAU\n", `line 1: "XAU" is no currency`},
		"an empty column":       {"Date,USD,,JPY\n", `line 1: "" is no currency`},
		"too few cells":         {pairs + "2026-03-10,EUR,USD\n", "line 3: it has 3 cells, the header 4"},
		"too many cells":        {wide + "2026-03-10,1,2,3\n", "line 3: it has 4 cells, the header 3"},
		"a quote that is open":  {pairs + "2026-03-10,\"EUR,USD,1\n", "line 3: extraneous or missing"},
		"an unknown base":       {pairs + "2026-03-10,EUX,USD,1\n", `line 3: "EUX" is no currency`},
		"an unknown quote":      {pairs + "2026-03-10,EUR,XAU,1\n", `line 3: "XAU" is no currency`},
		"to itself":             {pairs + "2026-03-10,EUR,EUR,1\n", "line 3: a rate from EUR to itself"},
		"the base as a column":  {"Date,USD,EUR\n2026-03-09,1,1\n", "line 2: a rate from EUR to itself"},
		"zero":                  {pairs + "2026-03-10,EUR,USD,0.0\n", `line 3: "0.0" is no positive decimal`},
		"negative":              {wide + "2026-03-10,1,-160\n", `line 3: "-160" is no positive decimal`},
		"a comma in it":         {pairs + "2026-03-10,EUR,USD,\"1,08\"\n", `line 3: "1,08" is no positive decimal`},
		"an empty rate":         {pairs + "2026-03-10,EUR,USD,\n", `line 3: "" is no positive decimal`},
		"no date":               {pairs + "2026-02-30,EUR,USD,1\n", `line 3: "2026-02-30" is no date`},
		"an American date":      {wide + "03/10/2026,1,1\n", `line 3: "03/10/2026" is no date`},
		"a time":                {pairs + "2026-03-10T00:00:00Z,EUR,USD,1\n", "is no date"},
		"twice":                 {pairs + "\n2026-03-09,eur,usd,1.08\n", "line 4: EUR to USD on 2026-03-09 stands on line 2 already"},
		"a date twice":          {wide + "2026-03-10,1,1\n2026-03-09,1.08,160\n", "line 4: EUR to USD on 2026-03-09 stands on line 2 already"},
		"the fault of its line": {wide + "2026-03-10,1,1\n2026-03-11,1,x\n2026-03-12,1,1\n", `line 4: "x" is no positive decimal`},
	} {
		t.Run(name, func(t *testing.T) {
			if rates, err := fx.Parse(strings.NewReader(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) || rates != nil {
				t.Errorf("%v, %v", rates, err)
			}
		})
	}
}
