package mail_test

import (
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const appURL = "https://app.example.com/"

// full has every optional field and every kind of block.
var full = mail.Document{
	Brand:     "Acme Partners",
	Logo:      "https://api.example.com/logos/1 2",
	Subject:   "3 commissions are ready for review",
	Preheader: "Two of them need a decision before Friday.",
	Heading:   "3 commissions are ready for review",
	Greeting:  "Hello Maria,",
	Blocks: []mail.Block{
		{Paragraph: "The programme “Summer launch” has new commissions. They become payable after you approve them.\n\nCommissions that nobody reviews stay pending."},
		{Facts: []mail.Fact{{"Programme", "Summer launch"}, {"Period", "16 to 22 November 2026"}, {"Total", "€1,284.50"}}},
		{Items: []mail.Item{
			{Title: "Anna Berg: €640.00", Body: "First purchase of a new customer, yearly plan.", Time: "Today, 09:14", URL: appURL + "commissions/1"},
			{Title: "Nordlicht Media GmbH: €412.00", Body: "Renewal.\nThe customer changed the plan in October.", Time: "Yesterday, 17:40", URL: appURL + "commissions/2"},
			{Title: "Jun Watanabe: €232.50"},
		}},
		{More: "and 12 more"},
	},
	Button:  &mail.Link{Label: "Review commissions", URL: appURL + "commissions?status=pending&sort=amount"},
	Closing: []string{"You can change the rules for automatic approval in the settings of the programme."},
	Footer:  mail.Footer{Reason: "You get this mail because you review commissions of Acme.", UnsubscribeURL: "https://api.example.com/unsubscribe?token=abc.def"},
}

// verification is a short mail without an unsubscribe link.
var verification = mail.Document{
	Subject:  "Confirm your mail address",
	Heading:  "Confirm your mail address",
	Greeting: "Hello Maria,",
	Blocks:   []mail.Block{{Paragraph: "Open the link to confirm that this is your address. The link is valid for 24 hours."}},
	Button:   &mail.Link{Label: "Confirm address", URL: appURL + "verify-email#token=4f9c2a7be01d4c55a0d7f2b8e6c3914f9c2a7be01d4c55a0d7f2b8e6c391"},
	Closing:  []string{"If you did not create an account, ignore this mail."},
	Footer:   mail.Footer{Reason: "Somebody entered this address in the registration of Acme."},
}

// hostile has text that an attacker could choose.
var hostile = mail.Document{
	Brand:     "<b>Brand</b>",
	Subject:   "Hello <img src=x onerror=alert(1)>\r\nBcc: victim@example.com\x00 {{.}}",
	Preheader: "<!-- --> {{.Subject}}",
	Heading:   "<script>alert(1)</script> & \"quotes\"",
	Greeting:  "Hello " + strings.Repeat("Maria ", 166) + "end,",
	Blocks: []mail.Block{
		{Paragraph: "<img src=x onerror=alert(1)> {{.}} ${7*7}\r\n.\r\nFrom nobody\r\n\r\n\r\n\r\nafter blank lines"},
		{Facts: []mail.Fact{
			{"<td>", "a\r\nb\tc"},
			{"direction", "user\u202egnp.exe \u2066isolated\u2069 שלום עולם"},
			{"unbroken", strings.Repeat("abcdefghij", 40)},
			{"invalid", "\xff\xfe and \u0007"},
			{strings.Repeat("label", 30), ""},
		}},
		{Items: []mail.Item{
			{Title: "</table><img onerror=x>", Body: "<style>body{display:none}</style>\n  * forged item\n  https://evil.example/", Time: "<i>now</i>", URL: "https://app.example.com/?q=\"><script>alert(1)</script>&x= y"},
			{Title: strings.Repeat("W", 1000)},
		}},
		{More: "</td></tr>"},
	},
	Button:  &mail.Link{Label: "<b>Open</b>", URL: "http://app.example.com/" + strings.Repeat("token", 60)},
	Closing: []string{"{{template \"paragraph\" .}}", "-- \r\n."},
	Footer:  mail.Footer{Reason: "<br>", UnsubscribeURL: "https://api.example.com/?a=1&b='2'"},
}

func TestRender_Golden(t *testing.T) {
	for name, document := range map[string]mail.Document{
		"full":         full,
		"verification": verification,
		"hostile":      hostile,
		"minimal":      {Subject: "Your export is ready", Heading: "Your export is ready"},
	} {
		t.Run(name, func(t *testing.T) { mailtest.Golden(t, name, document) })
	}
}

func TestRender_TextStaysText(t *testing.T) {
	content, err := hostile.Render()
	if err != nil {
		t.Fatal(err)
	}
	// The layout itself has none of these.
	for _, forbidden := range []string{"<img", "<script", "<b>", "<i>", "ZgotmplZ", "javascript:", "\u202e", "\u2066", "\x00", "\x07", "\r"} {
		if strings.Contains(content.HTML, forbidden) {
			t.Errorf("the HTML part has %q", forbidden)
		}
	}
	if strings.ContainsAny(content.Text, "\u202e\u2066\x00\x07\r") {
		t.Error("the text part has control characters")
	}
	if strings.Count(content.HTML, "<style") != 1 {
		t.Error("the HTML part has the style element of a text")
	}
	if want := "Hello <img src=x onerror=alert(1)> Bcc: victim@example.com {{.}}"; content.Subject != want {
		t.Errorf("subject %q, want %q", content.Subject, want)
	}
	// A line break in a value cannot make a second row.
	if !strings.Contains(content.Text, "<td>: a b c\n") {
		t.Error("the text part has not the value of the first fact in one line")
	}
}

// logo is the element that loads the logo.
var logo = regexp.MustCompile(`<img src="https://api\.example\.com/logos/1%202" alt="" [^>]*>`)

func TestRender_LoadsOnlyTheLogo(t *testing.T) {
	content, err := full.Render()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(logo.FindAllString(content.HTML, -1)); n != 1 {
		t.Errorf("the HTML part has %d logos, want 1", n)
	}
	html := logo.ReplaceAllString(content.HTML, "")
	for _, forbidden := range []string{"<img", "<link", "@import", "url(", "src=", "background="} {
		if strings.Contains(html, forbidden) {
			t.Errorf("the HTML part has %q", forbidden)
		}
	}
	for _, required := range []string{`lang="en"`, `name="color-scheme" content="light dark"`, "prefers-color-scheme: dark", "max-width:600px", "<!--[if mso]>"} {
		if !strings.Contains(content.HTML, required) {
			t.Errorf("the HTML part does not have %q", required)
		}
	}
}

var link = regexp.MustCompile(`https?://[^\s"<]+`)

func TestRender_PartsHaveTheSameLinks(t *testing.T) {
	content, err := full.Render()
	if err != nil {
		t.Fatal(err)
	}
	set := func(s string) map[string]bool {
		links := map[string]bool{}
		for _, l := range link.FindAllString(strings.ReplaceAll(s, "&amp;", "&"), -1) {
			links[l] = true
		}
		return links
	}
	html, text := set(logo.ReplaceAllString(content.HTML, "")), set(content.Text)
	if len(html) != 4 || len(text) != 4 {
		t.Errorf("links %v in the HTML part, %v in the text part; want 4", html, text)
	}
	for l := range html {
		if !text[l] {
			t.Errorf("the text part does not have %s", l)
		}
	}
}

func TestRender_RejectsInvalidDocument(t *testing.T) {
	const secret = "token-4711"
	for name, change := range map[string]func(*mail.Document){
		"no subject":        func(d *mail.Document) { d.Subject = " \r\n\x00" },
		"no heading":        func(d *mail.Document) { d.Heading = "" },
		"empty block":       func(d *mail.Document) { d.Blocks = []mail.Block{{}} },
		"block with two":    func(d *mail.Document) { d.Blocks = []mail.Block{{Paragraph: "a", More: "b"}} },
		"button script":     func(d *mail.Document) { d.Button = &mail.Link{Label: "a", URL: "javascript:alert('" + secret + "')"} },
		"button relative":   func(d *mail.Document) { d.Button = &mail.Link{Label: "a", URL: "/path?" + secret} },
		"button line break": func(d *mail.Document) { d.Button = &mail.Link{Label: "a", URL: "https://a.example/\n" + secret} },
		"button label":      func(d *mail.Document) { d.Button = &mail.Link{URL: "https://a.example/"} },
		"item URL": func(d *mail.Document) {
			d.Blocks = []mail.Block{{Items: []mail.Item{{Title: "a", URL: "data:" + secret}}}}
		},
		"unsubscribe address": func(d *mail.Document) { d.Footer.UnsubscribeURL = "mailto:" + secret + "@a.example" },
	} {
		t.Run(name, func(t *testing.T) {
			d := verification
			change(&d)
			_, err := d.Render()
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error %q has text of the document", err)
			}
		})
	}
}

func TestRender_ShortensSubject(t *testing.T) {
	d := verification
	d.Subject = strings.Repeat("é", 1000)
	content, err := d.Render()
	if err != nil {
		t.Fatal(err)
	}
	if got := len([]rune(content.Subject)); got != 200 || !strings.HasSuffix(content.Subject, "…") {
		t.Errorf("the subject has %d characters and is %q", got, content.Subject)
	}
}
