package program

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestPercent(t *testing.T) {
	for bps, want := range map[int64]json.Number{0: "0", 1: "0.01", 10: "0.1", 2000: "20", 1250: "12.5", 1234: "12.34", 10000: "100"} {
		if got := Percent(bps); got != want {
			t.Errorf("Percent(%d) = %s, want %s", bps, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		bps := rapid.Int64Range(0, affiliate.WholeBps).Draw(t, "bps")
		whole, cents, _ := strings.Cut(string(Percent(bps)), ".")
		digits, err := json.Number(whole + (cents + "00")[:2]).Int64()
		if err != nil || digits != bps || strings.HasSuffix(cents, "0") {
			t.Fatalf("Percent(%d) = %s, want a hundredth, without zeros at the end", bps, Percent(bps))
		}
	})
}

// fullRuleSet returns rules with almost every field set.
func fullRuleSet() Rules {
	rate, later, order, most, twelve, six := int64(1250), int64(500), int64(1000), int64(9000), 12, 6
	ten, flat, none := int64(10), int64(150), int64(0)
	return Rules{
		Type: Percentage, RateBps: &rate, HoldDays: 3, NetBasis: NetOfTax,
		Recurring:    Recurring{MaxMonths: &twelve, MaxPayments: &six},
		LaterRateBps: &later, MinOrderCents: &order, CapCents: &most,
		Tiers:    []Tier{{MinConversions: &none, RateBps: 1500}, {MinConversions: &ten, RateBps: 2000}},
		Products: []ProductRate{{ProductID: "a", Rate: Rate{Bps: &rate}}, {ProductID: "b", Rate: Rate{FlatCents: &flat}}},
		Events:   []EventRate{{EventType: affiliate.Purchase}, {EventType: affiliate.Signup, Rate: Rate{FlatCents: &flat}}},
	}
}

func TestRulesObject(t *testing.T) {
	rules := fullRuleSet()
	const want = `{"commission_type":"percentage","percentage":12.5,"flat_amount_cents":null,"hold_period_days":3,"auto_approval":false,"net_basis":"net_of_tax",` +
		`"recurring":{"enabled":true,"max_months":12,"max_payments":6},"later_percentage":5,"min_order_cents":1000,"cap_cents":9000,` +
		`"tiers":[{"min_conversions":0,"min_revenue_cents":null,"percentage":15},{"min_conversions":10,"min_revenue_cents":null,"percentage":20}],` +
		`"products":[{"product_id":"a","percentage":12.5,"flat_amount_cents":null},{"product_id":"b","percentage":null,"flat_amount_cents":150}],` +
		`"product_count":2,"events":[{"event_type":"purchase","percentage":null,"flat_amount_cents":null},{"event_type":"signup","percentage":null,"flat_amount_cents":150}]}`
	got, err := json.Marshal(rules.Object())
	if err != nil || string(got) != want {
		t.Errorf("JSON of the rules is %s, error %v\nwant %s", got, err, want)
	}
	if object := (Rules{Recurring: Recurring{FirstPaymentOnly: true}}).Object(); object.Recurring.Enabled {
		t.Error("recurring is enabled although only the first payment earns")
	}
}

// Stored rules must decode to the same rules. Fields that an old row does not have must
// decode to their defaults.
func TestRules_JSONRoundTrip(t *testing.T) {
	for name, rules := range map[string]Rules{"full": fullRuleSet(), "default": DefaultRules(), "first payment only": {Type: Flat, Recurring: Recurring{FirstPaymentOnly: true}}} {
		stored, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		var read Rules
		if err := json.Unmarshal(stored, &read); err != nil || !read.Equal(rules) {
			t.Errorf("%s: %s decodes to %+v, error %v; want %+v", name, stored, read, err, rules)
		}
	}
	var old Rules
	const before = `{"commission_type":"percentage","rate_bps":2000,"hold_period_days":30,"auto_approval":true,"net_basis":"gross"}`
	want := DefaultRules()
	want.NetBasis = Gross
	if err := json.Unmarshal([]byte(before), &old); err != nil || !old.Equal(want) {
		t.Errorf("an old row decodes to %+v, error %v; want %+v", old, err, want)
	}
	if same, wrong := old.Patch(RulesPatch{Tiers: affiliate.Clear[[]Tier](), Products: affiliate.Set([]ProductRate{}), Events: affiliate.Set([]EventRate{}), Recurring: RecurringPatch{FirstPaymentOnly: affiliate.Set(false)}}); len(wrong) > 0 || !same.Equal(old) {
		t.Errorf("a patch that clears empty lists changed the rules to %+v, violations %v", same, wrong)
	}
}
