package link

import (
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/click"
)

func TestAllowedDestination(t *testing.T) {
	domains := []string{"shop.example", "*.brand.example", "xn--mnchen-3ya.example"}
	for destination, want := range map[string]bool{
		"https://shop.example":                                    true,
		"http://shop.example/a?b=c#d":                             true,
		"HTTPS://SHOP.EXAMPLE/Page":                               true,
		"https://shop.example:8443/":                              true,
		"https://www.brand.example/":                              true,
		"https://a.b.brand.example/":                              true,
		"https://xn--mnchen-3ya.example/":                         true,
		"https://shop.example/?to=https://evil.example":           true,
		"https://shop.example#@evil.example":                      true,
		"https://shop.example?@evil.example":                      true,
		"https://brand.example/":                                  false,
		"https://evilbrand.example/":                              false,
		"https://www.shop.example/":                               false,
		"https://evil.example/":                                   false,
		"https://shop.example.evil.example/":                      false,
		"https://evilshop.example/":                               false,
		"https://www.brand.example.evil.example/":                 false,
		"https://shop.example@evil.example/":                      false,
		"https://shop.example:443@evil.example/":                  false,
		"https://user@shop.example/":                              false,
		"https://user:password@shop.example/":                     false,
		"https://@shop.example/":                                  false,
		`https://evil.example\@shop.example/`:                     false,
		`https://shop.example\.evil.example/`:                     false,
		`https:\\shop.example`:                                    false,
		"https://evil.example\\.shop.example":                     false,
		"//shop.example/":                                         false,
		"///shop.example/":                                        false,
		"https:///shop.example/":                                  false,
		"https:/shop.example/":                                    false,
		"https:shop.example/":                                     false,
		"/page":                                                   false,
		"shop.example":                                            false,
		"":                                                        false,
		"javascript:alert(1)":                                     false,
		"javascript://shop.example/%0Aalert(1)":                   false,
		"data:text/html,shop.example":                             false,
		"ftp://shop.example/":                                     false,
		"https://shop.example./":                                  false,
		"https://shop.example:0/":                                 false,
		"https://shop.example:99999/":                             false,
		"https://shop.example:80:80/":                             false,
		"https://münchen.example/":                                false,
		"https://shop.example%2eevil.example/":                    false,
		"https://shop.example%00.evil.example/":                   false,
		"https://shop.example\u3002evil.example/":                 false,
		"https://shop%E3%80%82example/":                           false,
		"https://[::1]/":                                          false,
		"https://*.brand.example/":                                false,
		" https://shop.example/":                                  false,
		"https://shop.example/ x":                                 false,
		"https://shop.example/\r\nLocation: https://evil.example": false,
		"https://evil.example\t.shop.example/":                    false,
		"https://shop.example\x00.evil.example/":                  false,
	} {
		if got := AllowedDestination(domains, destination); got != want {
			t.Errorf("AllowedDestination(%q) = %v, want %v", destination, got, want)
		}
	}
	if AllowedDestination(nil, "https://shop.example") || AllowedHost([]string{"*."}, "shop.example") {
		t.Error("a destination is allowed without domains")
	}
}

func TestWithParams(t *testing.T) {
	params := []Param{{"via", "jane"}, {"sub_id", ""}, {"utm_source", "a b&c=d#e"}, {"via", "again"}}
	const set = "via=jane&utm_source=a+b%26c%3Dd%23e"
	for in, want := range map[string]string{
		"https://shop.example":                          "https://shop.example?" + set,
		"https://shop.example/":                         "https://shop.example/?" + set,
		"https://shop.example/p?":                       "https://shop.example/p?" + set,
		"https://shop.example/p#part":                   "https://shop.example/p?" + set + "#part",
		"https://shop.example/p#":                       "https://shop.example/p?" + set + "#",
		"https://shop.example/p?a=1&b#x?y=z#w":          "https://shop.example/p?a=1&b&" + set + "#x?y=z#w",
		"https://shop.example/p?via=old&a=1&via=older":  "https://shop.example/p?a=1&" + set,
		"https://shop.example/p?%76ia=old&sub_id=keep":  "https://shop.example/p?sub_id=keep&" + set,
		"https://shop.example/p?utm_source&&x=%zz&%zz":  "https://shop.example/p?x=%zz&%zz&" + set,
		"https://shop.example/p?q=a%20b+c;d&VIA=1":      "https://shop.example/p?q=a%20b+c;d&VIA=1&" + set,
		"https://shop.example/%7Ejane/ä?to=https://x/?": "https://shop.example/%7Ejane/ä?to=https://x/?&" + set,
	} {
		if got := WithParams(in, params); got != want {
			t.Errorf("WithParams(%q)\n got %s\nwant %s", in, got, want)
		}
	}
	if got := WithParams("https://shop.example/?a=1&#f", nil); got != "https://shop.example/?a=1#f" {
		t.Errorf("WithParams without parameters returns %s, want the URL without the empty parameter", got)
	}
}

