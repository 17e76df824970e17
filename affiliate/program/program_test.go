package program

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

func TestProgram_Move(t *testing.T) {
	legal := map[[2]Status]bool{
		{Draft, Active}: true, {Paused, Active}: true, {Active, Paused}: true,
		{Draft, Archived}: true, {Active, Archived}: true, {Paused, Archived}: true,
	}
	all := []Status{Draft, Active, Paused, Archived}
	page, at := "https://shop.example", time.UnixMilli(1).UTC()
	for _, from := range all {
		for _, to := range all {
			before := Program{Status: from, WebsiteURL: &page, Version: 3}
			after, err := before.Move(to, at)
			if !legal[[2]Status{from, to}] {
				affiliatetest.WantRefusal(t, err, from.Refuse())
			} else if err != nil || after.Status != to || after.Version != 4 || !after.UpdatedAt.Equal(at) {
				t.Errorf("move from %s to %s: %+v, error %v; want status %s, version 4 and UpdatedAt %s", from, to, after, err, to, at)
			}
		}
	}
}

func TestProgram_MoveRequiresPageToActivate(t *testing.T) {
	for _, from := range []Status{Draft, Paused} {
		_, err := Program{Status: from}.Move(Active, time.UnixMilli(1))
		affiliatetest.WantRefusal(t, err, affiliate.Invalid("website_url", affiliate.NeedsDestination))
		if _, err := (Program{Status: from}).Move(Archived, time.UnixMilli(1)); err != nil {
			t.Errorf("move from %s to archived without a page: %v", from, err)
		}
	}
}

var slugForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`)

func TestProgramSlugs(t *testing.T) {
	for name, want := range map[string]string{
		"Acme Partners":           "acme-partners",
		"  --Späti & Söhne!  ":    "spati-sohne",
		"Łódź Øre Straße":         "lodz-ore-strasse",
		"L'Oréal":                 "loreal",
		"日本":                      "program",
		"ｆｕｌｌ ｗｉｄｔｈ":              "full-width",
		strings.Repeat("ab-", 40): strings.TrimRight(strings.Repeat("ab-", 40)[:64], "-"),
	} {
		if got := affiliatetest.FirstN(1, Slugs(name))[0]; got != want {
			t.Errorf("the first slug for %q is %q, want %q", name, got, want)
		}
	}
	if got := affiliatetest.FirstN(3, Slugs("Acme")); !slices.Equal(got, []string{"acme", "acme-2", "acme-3"}) {
		t.Errorf("the first slugs for Acme are %q, want acme, acme-2, acme-3", got)
	}
}

func TestProgramSlugs_AreValidAndDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		slugs := affiliatetest.FirstN(120, Slugs(name))
		seen := map[string]bool{}
		for _, s := range slugs {
			if !slugForm.MatchString(s) {
				t.Fatalf("%q gives the invalid slug %q", name, s)
			}
			if seen[s] {
				t.Fatalf("%q gives %q twice", name, s)
			}
			seen[s] = true
		}
	})
}

func TestProgram_PatchIncreasesRulesVersionOnlyForChanges(t *testing.T) {
	p := Program{Name: "P", Slug: "p", Rules: DefaultRules(), RulesVersion: 4}
	same, err := p.Patch(Patch{Rules: RulesPatch{RateBps: affiliate.Set(*p.Rules.RateBps)}})
	if err != nil || same.RulesVersion != 4 {
		t.Errorf("patch with the same rate: version %d, error %v; want 4", same.RulesVersion, err)
	}
	other, err := p.Patch(Patch{Rules: RulesPatch{RateBps: affiliate.Set[int64](1)}})
	if err != nil || other.RulesVersion != 5 || *p.Rules.RateBps != 2000 {
		t.Errorf("patch with another rate: version %d, error %v; want 5, and the original rate 2000, not %d", other.RulesVersion, err, *p.Rules.RateBps)
	}
	rest, err := p.Patch(Patch{Precedence: affiliate.Set(PromoCodeFirst), MinPayoutCents: affiliate.Set[int64](5), PayoutTermDays: affiliate.Set(6), FraudPolicy: affiliate.Set(fraud.Block)})
	if err != nil || rest.RulesVersion != 4 || rest.Precedence != PromoCodeFirst || rest.MinPayoutCents != 5 || rest.PayoutTermDays != 6 || rest.FraudPolicy != fraud.Block {
		t.Errorf("patch of other settings: %+v, error %v", rest, err)
	}
	back, err := rest.Patch(Patch{Precedence: affiliate.Clear[SignalPrecedence](), MinPayoutCents: affiliate.Clear[int64](), PayoutTermDays: affiliate.Clear[int](), FraudPolicy: affiliate.Clear[fraud.Policy]()})
	if err != nil || back.Precedence != ClickFirst || back.MinPayoutCents != 0 || back.PayoutTermDays != 0 || back.FraudPolicy != fraud.Flag {
		t.Errorf("patch that clears settings: %+v, error %v; want the defaults", back, err)
	}
	if _, err := p.Patch(Patch{Name: affiliate.Clear[string]()}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("patch that clears the name: error %v, want a violation of name", err)
	}
}

func TestChangedFields(t *testing.T) {
	before := Program{Name: "A", Slug: "a", Rules: DefaultRules(), Version: 1}
	after := before
	after.Version = 2
	if oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object()); oldValues != nil || newValues != nil || err != nil {
		t.Errorf("only the version differs: ChangedFields returns %v, %v, %v; want nothing", oldValues, newValues, err)
	}
	after.Name = "B"
	after.Rules.HoldDays = 1
	oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
	if err != nil || len(oldValues) != 2 || string(oldValues["name"]) != `"A"` || string(newValues["name"]) != `"B"` ||
		!strings.Contains(string(oldValues["commission_rules"]), `"hold_period_days":30`) {
		t.Errorf("name and rules differ: ChangedFields returns %s, %s, %v", oldValues, newValues, err)
	}
}

func TestProgramObject(t *testing.T) {
	rate := int64(1250)
	p := Program{
		Rules:      Rules{Type: Percentage, RateBps: &rate, HoldDays: 3, NetBasis: Gross},
		Precedence: PromoCodeFirst, MinPayoutCents: 500, PayoutTermDays: 14, FraudPolicy: fraud.Block, Version: 77,
	}
	body, err := json.Marshal(p.Object())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"commission_rules":{"commission_type":"percentage","percentage":12.5,"flat_amount_cents":null,"hold_period_days":3,"auto_approval":false,"net_basis":"gross",` +
			`"recurring":{"enabled":true,"max_months":null,"max_payments":null},"later_percentage":null,"min_order_cents":null,"cap_cents":null,"tiers":[],"products":[],"product_count":0,"events":[]}`,
		`"signal_precedence":"promo_code_first"`, `"min_payout_cents":500`, `"payout_term_days":14`, `"fraud_policy":"block"`,
		`"allowed_domains":[]`, `"description":null`, `"version":77`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the JSON of the programme does not contain %s: %s", want, body)
		}
	}
}

func TestParseWebURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://Shop.Example/path?q=1#f":            "shop.example",
		"http://localhost:8080":                      "localhost",
		"https://127.0.0.1/":                         "127.0.0.1",
		"HTTPS://shop.example":                       "shop.example",
		"":                                           "",
		"shop.example":                               "",
		"//shop.example":                             "",
		"ftp://shop.example":                         "",
		"javascript:alert(1)":                        "",
		"https://":                                   "",
		"https:///path":                              "",
		"https:shop.example":                         "",
		"https://user@shop.example":                  "",
		"https://user:pw@shop.example":               "",
		"https://shop.example:0/":                    "",
		"https://shop.example:99999/":                "",
		"https://shop example/":                      "",
		"https://shop.example/a b":                   "",
		"https://shop.example\\@evil.example/":       "",
		"https://shop..example/":                     "",
		"https://-shop.example/":                     "",
		"https://shöp.example/":                      "",
		"https://shop.example/\n":                    "",
		"https://" + strings.Repeat("a", 64):         "",
		"https://" + strings.Repeat("a.", 130):       "",
		"https://" + strings.Repeat("a.", 120) + "a": strings.Repeat("a.", 120) + "a",
	} {
		host, ok := affiliate.ParseWebURL(in)
		if host != want || ok != (want != "") {
			t.Errorf("ParseWebURL(%q) = %q, %v; want %q", in, host, ok, want)
		}
	}
}

func TestParseAllowedDomain(t *testing.T) {
	for in, want := range map[string]string{
		"Shop.Example":       "shop.example",
		"*.Shop.Example":     "*.shop.example",
		"*.localhost":        "*.localhost",
		"*":                  "",
		"*.":                 "",
		"*shop.example":      "",
		"*.*.example":        "",
		"shop.*.example":     "",
		"*..example":         "",
		"https://a.example":  "",
		"a.example:443":      "",
		"*.a.example/path":   "",
		"*.xn--80ak6aa92e.x": "*.xn--80ak6aa92e.x",
		"":                   "",
	} {
		domain, ok := affiliate.ParseAllowedDomain(in)
		if domain != want || ok != (want != "") {
			t.Errorf("ParseAllowedDomain(%q) = %q, %v; want %q", in, domain, ok, want)
		}
	}
}
