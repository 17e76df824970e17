package conversion

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func conversionOf(paid int64) Conversion {
	return Conversion{Sale: attribution.Sale{Money: affiliate.Money{Cents: paid, Currency: "EUR"}}, Status: Recorded, Version: 1}
}

// percentageCommission returns a new commission of bps basis points of base.
func percentageCommission(base, bps int64) commission.Commission {
	c := commission.Commission{
		Type: program.Percentage, RateBps: &bps, BaseAmountCents: base, Currency: "EUR", SaleCurrency: "EUR", Status: commission.Pending, Version: 1,
	}
	c.AmountCents = affiliate.Share(base, bps)
	c.OriginalAmountCents = c.AmountCents
	return c
}

func TestConversion_Refund(t *testing.T) {
	type step struct {
		requested  *int64
		refunded   int64
		total      int64
		status     Status
		refundable string // refundable_cents of the error; empty if the refund succeeds
	}
	for name, tc := range map[string]struct {
		paid  int64
		steps []step
	}{
		"in parts": {100, []step{
			{new(int64(30)), 30, 30, PartiallyRefunded, ""},
			{new(int64(71)), 0, 30, PartiallyRefunded, "70"},
			{new(int64(70)), 70, 100, Refunded, ""},
			{new(int64(1)), 0, 100, Refunded, "0"},
			{nil, 0, 100, Refunded, "0"},
		}},
		"remaining amount":   {100, []step{{new(int64(40)), 40, 40, PartiallyRefunded, ""}, {nil, 60, 100, Refunded, ""}}},
		"all at once":        {100, []step{{nil, 100, 100, Refunded, ""}}},
		"more than was paid": {100, []step{{new(int64(101)), 0, 0, Recorded, "100"}}},
		"without an amount":  {0, []step{{new(int64(1)), 0, 0, Recorded, "0"}, {nil, 0, 0, Refunded, ""}, {nil, 0, 0, Refunded, "0"}}},
	} {
		c := conversionOf(tc.paid)
		for i, want := range tc.steps {
			after, refunded, refusal := c.Refund(want.requested)
			if want.refundable != "" {
				if !errors.Is(refusal, affiliate.Refuse(affiliate.ReasonRefundExceedsAmount)) || refusal.Metadata["refundable_cents"] != want.refundable || after.Version != c.Version {
					t.Errorf("%s, refund %d: error %v, version %d; want %s with refundable_cents %s, and version %d",
						name, i, refusal, after.Version, affiliate.ReasonRefundExceedsAmount, want.refundable, c.Version)
				}
			} else if refusal != nil || after.Version != c.Version+1 {
				t.Errorf("%s, refund %d: error %v, version %d; want version %d", name, i, refusal, after.Version, c.Version+1)
			}
			if c = after; refunded != want.refunded || c.RefundedAmountCents != want.total || c.Status != want.status {
				t.Errorf("%s, refund %d: refunded %d, total %d, status %s; want %d, %d, %s",
					name, i, refunded, c.RefundedAmountCents, c.Status, want.refunded, want.total, want.status)
			}
		}
	}
}

func TestConversion_RefundParked(t *testing.T) {
	c := conversionOf(100)
	for i, want := range []struct {
		requested *int64
		refunded  int64
		version   int
	}{{new(int64(80)), 80, 2}, {new(int64(30)), 20, 3}, {new(int64(10)), 0, 3}, {nil, 0, 3}} {
		after, refunded := c.RefundParked(want.requested)
		if c = after; refunded != want.refunded || c.Version != want.version {
			t.Errorf("refund %d: refunded %d, version %d; want %d, %d", i, refunded, c.Version, want.refunded, want.version)
		}
	}
	if lead, refunded := conversionOf(0).RefundParked(new(int64(10))); refunded != 0 || lead.Status != Refunded {
		t.Errorf("refund of a lead without amount: refunded %d, status %s; want 0, %s", refunded, lead.Status, Refunded)
	}
}