// checkWithParams checks WithParams for a valid destination: the result must lead to
// the same page, must contain exactly the given parameters once, and must keep all
// others.
func checkWithParams(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, destination string, params []Param,
) {
	t.Helper()
	host, ok := affiliate.ParseWebURL(destination)
	if !ok {
		return
	}
	result := WithParams(destination, params)
	before, err := url.Parse(destination)
	if err != nil {
		t.Fatalf("%q: %v", destination, err)
	}
	after, err := url.Parse(result)
	if err != nil {
		t.Fatalf("%q became %q: %v", destination, result, err)
	}
	if newHost, ok := affiliate.ParseWebURL(result); !ok || newHost != host || after.Host != before.Host || after.Scheme != before.Scheme {
		t.Fatalf("%q became %q, which leads to another website", destination, result)
	}
	if after.EscapedPath() != before.EscapedPath() || after.EscapedFragment() != before.EscapedFragment() {
		t.Fatalf("%q became %q: path or fragment changed", destination, result)
	}
	want := map[string]string{}
	for _, p := range params {
		if _, named := want[p.Name]; !named && p.Value != "" {
			want[p.Name] = p.Value
		}
	}
	got := map[string]string{}
	var kept []string
	for part := range strings.SplitSeq(after.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		decoded, err := url.QueryUnescape(name)
		if _, expected := want[decoded]; err != nil || !expected {
			if part != "" {
				kept = append(kept, part)
			}
			continue
		}
		if _, seen := got[decoded]; seen {
			t.Fatalf("%q became %q: %s is set twice", destination, result, decoded)
		}
		if got[decoded], err = url.QueryUnescape(value); err != nil {
			t.Fatalf("%q became %q: %v", destination, result, err)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%q became %q: set %v, want %v", destination, result, got, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Fatalf("%q became %q: %s is %q, want %q", destination, result, name, got[name], value)
		}
	}
	var others []string
	for part := range strings.SplitSeq(before.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		decoded, err := url.QueryUnescape(name)
		if _, expected := want[decoded]; part != "" && (err != nil || !expected) {
			others = append(others, part)
		}
	}
	if !slices.Equal(kept, others) {
		t.Fatalf("%q became %q: other parameters were %v and are %v", destination, result, others, kept)
	}
	if again := WithParams(result, params); again != result {
		t.Fatalf("%q became %q and then %q", destination, result, again)
	}
}

func TestWithParams_RandomURLs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab1=&?#/%;+:@. \\\"<>[]é\u2028😀")), 0, 12, -1)
		destination := "https://" + rapid.SampledFrom([]string{"a.example", "B.Example:8080", "xn--a-b.example"}).Draw(t, "host")
		destination += rapid.SampledFrom([]string{"", "/", "/p", "?", "#", "/p?via=old&x=y"}).Draw(t, "start") + text.Draw(t, "rest")
		names := rapid.SampledFrom([]string{"via", "sub_id", "utm_source", "a", "A", "a=b", "x y", "é"})
		params := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Param {
			return Param{names.Draw(t, "name"), text.Draw(t, "value")}
		}), 0, 6).Draw(t, "params")
		checkWithParams(t, destination, params)
	})
}

func FuzzWithParams(f *testing.F) {
	for _, seed := range []string{
		"https://a.example", "http://A.example:80/%2f?via=1&via=2#via=3", "https://a.example?;&=&%&via", "https://a.example/?a#?b#c",
	} {
		f.Add(seed, "via", "jane", "sub id", "ä&=#?")
	}
	f.Fuzz(func(t *testing.T, destination, name, value, otherName, otherValue string) {
		checkWithParams(t, destination, []Param{{name, value}, {otherName, otherValue}})
	})
}

