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

// schemas returns the published schemas, by event name.
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

// validationError returns the error if a body does not satisfy the schema of its event.
func validationError(t interface {
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
		t.Fatal("no schema for " + name)
	}
	return compiled[name].Validate(tree)
}

// encodedBody returns the body of an event. It fails if a second encoding is different.
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
		t.Fatal(event.Name, "has two different bodies:", string(first), string(second), err)
	}
	return first
}

func TestEventObjects_SchemasAndExamplesAreComplete(t *testing.T) {
	want := []affiliate.EventName{affiliate.EventWebhookPing}
	for _, kind := range affiliate.Catalogue() {
		want = append(want, kind.Name)
	}
	slices.Sort(want)
	compiled, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	for kind, got := range map[string][]affiliate.EventName{
		"objects":  slices.Sorted(maps.Keys(affiliate.EventObjects())),
		"schemas":  slices.Sorted(maps.Keys(compiled)),
		"examples": slices.Sorted(maps.Keys(examples(t))),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("there are %s for the events %q, want %q", kind, got, want)
		}
	}
}

// The names, the order and the formats of published fields must not change.
func TestEventBody_MatchesGoldenFiles(t *testing.T) {
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
			t.Errorf("body of %s (error %v):\n%swant\n%s", name, err, got, want)
		}
	}
}

// The service sends no conversion.fraud_detected event for a conversion with a score
// below fraud.SuspiciousScore, so the example must have a higher score.
func TestFraudExample_ReachesTheThreshold(t *testing.T) {
	var body struct {
		Data struct{ Object struct{ Score int } }
	}
	if err := json.Unmarshal(encodedBody(t, examples(t)[affiliate.EventConversionFraudDetected]), &body); err != nil {
		t.Fatal(err)
	}
	if score := body.Data.Object.Score; score < fraud.SuspiciousScore {
		t.Errorf("the example has score %d, want at least %d", score, fraud.SuspiciousScore)
	}
}

func TestEventBody_ExamplesSatisfySchemas(t *testing.T) {
	for name, event := range examples(t) {
		if err := validationError(t, name, encodedBody(t, event)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommissionEvents_SatisfySchemas(t *testing.T) {
	eventNames, seen := map[affiliate.EventName]bool{}, map[string]bool{}
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
				eventNames[event.Name] = true
				if err := validationError(t, event.Name, body); err != nil {
					t.Fatalf("%s: %v\n%s", event.Name, err, body)
				}
			}
		}
	}
	if len(eventNames) != 8 {
		t.Errorf("%d different events: %v, want 8", len(eventNames), eventNames)
	}
}

// texts generates any text that people can type, including characters that JSON has to
// escape.
func texts() *rapid.Generator[string] { return rapid.String() }

func optionalValue[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	return rapid.Ptr(g, true).Draw(t, label)
}

