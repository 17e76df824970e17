package event_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/affiliate/event"
	"github.com/tributary-hq/tributary/affiliate/eventtest"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

var update = flag.Bool("update", false, "write the golden files")

func TestEventObjects_SchemasAndExamplesAreComplete(t *testing.T) {
	want := []affiliate.EventName{affiliate.EventWebhookPing}
	for _, kind := range affiliate.Catalogue() {
		want = append(want, kind.Name)
	}
	slices.Sort(want)
	compiled, err := eventtest.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	for kind, got := range map[string][]affiliate.EventName{
		"objects":  slices.Sorted(maps.Keys(event.EventObjects())),
		"schemas":  slices.Sorted(maps.Keys(compiled)),
		"examples": slices.Sorted(maps.Keys(eventtest.Examples(t))),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("there are %s for the events %q, want %q", kind, got, want)
		}
	}
}

// The names, the order and the formats of published fields must not change.
func TestEventBody_MatchesGoldenFiles(t *testing.T) {
	for name, event := range eventtest.Examples(t) {
		file := filepath.Join("testdata", "events", string(name)+".json")
		got := append(eventtest.EncodedBody(t, event), '\n')
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
	if err := json.Unmarshal(eventtest.EncodedBody(t, eventtest.Examples(t)[affiliate.EventConversionFraudDetected]), &body); err != nil {
		t.Fatal(err)
	}
	if score := body.Data.Object.Score; score < fraud.SuspiciousScore {
		t.Errorf("the example has score %d, want at least %d", score, fraud.SuspiciousScore)
	}
}

func TestEventBody_ExamplesSatisfySchemas(t *testing.T) {
	for name, event := range eventtest.Examples(t) {
		if err := eventtest.ValidationError(t, name, eventtest.EncodedBody(t, event)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommissionEvents_SatisfySchemas(t *testing.T) {
	eventNames, seen := map[affiliate.EventName]bool{}, map[string]bool{}
	for _, c := range commissiontest.Commissions() {
		c.Scope = affiliatetest.Scope
		for _, move := range commissiontest.Transitions() {
			after, refusal := move.Apply(c)
			if refusal != nil {
				continue
			}
			for _, event := range (commission.Change{Before: &c, After: after, Transition: move}).Events() {
				body := eventtest.EncodedBody(t, event)
				_, data, _ := strings.Cut(string(body), `"data"`)
				if seen[string(event.Name)+data] {
					continue
				}
				seen[string(event.Name)+data] = true
				eventNames[event.Name] = true
				if err := eventtest.ValidationError(t, event.Name, body); err != nil {
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
			event := affiliate.NewEvent(affiliatetest.Scope, name, instants.Draw(t, "at"), after, nil)
			if oldValues != nil {
				event.Previous = oldValues
			}
			body := eventtest.EncodedBody(t, event)
			if err := eventtest.ValidationError(t, name, body); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, body)
			}
		}
		participant := func(label string) participant.Object {
			p := eventtest.Participant(rapid.SampledFrom(participant.RejectParticipant.From()).Draw(t, label))
			p.Status = rapid.SampledFrom([]participant.Status{participant.Pending, participant.Rejected, participant.Suspended}).Draw(t, label)
			p.PartnerName = texts().Draw(t, label)
			p.RejectionReason, p.SuspensionReason = optionalValue(t, texts(), label), optionalValue(t, texts(), label)
			return p.Object()
		}
		check(affiliate.EventParticipantSuspended, participant("before"), participant("after"))

		link := func(label string) link.Object {
			l := eventtest.Link()
			l.Destination, l.SubID = optionalValue(t, texts(), label), texts().Draw(t, label)
			l.UTM = click.UTM{Source: texts().Draw(t, label), Medium: texts().Draw(t, label), Term: texts().Draw(t, label), Content: texts().Draw(t, label)}
			l.IsDefault = rapid.Bool().Draw(t, label)
			return l.Object()
		}
		check(affiliate.EventLinkUpdated, link("before"), link("after"))

		code := func(label string) promocode.Object {
			c := eventtest.PromoCode()
			if rapid.Bool().Draw(t, label) {
				c.DiscountType, c.Currency = promocode.DiscountFixed, new("EUR")
			}
			c.DiscountValue = rapid.Int64Range(1, 10000).Draw(t, label)
			c.MaxRedemptions, c.ExpiresAt = optionalValue(t, number, label), optionalValue(t, instants, label)
			return c.Object()
		}
		check(affiliate.EventPromoCodeDeactivated, code("before"), code("after"))

		program := func(label string) program.Object {
			p := eventtest.Program()
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

		c, d := eventtest.Conversion()
		c.Money = rapid.SampledFrom([]affiliate.Money{{}, {Cents: 1, Currency: "JPY"}}).Draw(t, "paid")
		c.Click, c.PromoCode = optionalValue(t, rapid.Just(affiliatetest.ID[affiliate.ClickID](1)), "click"), optionalValue(t, texts(), "code")
		d.Method, d.ClickedAt, d.ExpiresAt = optionalValue(t, rapid.Just(attribution.ByPromoCode), "method"), optionalValue(t, instants, "clicked"), optionalValue(t, instants, "expires")
		d.Program, d.Participant = optionalValue(t, rapid.Just(affiliatetest.ID[affiliate.ProgramID](1)), "program"), optionalValue(t, rapid.Just(affiliatetest.ID[affiliate.ParticipantID](1)), "participant")
		refunded := c
		refunded.RefundedAmountCents = number.Draw(t, "refunded")
		event := refunded.RefundedEvent(c, d, instants.Draw(t, "at"))
		if err := eventtest.ValidationError(t, event.Name, eventtest.EncodedBody(t, event)); err != nil {
			t.Fatalf("%s: %v", event.Name, err)
		}
	})
}

// The schemas must be strict enough to detect every kind of mistake in a body.
func TestSchemas_RejectOtherBodies(t *testing.T) {
	for name, event := range eventtest.Examples(t) {
		body := eventtest.EncodedBody(t, event)
		wantInvalid := func(modification string, change func(envelope, data, object map[string]any)) {
			t.Helper()
			tree := eventtest.DecodeBody(t, body)
			data, _ := tree["data"].(map[string]any)
			object, _ := data["object"].(map[string]any)
			change(tree, data, object)
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if eventtest.ValidationError(t, name, text) == nil {
				t.Errorf("the schema of %s accepts a body %s", name, modification)
			}
		}
		tree := eventtest.DecodeBody(t, body)
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

	sample := eventtest.Payout()
	sample.FailureReason = new(long(500))
	ids := make([]affiliate.CommissionID, payout.MaxEventCommissions+1)
	for i := range ids {
		ids[i] = affiliatetest.ID[affiliate.CommissionID](byte(i))
	}

	joined, before := eventtest.Participant(participant.Rejected), eventtest.Participant(participant.Suspended)
	joined.PartnerName, before.PartnerName = long(100), long(99)
	joined.ExternalID, before.ExternalID = new(long(120)), new(long(119))
	joined.ReferralCode, before.ReferralCode = strings.Repeat("a", 50), strings.Repeat("b", 50)
	joined.RejectionReason, before.SuspensionReason = new(long(500)), new(long(499))

	link, other := eventtest.Link(), eventtest.Link()
	link.Code, other.Code = strings.Repeat("a", 50), strings.Repeat("b", 50)
	link.Destination, other.Destination = new(url), new(url+"?")
	link.SubID, other.SubID = long(255), long(254)
	link.UTM = click.UTM{Source: long(255), Medium: long(255), Campaign: long(255), Term: long(255), Content: long(255)}
	other.UTM = click.UTM{Source: long(254), Medium: long(254), Campaign: long(254), Term: long(254), Content: long(254)}

	code, inactive := eventtest.PromoCode(), eventtest.PromoCode()
	code.Code, inactive.Code, inactive.Active = long(100), long(99), false

	// An explanation contains at most the names of the programmes of all signals, and a
	// promo code.
	c, d := eventtest.Conversion()
	c.ExternalTransactionID, c.PromoCode, d.Explanation = long(255), new(long(100)), long(1500)
	for range 14 { // all rules
		d.Trace.Fraud = append(d.Trace.Fraud, fraud.Signal{Rule: "same_ip_prefix_as_partner", Score: 100, Evidence: long(200)})
	}
	d.FraudAction = fraud.Blocked

	earned := eventtest.Commission()
	earned.NeedsReview, earned.ReviewReasons = true, slices.Repeat([]string{participant.ReviewParticipantSuspended}, 20)

	for _, event := range []affiliate.Event{
		sample.CreatedEvent(ids),
		eventtest.Changed(t, affiliate.EventParticipantRejected, before.Object(), joined.Object()),
		eventtest.Changed(t, affiliate.EventLinkUpdated, other.Object(), link.Object()),
		eventtest.Changed(t, affiliate.EventPromoCodeDeactivated, inactive.Object(), code.Object()),
		c.Event(affiliate.EventConversionCreated, d, affiliatetest.Noon),
		c.FraudDetectedEvent(d),
		commission.NewEvent(affiliate.EventCommissionReviewRequired, affiliatetest.Noon, new(eventtest.Commission()), earned),
	} {
		body := eventtest.EncodedBody(t, event)
		if len(body) > maxBody {
			t.Errorf("the body of %s has %d bytes, want at most %d", event.Name, len(body), maxBody)
		}
		t.Logf("%s: %d bytes", event.Name, len(body))
		if err := eventtest.ValidationError(t, event.Name, body); err != nil {
			t.Errorf("%s: %v", event.Name, err)
		}
	}
}
