package affiliate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/gen/openapi"
)

var update = flag.Bool("update", false, "write the golden files")

// schemas are the published ones, by their events' names.
var schemas = sync.OnceValues(func() (map[affiliate.EventName]*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiled := map[affiliate.EventName]*jsonschema.Schema{}
	files, err := fs.Glob(openapi.Events, "events/*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := openapi.Events.ReadFile(file)
		if err != nil {
			return nil, err
		}
		tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if err := compiler.AddResource(file, tree); err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if compiled[affiliate.EventName(name)], err = compiler.Compile(file); err != nil {
			return nil, err
		}
	}
	return compiled, nil
})

// invalid says why a body does not satisfy the schema of its event; nil: it does.
func invalid(t interface {
	Helper()
	Fatal(...any)
}, name affiliate.EventName, body []byte,
) error {
	t.Helper()
	compiled, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if compiled[name] == nil {
		t.Fatal("no schema of " + name)
	}
	return compiled[name].Validate(tree)
}

// encodedBody is the body of an event, which has to be the same every time.
func encodedBody(t interface {
	Helper()
	Fatal(...any)
}, event affiliate.Event,
) []byte {
	t.Helper()
	first, err := event.Body()
	if err != nil {
		t.Fatal(event.Name, err)
	}
	if second, err := event.Body(); err != nil || !bytes.Equal(first, second) {
		t.Fatal(event.Name, "has two bodies:", string(first), string(second), err)
	}
	return first
}

func TestEveryEventThatIsSentHasAnObjectASchemaAndAnExample(t *testing.T) {
	want := []affiliate.EventName{affiliate.EventWebhookPing}
	for _, kind := range affiliate.Catalogue() {
		if !kind.Upcoming {
			want = append(want, kind.Name)
		}
	}
	slices.Sort(want)
	compiled, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][]affiliate.EventName{
		"objects":  slices.Sorted(maps.Keys(affiliate.EventObjects())),
		"schemas":  slices.Sorted(maps.Keys(compiled)),
		"examples": slices.Sorted(maps.Keys(examples(t))),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s of %q, want %q", what, got, want)
		}
	}
}

// What receivers have seen once stays as it is: names, order, formats.
func TestBodiesAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, event := range examples(t) {
		file := filepath.Join("testdata", "events", string(name)+".json")
		got := append(encodedBody(t, event), '\n')
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s (%v):\n%swant\n%s", name, err, got, want)
		}
	}
}

// A conversion with a score below fraud.Suspicious makes no such event.
func TestFraudExample_ReachesTheThreshold(t *testing.T) {
	var body struct {
		Data struct{ Object struct{ Score int } }
	}
	if err := json.Unmarshal(encodedBody(t, examples(t)[affiliate.EventConversionFraudDetected]), &body); err != nil {
		t.Fatal(err)
	}
	if score := body.Data.Object.Score; score < fraud.Suspicious {
		t.Errorf("the example has score %d, an event needs %d", score, fraud.Suspicious)
	}
}