func TestEventBody_RandomObjectsSatisfySchemas(t *testing.T) {
	instants := rapid.Custom(func(t *rapid.T) time.Time { return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC() })
	number := rapid.Int64Range(0, affiliate.MaxAmountCents)
	rapid.Check(t, func(t *rapid.T) {
		check := func(name affiliate.EventName, before, after any) {
			oldValues, _, err := affiliate.ChangedFields(before, after)
			if err != nil {
				t.Fatal(err)
			}
			event := affiliate.NewEvent(exampleScope, name, instants.Draw(t, "at"), after, nil)
			if oldValues != nil {
				event.Previous = oldValues
			}
			body := encodedBody(t, event)
			if err := validationError(t, name, body); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, body)
			}
		}
		participant := func(label string) affiliate.ParticipantObject {
			p := exampleParticipant(rapid.SampledFrom(affiliate.RejectParticipant.From()).Draw(t, label))
			p.Status = rapid.SampledFrom([]affiliate.ParticipantStatus{affiliate.ParticipantPending, affiliate.ParticipantRejected, affiliate.ParticipantSuspended}).Draw(t, label)
			p.PartnerName = texts().Draw(t, label)
			p.RejectionReason, p.SuspensionReason = optionalValue(t, texts(), label), optionalValue(t, texts(), label)
			return p.Object()
		}
		check(affiliate.EventParticipantSuspended, participant("before"), participant("after"))

		link := func(label string) affiliate.LinkObject {
			l := exampleLink()
			l.Destination, l.SubID = optionalValue(t, texts(), label), texts().Draw(t, label)
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
			c.MaxRedemptions, c.ExpiresAt = optionalValue(t, number, label), optionalValue(t, instants, label)
			return c.Object()
		}
		check(affiliate.EventPromoCodeDeactivated, code("before"), code("after"))

		program := func(label string) affiliate.ProgramObject {
			p := exampleProgram()
			p.Description, p.WebsiteURL, p.LandingURL, p.TermsURL = optionalValue(t, texts(), label), optionalValue(t, texts(), label), optionalValue(t, texts(), label), optionalValue(t, texts(), label)
			p.AllowedDomains = rapid.SampledFrom([][]string{nil, {}, {"shop.example"}}).Draw(t, label)
			p.Rules.RateBps, p.Rules.FlatCents = optionalValue(t, rapid.Int64Range(0, 10000), label), optionalValue(t, number, label)
			p.Rules.LaterRateBps, p.Rules.MinOrderCents, p.Rules.CapCents = optionalValue(t, rapid.Int64Range(0, 10000), label), optionalValue(t, number, label), optionalValue(t, number, label)
			p.Rules.Recurring.MaxMonths, p.Rules.Recurring.MaxPayments = optionalValue(t, rapid.IntRange(1, 120), label), optionalValue(t, rapid.IntRange(1, 1000), label)
			if rapid.Bool().Draw(t, label) {
				p.Rules.Tiers, p.Rules.Products, p.Rules.Events = nil, nil, nil
			}
			return p.Object()
		}
		check(affiliate.EventProgramUpdated, program("before"), program("after"))

		c, d := exampleConversion()
		c.Sale.Paid = rapid.SampledFrom([]affiliate.Money{{}, {Cents: 1, Currency: "JPY"}}).Draw(t, "paid")
		c.Click, c.PromoCode = optionalValue(t, rapid.Just(exampleID[affiliate.ClickID](1)), "click"), optionalValue(t, texts(), "code")
		d.Method, d.ClickedAt, d.ExpiresAt = optionalValue(t, rapid.Just(affiliate.ByPromoCode), "method"), optionalValue(t, instants, "clicked"), optionalValue(t, instants, "expires")
		d.Program, d.Participant = optionalValue(t, rapid.Just(exampleID[affiliate.ProgramID](1)), "program"), optionalValue(t, rapid.Just(exampleID[affiliate.ParticipantID](1)), "participant")
		refunded := c
		refunded.RefundedAmountCents = number.Draw(t, "refunded")
		event := refunded.RefundedEvent(c, d, instants.Draw(t, "at"))
		if err := validationError(t, event.Name, encodedBody(t, event)); err != nil {
			t.Fatalf("%s: %v", event.Name, err)
		}
	})
}

// The schemas must be strict enough to detect every kind of mistake in a body.
func TestSchemas_RejectOtherBodies(t *testing.T) {
	for name, event := range examples(t) {
		body := encodedBody(t, event)
		wantInvalid := func(modification string, change func(envelope, data, object map[string]any)) {
			t.Helper()
			tree := decodeBody(t, body)
			data, _ := tree["data"].(map[string]any)
			object, _ := data["object"].(map[string]any)
			change(tree, data, object)
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if validationError(t, name, text) == nil {
				t.Errorf("the schema of %s accepts a body %s", name, modification)
			}
		}
		tree := decodeBody(t, body)
		for key := range tree {
			wantInvalid("without "+key, func(envelope, _, _ map[string]any) { delete(envelope, key) })
			wantInvalid("with another type of "+key, func(envelope, _, _ map[string]any) { envelope[key] = []any{7} })
		}
		for key := range tree["data"].(map[string]any)["object"].(map[string]any) {
			wantInvalid("without object."+key, func(_, _, object map[string]any) { delete(object, key) })
			wantInvalid("with another type of object."+key, func(_, _, object map[string]any) { object[key] = []any{[]any{7}} })
			wantInvalid("with another type of previous_attributes."+key, func(_, data, _ map[string]any) {
				data["previous_attributes"] = map[string]any{key: []any{[]any{7}}}
			})
		}
		wantInvalid("with an additional key", func(envelope, _, _ map[string]any) { envelope["more"] = 1 })
		wantInvalid("with an additional key in data", func(_, data, _ map[string]any) { data["more"] = 1 })
		wantInvalid("with an additional key in its object", func(_, _, object map[string]any) { object["more"] = 1 })
		wantInvalid("with an additional key in its previous attributes", func(_, data, _ map[string]any) { data["previous_attributes"] = map[string]any{"more": 1} })
		wantInvalid("with empty previous attributes", func(_, data, _ map[string]any) { data["previous_attributes"] = map[string]any{} })
		wantInvalid("with another name", func(envelope, _, _ map[string]any) { envelope["type"] = "other.created" })
		wantInvalid("with an id that has dots", func(envelope, _, _ map[string]any) { envelope["id"] = "evt_1.2" })
		wantInvalid("with a timestamp without a date", func(envelope, _, _ map[string]any) { envelope["timestamp"] = "12:00" })
		wantInvalid("with an unknown mode", func(envelope, _, _ map[string]any) { envelope["mode"] = "both" })
	}
}

