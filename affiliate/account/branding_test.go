package account_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/account"
)

func TestAccent_IsReadableOnLightAndDarkPages(t *testing.T) {
	for _, test := range []struct {
		color       string
		light, dark account.Shade
	}{
		{"#0a7f5a", account.Shade{Color: "#0a7f5a", Text: "#ffffff"}, account.Shade{Color: "#0a7f5a", Text: "#ffffff"}},
		{"#000080", account.Shade{Color: "#000080", Text: "#ffffff"}, account.Shade{Color: "#5757ab", Text: "#ffffff"}},
		{"#ffe600", account.Shade{Color: "#a69600", Text: "#000000"}, account.Shade{Color: "#ffe600", Text: "#000000"}},
		{"#ffffff", account.Shade{Color: "#949494", Text: "#000000"}, account.Shade{Color: "#ffffff", Text: "#000000"}},
		{"#000000", account.Shade{Color: "#000000", Text: "#ffffff"}, account.Shade{Color: "#616161", Text: "#ffffff"}},
	} {
		if light, dark := account.Accent(test.color); light != test.light || dark != test.dark {
			t.Errorf("Accent(%s) = %v, %v; want %v, %v", test.color, light, dark, test.light, test.dark)
		}
	}
	for r := 0; r < 256; r += 17 {
		for g := 0; g < 256; g += 17 {
			for b := 0; b < 256; b += 17 {
				color := fmt.Sprintf("#%02x%02x%02x", r, g, b)
				light, dark := account.Accent(color)
				for _, pair := range []struct {
					a, b  string
					least float64
				}{{light.Color, "#ffffff", 3}, {dark.Color, "#111111", 3}, {light.Color, light.Text, 4.5}, {dark.Color, dark.Text, 4.5}} {
					if got := account.Contrast(pair.a, pair.b); got < pair.least {
						t.Fatalf("accent %s: the contrast of %s and %s is %.2f, want at least %.1f", color, pair.a, pair.b, got, pair.least)
					}
				}
			}
		}
	}
}

func TestSlugs_AreValidForEveryName(t *testing.T) {
	for name, first := range map[string]string{
		"Acme Shop": "acme-shop", "Käfer & Söhne GmbH": "kafer-sohne-gmbh", "A": "a-2", "Ab": "ab-2", "Portal": "portal-2", "日本": "workspace",
		"A very long name of a company that goes on and on": "a-very-long-name-of-a-compa",
	} {
		slugs := account.Slugs(name)
		if slugs[0] != first {
			t.Errorf("Slugs(%q) begins with %s, want %s", name, slugs[0], first)
		}
		if slices.ContainsFunc(slugs, func(s string) bool { return len(s) < 3 || len(s) > 40 || account.ReservedSlug(s) }) {
			t.Errorf("Slugs(%q) = %v, want only valid slugs", name, slugs)
		}
		if again := account.Slugs(name); again[len(again)-1] == slugs[len(slugs)-1] {
			t.Errorf("the last slug of %q is %s twice, want random slugs", name, again[len(again)-1])
		}
	}
}
