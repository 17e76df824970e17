package affiliate

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestProgramMoves(t *testing.T) {
	legal := map[[2]ProgramStatus]bool{
		{ProgramDraft, ProgramActive}: true, {ProgramPaused, ProgramActive}: true, {ProgramActive, ProgramPaused}: true,
		{ProgramDraft, ProgramArchived}: true, {ProgramActive, ProgramArchived}: true, {ProgramPaused, ProgramArchived}: true,
	}
	all := []ProgramStatus{ProgramDraft, ProgramActive, ProgramPaused, ProgramArchived}
	for _, from := range all {
		for _, to := range all {
			if got := from.MoveTo(to); got != legal[[2]ProgramStatus{from, to}] {
				t.Errorf("%s → %s: %v", from, to, got)
			}
			if got := slices.Contains(to.Sources(), from); got != from.MoveTo(to) {
				t.Errorf("the sources of %s hold %s: %v", to, from, got)
			}
		}
	}
}

var slugForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`)

func first(n int, slugs func(func(string) bool)) []string {
	var out []string
	for s := range slugs {
		if out = append(out, s); len(out) == n {
			break
		}
	}
	return out
}

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
		if got := first(1, ProgramSlugs(name))[0]; got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if got := first(3, ProgramSlugs("Acme")); !slices.Equal(got, []string{"acme", "acme-2", "acme-3"}) {
		t.Errorf("namesakes: %q", got)
	}
}

func TestProgramSlugsAreWellFormedAndDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		slugs := first(120, ProgramSlugs(name))
		seen := map[string]bool{}
		for _, s := range slugs {
			if !slugForm.MatchString(s) {
				t.Fatalf("%q makes %q", name, s)
			}
			if seen[s] {
				t.Fatalf("%q makes %q twice", name, s)
			}
			seen[s] = true
		}
	})
}

func TestPercentIsExact(t *testing.T) {
	for bps, want := range map[int64]json.Number{0: "0", 1: "0.01", 10: "0.1", 2000: "20", 1250: "12.5", 1234: "12.34", 10000: "100"} {
		if got := Percent(bps); got != want {
			t.Errorf("Percent(%d) = %s, want %s", bps, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		bps := rapid.Int64Range(0, WholeBps).Draw(t, "bps")
		whole, cents, _ := strings.Cut(string(Percent(bps)), ".")
		digits, err := json.Number(whole + (cents + "00")[:2]).Int64()
		if err != nil || digits != bps || strings.HasSuffix(cents, "0") {
			t.Fatalf("Percent(%d) = %s", bps, Percent(bps))
		}
	})
}

func genChange[T any](t *rapid.T, name string, value *rapid.Generator[T]) Change[T] {
	switch rapid.IntRange(0, 2).Draw(t, name) {
	case 0:
		return Change[T]{}
	case 1:
		return Clear[T]()
	}
	return Set(value.Draw(t, name+" value"))
}

func genRulesPatch(t *rapid.T) RulesPatch {
	return RulesPatch{
		Reset:        rapid.Bool().Draw(t, "reset"),
		Type:         genChange(t, "type", rapid.SampledFrom([]CommissionType{Percentage, Flat})),
		RateBps:      genChange(t, "rate", rapid.Int64Range(0, WholeBps)),
		FlatCents:    genChange(t, "flat", rapid.Int64Range(0, MaxAmountCents)),
		HoldDays:     genChange(t, "hold", rapid.IntRange(0, 180)),
		AutoApproval: genChange(t, "auto", rapid.Bool()),
		NetBasis:     genChange(t, "basis", rapid.SampledFrom([]NetBasis{Gross, NetOfTax})),
	}
}

// Whatever is patched onto valid rules, what is accepted is valid again, has
// the amount of its type alone, and stays when it is patched once more.
func TestRulesStayValidUnderPatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		for range rapid.IntRange(1, 4).Draw(t, "patches") {
			patch := genRulesPatch(t)
			next, wrong := rules.Patch(patch)
			if len(wrong) > 0 {
				continue
			}
			if (next.Type == Percentage) != (next.RateBps != nil) || (next.Type == Flat) != (next.FlatCents != nil) {
				t.Fatalf("%+v onto %+v: %+v", patch, rules, next)
			}
			if next.NetBasis == "" || next.HoldDays < 0 || next.HoldDays > 180 {
				t.Fatalf("%+v onto %+v: %+v", patch, rules, next)
			}
			again, wrong := next.Patch(patch)
			if len(wrong) == 0 && !again.Equal(next) {
				t.Fatalf("%+v is no fixed point of %+v: %+v", next, patch, again)
			}
			rules = next
		}
	})
}

func TestRulesPatches(t *testing.T) {
	rate, flat := int64(1500), int64(700)
	percentage := Rules{Type: Percentage, RateBps: &rate, HoldDays: 10, NetBasis: NetOfTax}
	fixed := Rules{Type: Flat, FlatCents: &flat, HoldDays: 10, NetBasis: NetOfTax}
	for _, tc := range []struct {
		name  string
		from  Rules
		patch RulesPatch
		want  func(Rules) Rules
		wrong string
	}{
		{name: "nothing", from: percentage, want: func(r Rules) Rules { return r }},
		{name: "the rate", from: percentage, patch: RulesPatch{RateBps: Set[int64](1)}, want: func(r Rules) Rules { one := int64(1); r.RateBps = &one; return r }},
		{name: "to flat", from: percentage, patch: RulesPatch{Type: Set(Flat), FlatCents: Set[int64](700)}, want: func(Rules) Rules { return fixed }},
		{name: "to flat, rate cleared beside it", from: percentage, patch: RulesPatch{Type: Set(Flat), FlatCents: Set[int64](700), RateBps: Clear[int64]()}, want: func(Rules) Rules { return fixed }},
		{name: "to flat without amount", from: percentage, patch: RulesPatch{Type: Set(Flat)}, wrong: "commission_rules.flat_amount_cents"},
		{name: "to flat with a rate", from: percentage, patch: RulesPatch{Type: Set(Flat), FlatCents: Set[int64](700), RateBps: Set[int64](1)}, wrong: "commission_rules.percentage"},
		{name: "a flat amount onto a percentage", from: percentage, patch: RulesPatch{FlatCents: Set[int64](700)}, wrong: "commission_rules.flat_amount_cents"},
		{name: "a cleared flat amount onto a percentage", from: percentage, patch: RulesPatch{FlatCents: Clear[int64]()}, want: func(r Rules) Rules { return r }},
		{name: "rate cleared", from: percentage, patch: RulesPatch{RateBps: Clear[int64]()}, wrong: "commission_rules.percentage"},
		{name: "to percentage", from: fixed, patch: RulesPatch{Type: Set(Percentage), RateBps: Set[int64](1500)}, want: func(Rules) Rules { return percentage }},
		{name: "type cleared without a rate", from: fixed, patch: RulesPatch{Type: Clear[CommissionType]()}, wrong: "commission_rules.percentage"},
		{name: "everything else cleared", from: fixed, patch: RulesPatch{HoldDays: Clear[int](), AutoApproval: Clear[bool](), NetBasis: Clear[NetBasis]()}, want: func(r Rules) Rules {
			r.HoldDays, r.AutoApproval, r.NetBasis = 30, true, Gross
			return r
		}},
		{name: "reset", from: fixed, patch: RulesPatch{Reset: true}, want: func(Rules) Rules { return DefaultRules() }},
	} {
		got, wrong := tc.from.Patch(tc.patch)
		if tc.wrong != "" {
			if len(wrong) != 1 || wrong[0].Field != tc.wrong {
				t.Errorf("%s: violations %v, want %s", tc.name, wrong, tc.wrong)
			}
			continue
		}
		if want := tc.want(tc.from); len(wrong) > 0 || !got.Equal(want) {
			t.Errorf("%s: %+v, %v; want %+v", tc.name, got, wrong, want)
		}
	}
}

func TestProgramPatchCountsRulesOnlyWhenTheyDiffer(t *testing.T) {
	p := Program{Name: "P", Slug: "p", Rules: DefaultRules(), RulesVersion: 4}
	same, err := p.Patch(ProgramPatch{Rules: RulesPatch{RateBps: Set(*p.Rules.RateBps)}})
	if err != nil || same.RulesVersion != 4 {
		t.Errorf("the same rate: version %d, %v", same.RulesVersion, err)
	}
	other, err := p.Patch(ProgramPatch{Rules: RulesPatch{RateBps: Set[int64](1)}})
	if err != nil || other.RulesVersion != 5 || *p.Rules.RateBps != 2000 {
		t.Errorf("another rate: version %d, %v; the original has %d", other.RulesVersion, err, *p.Rules.RateBps)
	}
	if _, err := p.Patch(ProgramPatch{Name: Clear[string]()}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("a cleared name: %v", err)
	}
}

func TestChangedNamesWhatDiffers(t *testing.T) {
	before := Program{Name: "A", Slug: "a", Rules: DefaultRules(), Version: 1}
	after := before
	after.Version = 2
	if was, is, err := Changed(before.Object(), after.Object()); was != nil || is != nil || err != nil {
		t.Errorf("the version alone: %v, %v, %v", was, is, err)
	}
	after.Name = "B"
	after.Rules.HoldDays = 1
	was, is, err := Changed(before.Object(), after.Object())
	if err != nil || len(was) != 2 || string(was["name"]) != `"A"` || string(is["name"]) != `"B"` ||
		!strings.Contains(string(was["commission_rules"]), `"hold_period_days":30`) {
		t.Errorf("was %s, is %s, %v", was, is, err)
	}
}

func TestProgramObject(t *testing.T) {
	rate := int64(1250)
	p := Program{Rules: Rules{Type: Percentage, RateBps: &rate, HoldDays: 3, NetBasis: Gross}, Version: 77}
	body, err := json.Marshal(p.Object())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"commission_rules":{"commission_type":"percentage","percentage":12.5,"flat_amount_cents":null,"hold_period_days":3,"auto_approval":false,"net_basis":"gross"}`,
		`"allowed_domains":[]`, `"description":null`, `"version":77`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in %s", want, body)
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
		host, ok := ParseWebURL(in)
		if host != want || ok != (want != "") {
			t.Errorf("ParseWebURL(%q) = %q, %v; want %q", in, host, ok, want)
		}
	}
}
