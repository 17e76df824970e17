package affiliate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The order of the events is part of the API: GET /webhooks/event-types returns them in
// this order.
func TestCatalogue_Order(t *testing.T) {
	want := strings.Fields(`
		conversion.created conversion.refunded conversion.fraud_detected conversion.reattributed
		commission.created commission.approved commission.rejected commission.paid commission.refunded
		commission.updated commission.review_required commission.disputed commission.dispute_resolved
		participant.applied participant.approved participant.rejected participant.suspended participant.reinstated participant.erased
		payout.created payout.processing payout.paid payout.failed payout.canceled
		link.created link.updated promo_code.created promo_code.deactivated program.updated
		gdpr.export_ready gdpr.buyer_erasure_completed`)
	var got []string
	for _, kind := range Catalogue() {
		got = append(got, string(kind.Name))
	}
	if !slices.Equal(got, want) || len(got) != 31 {
		t.Errorf("%d events: %q\nwant 31: %q", len(got), got, want)
	}
}

func TestCatalogue_HasEveryEventExceptPing(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "event_catalogue.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []EventName
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "EventName" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		declared = append(declared, EventName(text))
		return true
	})
	for _, kind := range Catalogue() {
		listed = append(listed, kind.Name)
	}
	if !slices.Equal(declared, append(listed, EventWebhookPing)) {
		t.Errorf("the constants are %q, but the catalogue lists %q", declared, listed)
	}
}

func TestCatalogue_Descriptions(t *testing.T) {
	seen := map[string]EventName{}
	for _, kind := range Catalogue() {
		sentence := kind.Description
		if len(sentence) < 15 || len(sentence) > 150 || sentence[0] < 'A' || sentence[0] > 'Z' || strings.IndexByte(sentence, '.') != len(sentence)-1 {
			t.Errorf("%s: %q is not one sentence of 15 to 150 characters", kind.Name, sentence)
		}
		if other, ok := seen[sentence]; ok {
			t.Errorf("%s has the same description as %s", kind.Name, other)
		}
		seen[sentence] = kind.Name
	}
}

func TestCatalogue_ReturnsACopy(t *testing.T) {
	Catalogue()[0].Name = EventWebhookPing
	if name := Catalogue()[0].Name; name != EventConversionCreated {
		t.Errorf("after a change of the copy, the first event of the catalogue is %s, want %s", name, EventConversionCreated)
	}
}

func TestEventNameNoun(t *testing.T) {
	for name, want := range map[EventName]string{"promo_code.created": "promo_code", "gdpr.export_ready": "gdpr", "": ""} {
		if got := name.Noun(); got != want {
			t.Errorf("EventName(%q).Noun() = %q, want %q", name, got, want)
		}
	}
}