func TestCommission_AfterRefunds(t *testing.T) {
	flat := commission.Commission{Type: program.Flat, FlatCents: new(int64(500)), AmountCents: 500, OriginalAmountCents: 500}
	capped := percentageCommission(10_000, 3_000)
	capped.Rule.Rules.CapCents = new(int64(2_000))
	capped.OriginalAmountCents = 2_000
	// The order has two lines with different rates, and the effective rate is rounded,
	// so base × rate is not the original amount.
	mixed := percentageCommission(10_000, 1_667)
	mixed.OriginalAmountCents = 1_700
	// The commission is in the currency of the conversion, so the cap in the programme's
	// currency did not apply.
	uncapped := percentageCommission(10_000, 3_000)
	uncapped.Rule.Rules.CapCents = new(int64(2_000))
	yen := percentageCommission(1_000, 2_000)
	yen.SaleCurrency, yen.FXRate, yen.OriginalAmountCents = "JPY", new("0.0061"), 122
	for name, tc := range map[string]struct {
		commission           commission.Commission
		paid, refunded, want int64
	}{
		"nothing refunded":                   {percentageCommission(10_000, 3_000), 10_000, 0, 3_000},
		"half refunded":                      {percentageCommission(10_000, 3_000), 10_000, 5_000, 1_500},
		"half, rounded up":                   {percentageCommission(10_000, 3_000), 10_000, 4_995, 1_502},
		"percentage of the base without tax": {percentageCommission(8_000, 3_000), 10_000, 5_000, 1_200},
		"a third is left":                    {percentageCommission(100, 3_000), 100, 67, 10},
		"all refunded":                       {percentageCommission(10_000, 3_000), 10_000, 10_000, 0},
		"flat, a part":                       {flat, 10_000, 9_999, 500},
		"flat, all":                          {flat, 10_000, 10_000, 0},
		"flat without a price":               {flat, 0, 0, 500},
		"above the cap after the refund":     {capped, 10_000, 2_000, 2_000},
		"below the cap":                      {capped, 10_000, 5_000, 1_500},
		"mixed rates":                        {mixed, 10_000, 5_000, 850},
		"a cap that did not apply":           {uncapped, 10_000, 5_000, 1_500},
		"converted":                          {yen, 1_000, 500, 61},
		"converted, rounded once":            {yen, 1_000, 3, 122}, // 199.4 yen are 121.634
		"largest amount, 1 refunded":         {percentageCommission(affiliate.MaxAmountCents, affiliate.WholeBps), affiliate.MaxAmountCents, 1, affiliate.MaxAmountCents - 1},
		"largest amount, 1 not refunded":     {percentageCommission(affiliate.MaxAmountCents, affiliate.WholeBps), affiliate.MaxAmountCents, affiliate.MaxAmountCents - 1, 1},
		"amount of 0, not refunded":          {percentageCommission(0, 3_000), 0, 0, 0},
	} {
		conversion := conversionOf(tc.paid)
		conversion.RefundedAmountCents = tc.refunded
		if tc.refunded > 0 && tc.refunded == tc.paid {
			conversion.Status = Refunded
		}
		got, full := tc.commission.AfterRefunds(conversion.SaleRefunds())
		if got != tc.want || full != (conversion.Status == Refunded) {
			t.Errorf("%s: AfterRefunds returns %d, full %v; want %d, full %v", name, got, full, tc.want, conversion.Status == Refunded)
		}
	}
	lead := conversionOf(0)
	lead.Status = Refunded
	if got, full := flat.AfterRefunds(lead.SaleRefunds()); got != 0 || !full {
		t.Errorf("AfterRefunds for a refunded lead returns %d, full %v; want 0, true", got, full)
	}
}

