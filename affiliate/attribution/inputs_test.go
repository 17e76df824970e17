package attribution

import (
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// The programmes and participants of the random inputs. There are only a few, so that
// several signals often lead to the same participant or programme.
var (
	testPrograms     = []affiliate.ProgramID{affiliate.NewID[affiliate.ProgramID](clickedAt), affiliate.NewID[affiliate.ProgramID](clickedAt)}
	testProgramNames = map[affiliate.ProgramID]string{testPrograms[0]: "Spring", testPrograms[1]: "Autumn"}
	testParticipants = []affiliate.ParticipantID{affiliate.NewID[affiliate.ParticipantID](clickedAt), affiliate.NewID[affiliate.ParticipantID](clickedAt), affiliate.NewID[affiliate.ParticipantID](clickedAt)}
	testProducts     = []string{"book", "film", "song"}
	allEvents        = []affiliate.EventType{affiliate.Purchase, affiliate.Renewal, affiliate.Signup, affiliate.Lead, affiliate.Trial, affiliate.Custom}
)

// rates generates rates. They are at most half of the greatest rate, so that a test can
// double them.
func rates() *rapid.Generator[program.Rate] {
	return rapid.Custom(func(t *rapid.T) program.Rate {
		if rapid.Bool().Draw(t, "flat") {
			return program.Rate{FlatCents: new(rapid.Int64Range(0, 50_000).Draw(t, "flat amount"))}
		}
		return program.Rate{Bps: new(rapid.Int64Range(0, affiliate.WholeBps/2).Draw(t, "bps"))}
	})
}

// maybe returns nil in half of the cases.
func maybe[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if !rapid.Bool().Draw(t, "has "+label) {
		return nil
	}
	return new(g.Draw(t, label))
}

// fullRules generates rules that can use every field.
func fullRules() *rapid.Generator[program.Rules] {
	return rapid.Custom(func(t *rapid.T) program.Rules {
		r := program.Rules{NetBasis: rapid.SampledFrom([]program.NetBasis{program.Gross, program.NetOfTax, program.NetOfTaxShipping, program.NetOfTaxShippingAndFee}).Draw(t, "basis")}
		own := rates().Draw(t, "own rate")
		r.Type, r.RateBps, r.FlatCents = program.Percentage, own.Bps, own.FlatCents
		if own.FlatCents != nil {
			r.Type = program.Flat
		}
		r.LaterRateBps = maybe(t, rapid.Int64Range(0, affiliate.WholeBps/2), "later")
		r.MinOrderCents = maybe(t, rapid.Int64Range(0, 5_000), "minimum")
		r.CapCents = maybe(t, rapid.Int64Range(0, 5_000), "cap")
		r.Recurring = program.Recurring{
			FirstPaymentOnly: rapid.IntRange(0, 4).Draw(t, "once") == 0,
			MaxMonths:        maybe(t, rapid.IntRange(1, 3), "months"),
			MaxPayments:      maybe(t, rapid.IntRange(1, 4), "payments"),
		}
		byRevenue := rapid.Bool().Draw(t, "tiers by revenue")
		threshold := int64(0)
		for range rapid.IntRange(0, 3).Draw(t, "tiers") {
			threshold += rapid.Int64Range(1, 5).Draw(t, "threshold")
			tier := program.Tier{RateBps: rapid.Int64Range(0, affiliate.WholeBps/2).Draw(t, "tier")}
			if byRevenue {
				tier.MinRevenueCents = new(threshold)
			} else {
				tier.MinConversions = new(threshold)
			}
			r.Tiers = append(r.Tiers, tier)
		}
		for _, product := range testProducts[:rapid.IntRange(0, len(testProducts)).Draw(t, "products")] {
			r.Products = append(r.Products, program.ProductRate{ProductID: product, Rate: rates().Draw(t, product)})
		}
		for _, event := range allEvents[:rapid.IntRange(0, len(allEvents)).Draw(t, "events")] {
			rate := program.EventRate{EventType: event}
			if own := maybe(t, rates(), string(event)); own != nil {
				rate.Rate = *own
			}
			r.Events = append(r.Events, rate)
		}
		return r
	})
}

func earners() *rapid.Generator[Earner] {
	return rapid.Custom(func(t *rapid.T) Earner {
		programID := rapid.SampledFrom(testPrograms).Draw(t, "programme")
		e := Earner{
			Program: programID, ProgramName: testProgramNames[programID], Currency: "EUR",
			ProgramStatus: rapid.SampledFrom([]program.Status{program.Active, program.Active, program.Active, program.Paused}).Draw(t, "status"),
			Model:         rapid.SampledFrom([]program.AttributionModel{program.LastClick, program.FirstClick}).Draw(t, "model"),
			Precedence:    rapid.SampledFrom([]program.SignalPrecedence{program.ClickFirst, program.PromoCodeFirst}).Draw(t, "precedence"),
			WindowDays:    30,
			Rule:          RuleSnapshot{Version: 1, Rules: fullRules().Draw(t, "rules"), Override: maybe(t, rates(), "override")},
			Participant:   rapid.SampledFrom(testParticipants).Draw(t, "participant"),
			ParticipantStatus: rapid.SampledFrom([]participant.Status{
				participant.Approved, participant.Approved, participant.Approved, participant.Suspended,
			}).Draw(t, "participant status"),
			ParticipantErased: rapid.IntRange(0, 5).Draw(t, "erased") == 0,
			PriorTotals:       PriorTotals{rapid.Int64Range(0, 16).Draw(t, "prior conversions"), rapid.Int64Range(0, 16).Draw(t, "prior revenue")},
		}
		if rate := maybe(t, rates(), "group rate"); rate != nil {
			e.Rule.Group = &GroupRate{Name: "Friends", Rate: *rate}
		}
		return e
	})
}

func instants() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return clickedAt.Add(time.Duration(rapid.Int64Range(-2*24, 40*24).Draw(t, "hours")) * time.Hour)
	})
}

