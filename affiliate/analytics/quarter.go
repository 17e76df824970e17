package analytics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	quarterLength  = 15 * time.Minute
	quartersPerDay = 96
)

// Quarter is a quarter of an hour: the number of quarters since 1970-01-01T00:00:00Z.
type Quarter int64

// QuarterOf returns the quarter that contains t.
func QuarterOf(t time.Time) Quarter {
	seconds, length := t.Unix(), int64(quarterLength/time.Second)
	quarter := seconds / length
	if seconds%length < 0 {
		quarter--
	}
	return Quarter(quarter)
}

// QuarterFrom returns the first quarter that begins at t or later.
func QuarterFrom(t time.Time) Quarter {
	quarter := QuarterOf(t)
	if quarter.Time().Before(t) {
		quarter++
	}
	return quarter
}

// Time returns the first instant of the quarter, in UTC.
func (q Quarter) Time() time.Time {
	return time.Unix(int64(q)*int64(quarterLength/time.Second), 0).UTC()
}

// Day returns the UTC day that contains the quarter.
func (q Quarter) Day() Day {
	day := q / quartersPerDay
	if q%quartersPerDay < 0 {
		day--
	}
	return Day(day)
}

// Day is a UTC day: the number of days since 1970-01-01.
type Day int32 //nolint:recvcheck // only Scan needs a pointer

// DayOf returns the day that contains t.
func DayOf(t time.Time) Day { return QuarterOf(t).Day() }

// First returns the first quarter of the day.
func (d Day) First() Quarter { return Quarter(d) * quartersPerDay }

// Time returns the first instant of the day, in UTC.
func (d Day) Time() time.Time { return d.First().Time() }

// Scan reads a day that is stored as a date.
func (d *Day) Scan(stored any) error {
	date, ok := stored.(time.Time)
	*d = DayOf(date)
	if !ok {
		return fmt.Errorf("analytics: a day is stored as %T", stored)
	}
	return nil
}

func (d Day) String() string { return d.Time().Format(time.DateOnly) }

// Quarters holds the counts of the quarters of one day, in order, without quarters whose counts are all zero.
type Quarters []QuarterCounts //nolint:recvcheck // BytesValue needs a value

// QuarterCounts holds the counts of one quarter.
type QuarterCounts struct {
	Index  uint8 // 0 is the first quarter of the day
	Counts Counts
}

// Add adds counts to the counts of the quarter with the given index.
func (q *Quarters) Add(index uint8, counts Counts) {
	at, found := slices.BinarySearchFunc(*q, index, func(c QuarterCounts, index uint8) int { return int(c.Index) - int(index) })
	if !found {
		if counts != (Counts{}) {
			*q = slices.Insert(*q, at, QuarterCounts{index, counts})
		}
		return
	}
	if sum := (*q)[at].Counts.Plus(counts); sum != (Counts{}) {
		(*q)[at].Counts = sum
	} else {
		*q = slices.Delete(*q, at, at+1)
	}
}

// Total returns the sum of all quarters.
func (q *Quarters) Total() Counts {
	var total Counts
	for _, quarter := range *q {
		total = total.Plus(quarter.Counts)
	}
	return total
}

// BytesValue returns the stored form. Each quarter consists of its index, a bit set of the
// counts that are not zero, and these counts. The bit set and the counts are varints.
func (q Quarters) BytesValue() ([]byte, error) {
	b := make([]byte, 0, len(q)*5)
	for _, quarter := range q {
		b = append(b, quarter.Index)
		var present uint64
		for i, n := range quarter.Counts {
			if n != 0 {
				present |= 1 << i
			}
		}
		b = binary.AppendUvarint(b, present)
		for _, n := range quarter.Counts {
			if n != 0 {
				b = binary.AppendVarint(b, n)
			}
		}
	}
	return b, nil
}

var errQuarters = errors.New("analytics: invalid quarters of a day")

// ScanBytes reads the form that BytesValue returns.
func (q *Quarters) ScanBytes(b []byte) error {
	*q = nil
	for len(b) > 0 {
		quarter := QuarterCounts{Index: b[0]}
		present, n := binary.Uvarint(b[1:])
		if n <= 0 || quarter.Index >= quartersPerDay || present >= 1<<countsLen {
			return errQuarters
		}
		b = b[1+n:]
		for i := range quarter.Counts {
			if present&(1<<i) == 0 {
				continue
			}
			count, n := binary.Varint(b)
			if n <= 0 {
				return errQuarters
			}
			quarter.Counts[i], b = count, b[n:]
		}
		*q = append(*q, quarter)
	}
	return nil
}

// Counts holds the numbers of a sum. All numbers can be added up. In a change of a sum, they can be
// negative. Amounts are in minor units of the currency of the sum. A sum without a currency
// contains the numbers before Orders, a sum with a currency contains Orders and the amounts.
type Counts [countsLen]int64

// The indexes of Counts. Their order is part of the format of stored sums.
const (
	Clicks       = iota // clicks, without those of bots
	UniqueClicks        // first clicks of their visitors in 24 hours
	BotClicks           // clicks of bots
	Conversions         // conversions of all event types
	Signups             // conversions of the types signup and lead
	NewCustomers        // first attributed conversions of their customers, and attributed conversions without a customer
	Approved            // conversions whose commission is approved or paid
	Paid                // conversions whose commission is paid

	Orders          // conversions of the types purchase and renewal
	RevenueCents    // amounts of the Orders, before refunds
	RefundedCents   // refunded part of RevenueCents
	CommissionCents // commissions that are pending, approved or paid

	countsLen
)

// Plus returns the sums of the numbers of c and other.
func (c Counts) Plus(other Counts) Counts {
	for i, n := range other {
		c[i] += n
	}
	return c
}

// Negated returns the counts with the opposite sign.
func (c Counts) Negated() Counts {
	for i := range c {
		c[i] = -c[i]
	}
	return c
}