// earnings generates conversions with their commissions. The base is the whole price or
// less. The commission can be capped, converted to another currency, and computed from
// one or several rates.
func earnings() *rapid.Generator[struct {
	conversion Conversion
	commission commission.Commission
}] {
	return rapid.Custom(func(t *rapid.T) (earning struct {
		conversion Conversion
		commission commission.Commission
	},
	) {
		paid := rapid.OneOf(rapid.Int64Range(1, 200), rapid.Int64Range(1, affiliate.MaxAmountCents)).Draw(t, "paid")
		bps := rapid.Int64Range(0, affiliate.WholeBps).Draw(t, "bps")
		c := percentageCommission(rapid.Int64Range(0, paid).Draw(t, "base"), bps)
		if rapid.Bool().Draw(t, "foreign") {
			c.SaleCurrency = rapid.SampledFrom([]string{"USD", "JPY", "KWD"}).Draw(t, "currency")
			c.FXRate = new(rapid.SampledFrom([]string{"0.0061", "0.9137", "1", "2.71828"}).Draw(t, "rate"))
			exact := new(big.Rat).SetFrac(big.NewInt(c.BaseAmountCents*bps), big.NewInt(affiliate.WholeBps))
			c.OriginalAmountCents, _ = attribution.FXRate{Base: c.SaleCurrency, Quote: "EUR", Rate: *c.FXRate}.Convert(exact)
		}
		if rapid.Bool().Draw(t, "capped") {
			most := rapid.Int64Range(0, 100_000).Draw(t, "cap")
			c.Rule.Rules.CapCents, c.OriginalAmountCents = &most, min(c.OriginalAmountCents, most)
		}
		if rapid.Bool().Draw(t, "mixed") {
			c.OriginalAmountCents = rapid.Int64Range(0, c.OriginalAmountCents).Draw(t, "original")
		}
		c.AmountCents = c.OriginalAmountCents
		earning.conversion, earning.commission = conversionOf(paid), c
		return earning
	})
}

// The amount after several refunds must depend only on their total, not on their order
// or number, and it must never increase.
func TestRefunds_OrderAndNumberDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		earning := earnings().Draw(t, "earning")
		refund := func(parts []int64) commission.Commission {
			conversion, c := earning.conversion, earning.commission
			for _, part := range parts {
				after, refunded, refusal := conversion.Refund(&part)
				if refusal != nil || refunded != part {
					t.Fatalf("refund of %d when %d is left: refunded %d, error %v", part, conversion.Refundable(), refunded, refusal)
				}
				conversion = after
				move, moves := c.RefundMove(conversion.SaleRefunds(), commission.RefundedSale, conversion.OccurredAt)
				if !moves {
					continue
				}
				lowered, refused := move.Apply(c)
				switch {
				case refused != nil:
					t.Fatal(refused)
				case lowered.AmountCents < 0, lowered.AmountCents > c.AmountCents:
					t.Fatalf("a refund changed the commission from %d to %d, want a lower amount of at least 0", c.AmountCents, lowered.AmountCents)
				case lowered.AmountCents == c.AmountCents && lowered.Status == c.Status:
					t.Fatal("RefundMove returned a move that changes nothing")
				}
				c = lowered
			}
			if full := conversion.Refundable() == 0; full != (c.Status == commission.Refunded) || full && c.AmountCents != 0 {
				t.Fatalf("%d of the payment is left, but the commission is %s with amount %d", conversion.Refundable(), c.Status, c.AmountCents)
			}
			return c
		}
		var parts []int64
		for left := rapid.Int64Range(1, earning.conversion.Sale.Cents).Draw(t, "total"); left > 0 && len(parts) < 8; {
			part := rapid.Int64Range(1, left).Draw(t, "part")
			if len(parts) == 7 {
				part = left
			}
			parts, left = append(parts, part), left-part
		}
		var total int64
		for _, part := range parts {
			total += part
		}
		once, inOrder, shuffled := refund([]int64{total}), refund(parts), refund(rapid.Permutation(parts).Draw(t, "order"))
		if once.AmountCents != inOrder.AmountCents || inOrder.AmountCents != shuffled.AmountCents {
			t.Fatalf("the commission is %d after one refund, %d after several refunds, %d after these in another order",
				once.AmountCents, inOrder.AmountCents, shuffled.AmountCents)
		}
	})
}

