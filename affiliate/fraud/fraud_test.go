package fraud

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ordinaryClick returns a click that no rule finds suspicious.
func ordinaryClick() *Click { return &Click{TimeToEvent: time.Hour, ClicksInHour: 1} }

func TestEvaluate_RuleFiresOnlyOnItsFacts(t *testing.T) {
	settings := Settings{
		BlockedCountries: []string{"AQ"}, CouponSites: []string{"coupons.example"}, BrandTerms: []string{"acme", "acme shop"},
	}
	click := func(change func(*Click)) Facts {
		c := ordinaryClick()
		change(c)
		return Facts{Click: c}
	}
	for name, tc := range map[string]struct {
		facts Facts
		fires []string
	}{
		"nothing is known":                            {Facts{}, nil},
		"an ordinary click":                           {Facts{Click: ordinaryClick(), ConversionsInHour: 1}, nil},
		"the partner's e-mail address":                {Facts{SameEmail: true}, []string{"self_referral_email"}},
		"the partner's former e-mail address":         {Facts{FormerEmail: true}, []string{"self_referral_email"}},
		"the domain of the partner":                   {Facts{BuyerDomain: "shop.example", PartnerDomain: "shop.example"}, []string{"self_referral_domain"}},
		"another domain":                              {Facts{BuyerDomain: "shop.example", PartnerDomain: "other.example"}, nil},
		"no e-mail addresses":                         {Facts{BuyerDomain: "", PartnerDomain: ""}, nil},
		"the same public mail provider":               {Facts{BuyerDomain: "gmail.com", PartnerDomain: "gmail.com"}, nil},
		"the partner's network":                       {Facts{SameNetwork: true}, []string{"same_ip_prefix_as_partner"}},
		"the partner's device":                        {Facts{SameDevice: true}, []string{"same_device_as_partner"}},
		"4.999 seconds after the click":               {click(func(c *Click) { c.TimeToEvent = 4999 * time.Millisecond }), []string{"click_to_convert"}},
		"5 seconds after the click":                   {click(func(c *Click) { c.TimeToEvent = 5 * time.Second }), nil},
		"event before the click":                      {click(func(c *Click) { c.TimeToEvent = -time.Minute }), nil},
		"the tenth conversion of an hour":             {Facts{ConversionsInHour: 10}, nil},
		"the eleventh conversion of an hour":          {Facts{ConversionsInHour: 11}, []string{"conversion_velocity"}},
		"the 100th click of an hour":                  {click(func(c *Click) { c.ClicksInHour = 100 }), nil},
		"the 101st click of an hour":                  {click(func(c *Click) { c.ClicksInHour = 101 }), []string{"click_velocity"}},
		"another partner's customer":                  {Facts{DuplicateCustomer: true}, []string{"duplicate_customer"}},
		"a disposable e-mail address":                 {Facts{BuyerDomain: "mailinator.com"}, []string{"disposable_email"}},
		"a disposable e-mail address, subdomain":      {Facts{BuyerDomain: "x.mailinator.com"}, []string{"disposable_email"}},
		"a domain that only ends with a listed name":  {Facts{BuyerDomain: "notmailinator.com"}, nil},
		"two disposable e-mail addresses":             {Facts{BuyerDomain: "yopmail.com", PartnerDomain: "yopmail.com"}, []string{"self_referral_domain", "disposable_email"}},
		"a blocked country":                           {click(func(c *Click) { c.Country = "AQ" }), []string{"blocked_country"}},
		"another country":                             {click(func(c *Click) { c.Country = "DE" }), nil},
		"a campaign medium that names search ads":     {click(func(c *Click) { c.Medium = "Paid-Search" }), []string{"paid_search"}},
		"an ad on a search engine":                    {click(func(c *Click) { c.Medium, c.Referrer = "cpc", "www.google.co.uk" }), []string{"paid_search"}},
		"an ad whose campaign names an engine":        {click(func(c *Click) { c.Medium, c.Source = "PPC", "Bing" }), []string{"paid_search"}},
		"an ad's click id":                            {click(func(c *Click) { c.PaidPlatform, c.Medium = "microsoft", "referral" }), []string{"paid_search"}},
		"a social network's click id":                 {click(func(c *Click) { c.PaidPlatform = "tiktok" }), nil},
		"an ad on a social network":                   {click(func(c *Click) { c.Medium, c.Source = "cpc", "facebook" }), nil},
		"an organic search":                           {click(func(c *Click) { c.Medium, c.Referrer = "organic", "google.com" }), nil},
		"a search for the brand":                      {click(func(c *Click) { c.Term, c.Referrer = "ACME+coupon", "bing.com" }), []string{"paid_search"}},
		"a search for a word that contains the brand": {click(func(c *Click) { c.Term, c.Referrer = "acmeish things", "bing.com" }), nil},
		"the brand term with a blog as referrer":      {click(func(c *Click) { c.Term, c.Referrer = "acme", "blog.example" }), nil},
		"a click of a bot":                            {click(func(c *Click) { c.Bot = true }), []string{"bot_click"}},
		"a coupon site's code without a click":        {Facts{PromoCodeOnly: true, PartnerDomain: "www.coupons.example"}, []string{"no_click_signals"}},
		"another partner's code without a click":      {Facts{PromoCodeOnly: true, PartnerDomain: "blog.example"}, nil},
		"a coupon site's code with a click":           {Facts{Click: ordinaryClick(), PartnerDomain: "coupons.example"}, nil},
		"6 of 20 conversions refunded":                {Facts{ExaminedConversions: 20, RefundedConversions: 6}, nil},
		"7 of 20 conversions refunded":                {Facts{ExaminedConversions: 20, RefundedConversions: 7}, []string{"refund_rate"}},
		"all refunded, but fewer than 20":             {Facts{ExaminedConversions: 19, RefundedConversions: 19}, nil},
	} {
		verdict := Evaluate(tc.facts, settings)
		var fired []string
		for _, s := range verdict.Signals {
			fired = append(fired, s.Rule)
		}
		if !slices.Equal(fired, tc.fires) {
			t.Errorf("%s: the rules %q fire, want %q", name, fired, tc.fires)
		}
		if verdict.Signals == nil {
			t.Errorf("%s: Signals is nil", name)
		}
		disabled := settings
		disabled.DisabledRules = tc.fires
		if result := Evaluate(tc.facts, disabled); len(result.Signals) != 0 || result.Score != 0 || result.SelfReferral || result.NeedsReview {
			t.Errorf("%s: with the rules %q disabled, the result is %+v, want no signals", name, tc.fires, result)
		}
	}
}

