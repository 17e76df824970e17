package event_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func TestEventBody_ShortensLongProgrammes(t *testing.T) {
	page := "https://example.com/?" + strings.Repeat("a=b&", 500)
	sample := program.Program{Name: strings.Repeat("n", 100), Description: &page, WebsiteURL: &page, LandingURL: &page, TermsURL: &page}
	event := func(products int) (body []byte, data map[string]any) {
		t.Helper()
		sample.AllowedDomains, sample.Rules.Products = nil, nil
		for i := range products {
			sample.Rules.Products = append(sample.Rules.Products, program.ProductRate{ProductID: fmt.Sprintf("%0255d", i)})
			sample.AllowedDomains = append(sample.AllowedDomains, fmt.Sprintf("%0240d.example.com", i))
		}
		previous := map[string]any{"commission_rules": sample.Rules.Object()}
		body, err := affiliate.NewEvent(affiliate.Scope{}, affiliate.EventProgramUpdated, time.Now(), sample.Object(), previous).Body()
		if err != nil {
			t.Fatal(err)
		}
		if len(body) > affiliate.MaxBody {
			t.Errorf("the event of a programme with %d products has %d bytes, want at most %d", products, len(body), affiliate.MaxBody)
		}
		var envelope struct {
			Data map[string]any `json:"data"`
		}
		if err := json.Unmarshal(body, &envelope); err != nil {
			t.Fatal(err)
		}
		return body, envelope.Data
	}
	for _, test := range []struct {
		products, listed int
		previous         bool
	}{{3, 3, true}, {15, 15, false}, {200, 8, false}} {
		body, data := event(test.products)
		rules := data["object"].(map[string]any)["commission_rules"].(map[string]any)
		if got := len(rules["products"].([]any)); got != test.listed || rules["product_count"] != float64(test.products) {
			t.Errorf("the event of a programme with %d products lists %d products and has product_count %v, want %d and %d",
				test.products, got, rules["product_count"], test.listed, test.products)
		}
		if _, has := data["previous_attributes"]; has != test.previous {
			t.Errorf("the event of a programme with %d products has previous attributes: %v, want %v", test.products, has, test.previous)
		}
		if strings.Contains(string(body), `\u0026`) || strings.HasSuffix(string(body), "\n") {
			t.Error("the body has HTML escapes or a newline at the end")
		}
	}
}