func TestLinkURL(t *testing.T) {
	own := "https://shop.example/sale?via=x&utm_medium=mail&utm_term=kept#top"
	link := Link{Code: "jane-9", Param: "via", Page: "https://shop.example/", SubID: "post 1", UTM: click.UTM{Medium: "blog", Campaign: "may"}}
	if got, want := link.URL(), "https://shop.example/?via=jane-9&sub_id=post+1&utm_medium=blog&utm_campaign=may"; got != want {
		t.Errorf("URL of a link to the programme's page is %s, want %s", got, want)
	}
	link.Destination = &own
	if got, want := link.URL(), "https://shop.example/sale?utm_term=kept&via=jane-9&sub_id=post+1&utm_medium=blog&utm_campaign=may#top"; got != want {
		t.Errorf("URL of a link with a destination is %s, want %s", got, want)
	}
	if got := (Link{Code: "jane", Param: "via"}).URL(); got != "" {
		t.Errorf("URL of a link without destination and page is %q, want an empty text", got)
	}
	// The parameter of the code takes precedence over another parameter with the same
	// name.
	link = Link{Code: "jane", Param: SubIDParam, Page: "https://shop.example", SubID: "x"}
	if got, want := link.URL(), "https://shop.example?sub_id=jane"; got != want {
		t.Errorf("URL with the code in the parameter %s is %s, want %s", SubIDParam, got, want)
	}
}

func TestLinkPatch(t *testing.T) {
	page := "https://shop.example/a"
	link := Link{Destination: &page, SubID: "s", UTM: click.UTM{Source: "a", Medium: "b"}}
	domains := []string{"shop.example"}
	patched, err := link.Patch(Patch{SubID: affiliate.Clear[string](), UTM: UTMPatch{Source: affiliate.Set("c"), Term: affiliate.Set("d")}}, domains)
	if err != nil || patched.SubID != "" || patched.UTM != (click.UTM{Source: "c", Medium: "b", Term: "d"}) || patched.Destination != &page {
		t.Errorf("patch of some fields: %+v, error %v", patched, err)
	}
	if patched, err = link.Patch(Patch{UTM: UTMPatch{Reset: true}}, nil); err != nil || patched.UTM != (click.UTM{}) || patched.SubID != "s" {
		t.Errorf("after a reset of the campaign parameters: %+v, error %v; want none, and sub id s", patched, err)
	}
	for name, change := range map[string]affiliate.Change[string]{
		"another host": affiliate.Set("https://evil.example"), "no URL": affiliate.Set("shop.example"), "nothing": affiliate.Clear[string](),
	} {
		_, err := link.Patch(Patch{Destination: change}, domains)
		var refused *affiliate.Error
		if !errors.As(err, &refused) || refused.Reason != affiliate.ReasonValidation || refused.Violations[0].Field != "destination_url" {
			t.Errorf("destination changed to %s: error %v, want a violation of destination_url", name, err)
		}
	}
	link.IsDefault = true
	if patched, err = link.Patch(Patch{Destination: affiliate.Clear[string]()}, nil); err != nil || patched.Destination != nil {
		t.Errorf("destination of the default link cleared: %+v, error %v; want no destination", patched, err)
	}
}

func TestLinkCodes(t *testing.T) {
	usable := regexp.MustCompile(`^[a-z0-9_-]{3,50}$`)
	for _, participant := range []string{"abc", "jane-doe", strings.Repeat("x", MaxReferralCode)} {
		codes := affiliatetest.FirstN(200, Codes("", participant))
		for i, code := range codes {
			if !usable.MatchString(code) || !strings.HasPrefix(code, participant[:min(len(participant), 41)]) || ReservedCode(code) {
				t.Errorf("code %d for %s is %q, which is not valid, reserved, or begins with another text", i, participant, code)
			}
		}
		if len(participant)+4 <= MaxReferralCode && !regexp.MustCompile(`^`+participant+`-[a-z0-9]{3}$`).MatchString(codes[0]) {
			t.Errorf("the first code for %s is %q, want 3 random characters", participant, codes[0])
		}
		slices.Sort(codes)
		if n := len(slices.Compact(codes)); n < 150 {
			t.Errorf("only %d of 200 codes for %s are different, want at least 150", n, participant)
		}
	}
}

func TestLinkObject(t *testing.T) {
	page := "https://shop.example/a"
	link := Link{Code: "jane-9", Destination: &page, SubID: "s", UTM: click.UTM{Source: "mail"}, Version: 3}
	text, err := json.Marshal(link.Object())
	const zero = `"00000000-0000-0000-0000-000000000000"`
	want := `{"id":` + zero + `,"program_id":` + zero + `,"participant_id":` + zero + `,"code":"jane-9","destination_url":"https://shop.example/a",` +
		`"sub_id":"s","utm":{"source":"mail","medium":null,"campaign":null,"term":null,"content":null},"is_default":false,"version":3}`
	if err != nil || string(text) != want {
		t.Errorf("JSON of the link is %s, error %v\nwant %s", text, err, want)
	}
}