func TestEvaluate_EmptySettingsMatchNothing(t *testing.T) {
	facts := Facts{Click: ordinaryClick(), PromoCodeOnly: true, PartnerDomain: "coupons.example"}
	facts.Click.Term, facts.Click.Referrer = "acme", "google.com"
	if v := Evaluate(facts, Settings{BrandTerms: []string{"--"}}); len(v.Signals) != 0 {
		t.Errorf("signals %+v, want none", v.Signals)
	}
}

func TestEvaluate_ScoreIsLimitedTo100(t *testing.T) {
	for name, tc := range map[string]struct {
		facts        Facts
		score        int
		selfReferral bool
		review       bool
	}{
		"no rule":             {Facts{}, 0, false, false},
		"two rules":           {Facts{SameNetwork: true, BuyerDomain: "yopmail.com"}, 70, false, false},
		"exactly a hundred":   {Facts{SameNetwork: true, SameDevice: true}, 100, false, false},
		"more than a hundred": {Facts{SameEmail: true, SameDevice: true, BuyerDomain: "a.example", PartnerDomain: "a.example"}, 100, true, false},
		"same domain":         {Facts{BuyerDomain: "a.example", PartnerDomain: "a.example"}, 60, true, false},
		"review only":         {Facts{ExaminedConversions: 20, RefundedConversions: 20}, 0, false, true},
		"review and a score":  {Facts{ExaminedConversions: 20, RefundedConversions: 20, SameNetwork: true}, 40, false, true},
	} {
		v := Evaluate(tc.facts, Settings{})
		if v.Score != tc.score || v.SelfReferral != tc.selfReferral || v.NeedsReview != tc.review {
			t.Errorf("%s: score %d, self-referral %v, needs review %v; want %d, %v, %v",
				name, v.Score, v.SelfReferral, v.NeedsReview, tc.score, tc.selfReferral, tc.review)
		}
	}
}

// The names and scores are public, because merchants disable rules by name.
func TestRules_NamesAndScores(t *testing.T) {
	want := map[string]int{
		"self_referral_email": 100, "self_referral_domain": 60, "same_ip_prefix_as_partner": 40, "same_device_as_partner": 60,
		"click_to_convert": 40, "conversion_velocity": 40, "click_velocity": 30, "duplicate_customer": 40, "disposable_email": 30,
		"blocked_country": 50, "paid_search": 50, "bot_click": 70, "no_click_signals": 10, "refund_rate": 0,
	}
	rules := Rules()
	if len(rules) != len(want) {
		t.Errorf("%d rules, want %d", len(rules), len(want))
	}
	for i, r := range rules {
		if score, ok := want[r.Name]; !ok || r.Score != score {
			t.Errorf("unexpected rule %s with score %d", r.Name, r.Score)
		}
		if i > 0 && r.Score > rules[i-1].Score {
			t.Errorf("%s is listed after %s, which has a lower score", r.Name, rules[i-1].Name)
		}
		if !RuleExists(r.Name) || !strings.HasSuffix(r.Description, ".") {
			t.Errorf("rule %+v is not known, or its description is not a sentence", r)
		}
	}
	if RuleExists("luck") {
		t.Error("RuleExists returns true for a rule that does not exist")
	}
}

func TestDomainLists_AreWellFormedAndDisjoint(t *testing.T) {
	for name, list := range map[string]string{"free": freeList, "disposable": disposableList} {
		seen := map[string]bool{}
		for line := range strings.Lines(list) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") {
				continue
			}
			if line != strings.ToLower(line) || !strings.Contains(line, ".") || strings.ContainsAny(line, " \t@") || seen[line] {
				t.Errorf("list %s: malformed or repeated line %q", name, line)
			}
			seen[line] = true
		}
		if len(seen) < 100 {
			t.Errorf("list %s has only %d domains, want at least 100", name, len(seen))
		}
	}
	for domain := range disposableDomains {
		if freeDomains.contains(domain) {
			t.Errorf("%s is in both lists", domain)
		}
	}
}