func TestExamplesSatisfyTheirSchemas(t *testing.T) {
	for name, event := range examples(t) {
		if err := invalid(t, name, encodedBody(t, event)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryMoveOfEveryCommissionSatisfiesItsSchema(t *testing.T) {
	told, seen := map[affiliate.EventName]bool{}, map[string]bool{}
	for _, c := range commissions() {
		c.Scope = exampleScope
		for _, move := range transitions() {
			after, refusal := move.Apply(c)
			if refusal != nil {
				continue
			}
			for _, event := range (affiliate.CommissionChange{Before: &c, After: after, Transition: move}).Events() {
				body := encodedBody(t, event)
				_, data, _ := strings.Cut(string(body), `"data"`)
				if seen[string(event.Name)+data] {
					continue
				}
				seen[string(event.Name)+data] = true
				told[event.Name] = true
				if err := invalid(t, event.Name, body); err != nil {
					t.Fatalf("%s: %v\n%s", event.Name, err, body)
				}
			}
		}
	}
	if len(told) != 6 {
		t.Errorf("told %v", told)
	}
}

// texts are what people type, and what JSON has to escape.
func texts() *rapid.Generator[string] { return rapid.String() }

func drawn[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	return rapid.Ptr(g, true).Draw(t, label)
}

func TestDrawnBodiesSatisfyTheirSchemas(t *testing.T) {
	instants := rapid.Custom(func(t *rapid.T) time.Time { return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC() })
	number := rapid.Int64Range(0, affiliate.MaxAmountCents)
	rapid.Check(t, func(t *rapid.T) {
		check := func(name affiliate.EventName, before, after any) {
			was, _, err := affiliate.Changed(before, after)
			if err != nil {
				t.Fatal(err)
			}
			event := affiliate.NewEvent(exampleScope, name, instants.Draw(t, "at"), after, nil)
			if was != nil {
				event.Previous = was
			}
			body := encodedBody(t, event)
			if err := invalid(t, name, body); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, body)
			}
		}
		participant := func(label string) affiliate.ParticipantObject {
			p := exampleParticipant(rapid.SampledFrom(affiliate.RejectParticipant.From()).Draw(t, label))
			p.Status = rapid.SampledFrom([]affiliate.ParticipantStatus{affiliate.ParticipantPending, affiliate.ParticipantRejected, affiliate.ParticipantSuspended}).Draw(t, label)
			p.PartnerName = texts().Draw(t, label)
			p.RejectionReason, p.SuspensionReason = drawn(t, texts(), label), drawn(t, texts(), label)
			return p.Object()
		}
		check(affiliate.EventParticipantSuspended, participant("before"), participant("after"))

		link := func(label string) affiliate.LinkObject {
			l := exampleLink()
			l.Destination, l.SubID = drawn(t, texts(), label), texts().Draw(t, label)
			l.UTM = affiliate.UTM{Source: texts().Draw(t, label), Medium: texts().Draw(t, label), Term: texts().Draw(t, label), Content: texts().Draw(t, label)}
			l.IsDefault = rapid.Bool().Draw(t, label)
			return l.Object()
		}
		check(affiliate.EventLinkUpdated, link("before"), link("after"))

		code := func(label string) affiliate.PromoCodeObject {
			c := examplePromoCode()
			if rapid.Bool().Draw(t, label) {
				c.DiscountType, c.Currency = affiliate.DiscountFixed, ptr("EUR")
			}
			c.DiscountValue = rapid.Int64Range(1, 10000).Draw(t, label)
			c.MaxRedemptions, c.ExpiresAt = drawn(t, number, label), drawn(t, instants, label)
			return c.Object()
		}
		check(affiliate.EventPromoCodeDeactivated, code("before"), code("after"))

		program := func(label string) affiliate.ProgramObject {
			p := exampleProgram()
			p.Description, p.WebsiteURL, p.LandingURL, p.TermsURL = drawn(t, texts(), label), drawn(t, texts(), label), drawn(t, texts(), label), drawn(t, texts(), label)
			p.AllowedDomains = rapid.SampledFrom([][]string{nil, {}, {"shop.example"}}).Draw(t, label)
			p.Rules.RateBps, p.Rules.FlatCents = drawn(t, rapid.Int64Range(0, 10000), label), drawn(t, number, label)
			p.Rules.LaterRateBps, p.Rules.MinOrderCents, p.Rules.CapCents = drawn(t, rapid.Int64Range(0, 10000), label), drawn(t, number, label), drawn(t, number, label)
			p.Rules.Recurring.MaxMonths, p.Rules.Recurring.MaxPayments = drawn(t, rapid.IntRange(1, 120), label), drawn(t, rapid.IntRange(1, 1000), label)
			if rapid.Bool().Draw(t, label) {
				p.Rules.Tiers, p.Rules.Products, p.Rules.Events = nil, nil, nil
			}
			return p.Object()
		}
		check(affiliate.EventProgramUpdated, program("before"), program("after"))

		c, d := exampleConversion()
		c.Sale.Paid = rapid.SampledFrom([]affiliate.Money{{}, {Cents: 1, Currency: "JPY"}}).Draw(t, "paid")
		c.Click, c.PromoCode = drawn(t, rapid.Just(exampleID[affiliate.Click](1)), "click"), drawn(t, texts(), "code")
		d.Method, d.ClickedAt, d.ExpiresAt = drawn(t, rapid.Just(affiliate.ByPromoCode), "method"), drawn(t, instants, "clicked"), drawn(t, instants, "expires")
		d.Program, d.Participant = drawn(t, rapid.Just(exampleID[affiliate.Program](1)), "program"), drawn(t, rapid.Just(exampleID[affiliate.Participant](1)), "participant")
		refunded := c
		refunded.RefundedAmountCents = number.Draw(t, "refunded")
		event := refunded.RefundedEvent(c, d, instants.Draw(t, "at"))
		if err := invalid(t, event.Name, encodedBody(t, event)); err != nil {
			t.Fatalf("%s: %v", event.Name, err)
		}
	})
}

// A receiver that validates notices every mistake that we could make.
func TestSchemasRefuseOtherBodies(t *testing.T) {
	for name, event := range examples(t) {
		body := encodedBody(t, event)
		refused := func(what string, change func(envelope, data, object map[string]any)) {
			t.Helper()
			tree := decoded(t, body)
			data, _ := tree["data"].(map[string]any)
			object, _ := data["object"].(map[string]any)
			change(tree, data, object)
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if invalid(t, name, text) == nil {
				t.Errorf("%s is valid %s", name, what)
			}
		}
		tree := decoded(t, body)
		for key := range tree {
			refused("without "+key, func(envelope, _, _ map[string]any) { delete(envelope, key) })
			refused("with another type of "+key, func(envelope, _, _ map[string]any) { envelope[key] = []any{7} })
		}
		for key := range tree["data"].(map[string]any)["object"].(map[string]any) {
			refused("without object."+key, func(_, _, object map[string]any) { delete(object, key) })
			refused("with another type of object."+key, func(_, _, object map[string]any) { object[key] = []any{[]any{7}} })
			refused("with another type of previous_attributes."+key, func(_, data, _ map[string]any) {
				data["previous_attributes"] = map[string]any{key: []any{[]any{7}}}
			})
		}
		refused("with more", func(envelope, _, _ map[string]any) { envelope["more"] = 1 })
		refused("with more data", func(_, data, _ map[string]any) { data["more"] = 1 })
		refused("with more in its object", func(_, _, object map[string]any) { object["more"] = 1 })
		refused("with more in its previous attributes", func(_, data, _ map[string]any) { data["previous_attributes"] = map[string]any{"more": 1} })
		refused("with no previous attributes at all", func(_, data, _ map[string]any) { data["previous_attributes"] = map[string]any{} })
		refused("with another name", func(envelope, _, _ map[string]any) { envelope["type"] = "other.created" })
		refused("with an id that has dots", func(envelope, _, _ map[string]any) { envelope["id"] = "evt_1.2" })
		refused("with an hour alone", func(envelope, _, _ map[string]any) { envelope["timestamp"] = "12:00" })
		refused("in a third mode", func(envelope, _, _ map[string]any) { envelope["mode"] = "both" })
	}
}

// maxBody bounds a body (DECISIONS.md section 9).
const maxBody = 20_000

// The largest contents that the API takes, in letters of four bytes where people
// may type what they like. A programme is not here: its lists of products and
// domains are bounded far above.
func TestTheLargestBodiesKeepTheirBound(t *testing.T) {
	long := func(letters int) string { return strings.Repeat("\U0001F331", letters) }
	url := "https://shop.example/" + strings.Repeat("a", 2048-len("https://shop.example/"))

	payout := examplePayout()
	payout.FailureReason = ptr(long(500))
	ids := make([]affiliate.CommissionID, affiliate.MaxEventCommissions+1)
	for i := range ids {
		ids[i] = exampleID[affiliate.Commission](byte(i))
	}

	participant, was := exampleParticipant(affiliate.ParticipantRejected), exampleParticipant(affiliate.ParticipantSuspended)
	participant.PartnerName, was.PartnerName = long(100), long(99)
	participant.ReferralCode, was.ReferralCode = strings.Repeat("a", 50), strings.Repeat("b", 50)
	participant.RejectionReason, was.SuspensionReason = ptr(long(500)), ptr(long(499))

	link, other := exampleLink(), exampleLink()
	link.Code, other.Code = strings.Repeat("a", 50), strings.Repeat("b", 50)
	link.Destination, other.Destination = ptr(url), ptr(url+"?")
	link.SubID, other.SubID = long(255), long(254)
	link.UTM = affiliate.UTM{Source: long(255), Medium: long(255), Campaign: long(255), Term: long(255), Content: long(255)}
	other.UTM = affiliate.UTM{Source: long(254), Medium: long(254), Campaign: long(254), Term: long(254), Content: long(254)}

	code, off := examplePromoCode(), examplePromoCode()
	code.Code, off.Code, off.Active = long(100), long(99), false

	// Sentences name at most the programmes of all signals, and a promo code.
	c, d := exampleConversion()
	c.ExternalTransactionID, c.PromoCode, d.Explanation = long(255), ptr(long(100)), long(1500)
	for range 14 { // all rules
		d.Fraud = append(d.Fraud, affiliate.FraudSignal{Rule: "same_ip_prefix_as_partner", Score: 100, Evidence: long(200)})
	}
	d.FraudAction = affiliate.FraudBlocked

	commission := exampleCommission()
	commission.NeedsReview, commission.ReviewReasons = true, slices.Repeat([]string{affiliate.ReviewParticipantSuspended}, 20)

	for _, event := range []affiliate.Event{
		payout.Created(ids),
		changed(t, affiliate.EventParticipantRejected, was.Object(), participant.Object()),
		changed(t, affiliate.EventLinkUpdated, other.Object(), link.Object()),
		changed(t, affiliate.EventPromoCodeDeactivated, off.Object(), code.Object()),
		c.Event(affiliate.EventConversionCreated, d, noon),
		c.FraudDetected(d),
		affiliate.CommissionEvent(affiliate.EventCommissionReviewRequired, noon, ptr(exampleCommission()), commission),
	} {
		body := encodedBody(t, event)
		if len(body) > maxBody {
			t.Errorf("%s has %d bytes", event.Name, len(body))
		}
		t.Logf("%s: %d bytes", event.Name, len(body))
		if err := invalid(t, event.Name, body); err != nil {
			t.Errorf("%s: %v", event.Name, err)
		}
	}
}