// There must be no move if the status of the commission is final, or if its amount does
// not change.
func TestCommission_RefundMove(t *testing.T) {
	half, all := conversionOf(10_000), conversionOf(10_000)
	half.RefundedAmountCents, half.Status = 5_000, PartiallyRefunded
	all.RefundedAmountCents, all.Status = 10_000, Refunded
	flat := commission.Commission{Type: program.Flat, FlatCents: new(int64(500)), AmountCents: 500, OriginalAmountCents: 500, Status: commission.Paid}
	nothing := percentageCommission(10_000, 0)
	for name, tc := range map[string]struct {
		commission commission.Commission
		conversion Conversion
		moves      bool
	}{
		"pending":             {withStatus(percentageCommission(10_000, 3_000), commission.Pending), half, true},
		"approved":            {withStatus(percentageCommission(10_000, 3_000), commission.Approved), half, true},
		"paid":                {withStatus(percentageCommission(10_000, 3_000), commission.Paid), half, true},
		"rejected":            {withStatus(percentageCommission(10_000, 3_000), commission.Rejected), all, false},
		"refunded":            {withStatus(percentageCommission(10_000, 3_000), commission.Refunded), all, false},
		"flat, a part":        {flat, half, false},
		"flat, all":           {flat, all, true},
		"amount of 0, a part": {nothing, half, false},
		"amount of 0, all":    {nothing, all, true},
		"no refund":           {percentageCommission(10_000, 3_000), conversionOf(10_000), false},
	} {
		at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		move, moves := tc.commission.RefundMove(tc.conversion.SaleRefunds(), commission.RefundedSale, at)
		if moves != tc.moves || moves && (move.Move != commission.MoveRefund || move.RefundReason != commission.RefundedSale || !move.At.Equal(at) || move.Actor != affiliate.System) {
			t.Errorf("%s: RefundMove returns %+v, %v; want %s by the service: %v", name, move, moves, commission.MoveRefund, tc.moves)
		}
	}
}

// If refunds fail after they were applied, the commission gets back its amount and, if it
// was refunded in full, its former status.
func TestCommission_RefundMove_RestoresAfterFailedRefunds(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	whole, half, all := conversionOf(10_000), conversionOf(10_000), conversionOf(10_000)
	half.RefundedAmountCents, half.Status = 5_000, PartiallyRefunded
	all.RefundedAmountCents, all.Status = 10_000, Refunded
	for status, c := range map[commission.Status]commission.Commission{
		commission.Pending:  {},
		commission.Approved: {ApprovedAt: &at},
		commission.Paid:     {ApprovedAt: &at, PaidAt: &at},
	} {
		before := percentageCommission(10_000, 3_000)
		before.Status, before.ApprovedAt, before.PaidAt = status, c.ApprovedAt, c.PaidAt
		for name, refunded := range map[string]Conversion{"a part": half, "all": all} {
			lower, err := commission.Locked{Commission: before}.FollowRefunds(refunded.SaleRefunds(), commission.RefundedSale, at)
			if err != nil || len(lower) != 1 {
				t.Fatalf("%s, %s: changes %+v, error %v", status, name, lower, err)
			}
			restored, err := commission.Locked{Commission: lower[0].After}.FollowRefunds(whole.SaleRefunds(), commission.RefundedSale, at)
			if err != nil || len(restored) != 1 || restored[0].Transition.Move != commission.MoveRestore {
				t.Fatalf("%s, %s: changes %+v, error %v; want %s", status, name, restored, err, commission.MoveRestore)
			}
			after := restored[0].After
			if after.Status != status || after.AmountCents != before.AmountCents || after.RefundedAt != nil {
				t.Errorf("%s, %s: after the failed refund the commission is %s with %d cents, want %s with %d",
					status, name, after.Status, after.AmountCents, status, before.AmountCents)
			}
			var entries int64
			for _, change := range []commission.Change{lower[0], restored[0]} {
				if entry := change.LedgerEntry(); entry != nil {
					entries += entry.AmountCents
				}
			}
			if entries != 0 {
				t.Errorf("%s, %s: the ledger entries of the refund and its failure add up to %d cents, want 0", status, name, entries)
			}
		}
	}
}

func withStatus(c commission.Commission, status commission.Status) commission.Commission {
	c.Status = status
	return c
}