// maxBody is the greatest size of a body in bytes that docs/contract.md#events states.
const maxBody = 20_000

// The events of this test have the longest values that the API accepts. Fields that
// allow any character have characters of four bytes. Programmes are tested separately,
// because their lists of products and domains can be longer than a body.
func TestEventBody_LargestBodiesAreWithinLimit(t *testing.T) {
	long := func(letters int) string { return strings.Repeat("\U0001F331", letters) }
	url := "https://shop.example/" + strings.Repeat("a", 2048-len("https://shop.example/"))

	payout := examplePayout()
	payout.FailureReason = ptr(long(500))
	ids := make([]affiliate.CommissionID, affiliate.MaxEventCommissions+1)
	for i := range ids {
		ids[i] = exampleID[affiliate.CommissionID](byte(i))
	}

	participant, before := exampleParticipant(affiliate.ParticipantRejected), exampleParticipant(affiliate.ParticipantSuspended)
	participant.PartnerName, before.PartnerName = long(100), long(99)
	participant.ExternalID, before.ExternalID = ptr(long(120)), ptr(long(119))
	participant.ReferralCode, before.ReferralCode = strings.Repeat("a", 50), strings.Repeat("b", 50)
	participant.RejectionReason, before.SuspensionReason = ptr(long(500)), ptr(long(499))

	link, other := exampleLink(), exampleLink()
	link.Code, other.Code = strings.Repeat("a", 50), strings.Repeat("b", 50)
	link.Destination, other.Destination = ptr(url), ptr(url+"?")
	link.SubID, other.SubID = long(255), long(254)
	link.UTM = affiliate.UTM{Source: long(255), Medium: long(255), Campaign: long(255), Term: long(255), Content: long(255)}
	other.UTM = affiliate.UTM{Source: long(254), Medium: long(254), Campaign: long(254), Term: long(254), Content: long(254)}

	code, inactive := examplePromoCode(), examplePromoCode()
	code.Code, inactive.Code, inactive.Active = long(100), long(99), false

	// An explanation contains at most the names of the programmes of all signals, and a
	// promo code.
	c, d := exampleConversion()
	c.ExternalTransactionID, c.PromoCode, d.Explanation = long(255), ptr(long(100)), long(1500)
	for range 14 { // all rules
		d.Fraud = append(d.Fraud, affiliate.FraudSignal{Rule: "same_ip_prefix_as_partner", Score: 100, Evidence: long(200)})
	}
	d.FraudAction = affiliate.FraudBlocked

	commission := exampleCommission()
	commission.NeedsReview, commission.ReviewReasons = true, slices.Repeat([]string{affiliate.ReviewParticipantSuspended}, 20)

	for _, event := range []affiliate.Event{
		payout.CreatedEvent(ids),
		changedEvent(t, affiliate.EventParticipantRejected, before.Object(), participant.Object()),
		changedEvent(t, affiliate.EventLinkUpdated, other.Object(), link.Object()),
		changedEvent(t, affiliate.EventPromoCodeDeactivated, inactive.Object(), code.Object()),
		c.Event(affiliate.EventConversionCreated, d, noon),
		c.FraudDetectedEvent(d),
		affiliate.CommissionEvent(affiliate.EventCommissionReviewRequired, noon, ptr(exampleCommission()), commission),
	} {
		body := encodedBody(t, event)
		if len(body) > maxBody {
			t.Errorf("the body of %s has %d bytes, want at most %d", event.Name, len(body), maxBody)
		}
		t.Logf("%s: %d bytes", event.Name, len(body))
		if err := validationError(t, event.Name, body); err != nil {
			t.Errorf("%s: %v", event.Name, err)
		}
	}
}
