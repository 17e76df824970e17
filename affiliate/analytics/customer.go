package analytics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Totals has a number of conversions, and their revenue and commissions in minor units.
type Totals struct {
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64 // commissions that are pending, approved or paid
}

func (t Totals) plus(other Totals) Totals {
	return Totals{t.Conversions + other.Conversions, t.RevenueCents + other.RevenueCents, t.CommissionCents + other.CommissionCents}
}

func (t Totals) negated() Totals { return Totals{-t.Conversions, -t.RevenueCents, -t.CommissionCents} }

// Activity has the sums of a customer's attributed conversions by owner, month and currency.
type Activity map[ActivityKey]Totals //nolint:recvcheck // only ScanBytes needs a pointer

// ActivityKey is the key of an entry of Activity. An entry without a currency has the number of
// conversions. An entry with a currency has the amounts in it.
type ActivityKey struct {
	Owner
	Month    Month
	Currency string
}

// Add adds a conversion to a month; sign is 1, or -1 to subtract it.
func (a Activity) Add(c *Conversion, month Month, sign int64) {
	figures := c.Figures()
	add := func(currency string, counts Counts) {
		totals := Totals{counts[Conversions], counts[RevenueCents], counts[CommissionCents]}
		if sign < 0 {
			totals = totals.negated()
		}
		key := ActivityKey{c.Owner, month, currency}
		if sum := a[key].plus(totals); sum == (Totals{}) {
			delete(a, key)
		} else {
			a[key] = sum
		}
	}
	add("", figures.Plain)
	for currency, counts := range figures.Amounts {
		add(currency, counts)
	}
}

// Customer is a customer with attributed conversions.
type Customer struct {
	Ref string `db:"customer_ref,fixed"`
	// First is the id of the customer's first attributed conversion; zero if there is
	// none.
	First   affiliate.ConversionID `db:"conversion_id"`
	FirstAt time.Time              // UTC
	Owner                          // of the first conversion
	// Activity holds all attributed conversions by their months in UTC.
	Activity Activity
}

// BytesValue returns the stored form: the entries in any order. The numbers are varints.
func (a Activity) BytesValue() ([]byte, error) {
	b := make([]byte, 0, len(a)*60)
	for key, totals := range a {
		for _, id := range [][16]byte{key.Program.UUID, key.Participant.UUID, key.Link.UUID} {
			b = append(b, id[:]...)
		}
		b = binary.AppendVarint(b, int64(key.Month))
		b = append(append(b, byte(len(key.Currency))), key.Currency...)
		for _, n := range []int64{totals.Conversions, totals.RevenueCents, totals.CommissionCents} {
			b = binary.AppendVarint(b, n)
		}
	}
	return b, nil
}

var errActivity = errors.New("analytics: invalid activity of a customer")

// ScanBytes is the opposite of BytesValue.
func (a *Activity) ScanBytes(b []byte) error {
	*a = Activity{}
	r := logReader{rest: b}
	for len(r.rest) > 0 {
		key := ActivityKey{Owner: r.owner(), Month: Month(r.varint()), Currency: r.text()} //nolint:gosec // as encoded
		(*a)[key] = Totals{r.varint(), r.varint(), r.varint()}
	}
	if r.failed {
		return errActivity
	}
	return nil
}

// Month is a month: the number of months since January 1970.
type Month int32 //nolint:recvcheck // only Scan needs a pointer

// MonthOf returns the month of t in the location of t.
func MonthOf(t time.Time) Month { return Month((t.Year()-1970)*12 + int(t.Month()) - 1) } //nolint:gosec // a few thousand months

// Time returns the first instant of the month in UTC.
func (m Month) Time() time.Time {
	return time.Date(1970, time.January+time.Month(m), 1, 0, 0, 0, 0, time.UTC)
}

// Scan reads a month that is stored as its first day.
func (m *Month) Scan(stored any) error {
	date, ok := stored.(time.Time)
	*m = MonthOf(date)
	if !ok {
		return fmt.Errorf("analytics: a month is stored as %T", stored)
	}
	return nil
}