// orders generates sales. The amounts are small, so that caps and minimums often
// matter. Some sales have no price.
func orders() *rapid.Generator[Sale] {
	return rapid.Custom(func(t *rapid.T) Sale {
		currency := rapid.SampledFrom([]string{"EUR", "EUR", "EUR", "USD", ""}).Draw(t, "currency")
		if currency == "" {
			return Sale{}
		}
		return Sale{
			Money:         affiliate.Money{Cents: rapid.Int64Range(0, 20_000).Draw(t, "amount"), Currency: currency},
			TaxCents:      rapid.Int64Range(0, 2_000).Draw(t, "tax"),
			ShippingCents: rapid.Int64Range(0, 2_000).Draw(t, "shipping"),
			FeeCents:      rapid.Int64Range(0, 2_000).Draw(t, "fee"),
		}
	})
}

func lineItems() *rapid.Generator[[]LineItem] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) LineItem {
		return LineItem{
			ProductID:   rapid.SampledFrom(append([]string{"other"}, testProducts...)).Draw(t, "product"),
			Quantity:    rapid.Int64Range(1, 5).Draw(t, "quantity"),
			AmountCents: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 9_000)).Draw(t, "line"),
		}
	}), 0, 5)
}

// attributionInputs generates inputs with any combination of signals. Some inputs also
// have an assignment by a person.
func attributionInputs() *rapid.Generator[Inputs] {
	return rapid.Custom(func(t *rapid.T) Inputs {
		in := Inputs{
			Mode: affiliate.ModeTest, EventType: rapid.SampledFrom(allEvents).Draw(t, "event"), OccurredAt: instants().Draw(t, "occurred"),
			Sale:        orders().Draw(t, "sale"),
			IsRecurring: rapid.Bool().Draw(t, "recurring"),
			ProductIDs:  rapid.SliceOfN(rapid.SampledFrom(append([]string{"other"}, testProducts...)), 0, 3).Draw(t, "products"),
			LineItems:   lineItems().Draw(t, "lines"),
		}
		modes := rapid.SampledFrom([]affiliate.Mode{affiliate.ModeTest, affiliate.ModeTest, affiliate.ModeTest, affiliate.ModeTest, affiliate.ModeLive})
		reportedSignals := rapid.IntRange(1, 3).Draw(t, "reported signals")
		if reportedSignals&1 != 0 {
			in.Click = new(affiliate.NewID[affiliate.ClickID](clickedAt))
			if rapid.IntRange(0, 4).Draw(t, "click found") > 0 {
				received := instants().Draw(t, "received")
				in.FoundClick = &FoundClick{
					Mode: modes.Draw(t, "click mode"), ReceivedAt: received, ExpiresAt: click.WindowEnd(received, 30),
					Link: affiliate.NewID[affiliate.LinkID](clickedAt), Earner: earners().Draw(t, "click earner"),
				}
			}
		}
		if reportedSignals&2 != 0 {
			in.PromoCode = new("spring10")
			if rapid.IntRange(0, 4).Draw(t, "promo code found") > 0 {
				in.FoundPromoCode = &FoundPromoCode{
					ID: affiliate.NewID[affiliate.PromoCodeID](clickedAt), Mode: modes.Draw(t, "promo code mode"),
					Active:         rapid.IntRange(0, 4).Draw(t, "active") > 0,
					ExpiresAt:      maybe(t, instants(), "ends"),
					MaxRedemptions: maybe(t, rapid.Int64Range(1, 5), "redemptions allowed"),
					Redemptions:    rapid.Int64Range(0, 3).Draw(t, "redemptions"),
					Earner:         earners().Draw(t, "promo code earner"),
				}
			}
		}
		if rapid.Bool().Draw(t, "customer named") {
			in.Customer = &FoundCustomer{Payments: map[affiliate.ProgramID]CustomerPayments{}}
			for _, program := range testPrograms {
				if count := rapid.IntRange(0, 4).Draw(t, "paid"); count > 0 {
					in.Customer.Payments[program] = CustomerPayments{count, instants().Draw(t, "first paid").AddDate(0, -2, 0)}
				}
			}
			if rapid.Bool().Draw(t, "bound") {
				bound := instants().Draw(t, "bound at")
				in.Customer.Binding = &Binding{BoundAt: bound, SignalAt: bound, WindowEndsAt: click.WindowEnd(bound, 30), Earner: earners().Draw(t, "binding earner")}
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "by hand") == 0 {
			in.Assigned = new(earners().Draw(t, "assigned"))
		}
		return in
	})
}
