package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
	"github.com/tributary-hq/tributary/tools/mailsink"
)

// fillInForms fills in the forms of the demo's landing page in a browser, as a bot and as a
// person. The page and the service have different origins, so it also tests CORS.
func fillInForms(t *testing.T, values map[string]string) {
	t.Helper()
	p := browsertest.NewTab(browsertest.Start(t), t, browsertest.Mouse, demoOrigins(values)...)
	run := func(script string) { browsertest.Evaluate[any](p, script) }
	open := func() {
		t.Helper()
		p.Do(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + landingPath))
		waitForElement(p, "#count", "0 of 1000 places are taken.")
	}
	const (
		refused    = "The form was not accepted."
		fillInBoth = `
			for (const email of document.querySelectorAll("input[name=email]")) email.value = "bot@example.com";
			document.querySelector("[name=name]").value = "Bot";
			document.querySelector("[name=message]").value = "Buy my product.";`
		submitBoth = `for (const form of document.forms) form.requestSubmit();`
		// A person needs more than 1.5 seconds. The time of the page starts before the time of
		// the forms.
		personTime = `performance.now() > 3000`
	)

	// A bot that is too fast. The clock of the page is set back, because this test may be
	// slow.
	open()
	run(`performance.now = () => 0;`)
	run(fillInBoth + submitBoth)
	waitForElement(p, "#waitlist .result", refused)
	waitForElement(p, "#contact .result", refused)

	// A bot that fills in the hidden field.
	open()
	p.WaitFor("the time of a person has passed", personTime)
	run(fillInBoth + `for (const trap of document.querySelectorAll("[name=website]")) trap.value = "https://spam.example";` + submitBoth)
	waitForElement(p, "#waitlist .result", refused)
	waitForElement(p, "#contact .result", refused)

	open()
	p.WaitFor("the time of a person has passed", personTime)
	for _, field := range []struct{ selector, text string }{
		{"#waitlist [name=email]", "Ada@Example.com"},
		{"#contact [name=name]", "Ada Byron"},
		{"#contact [name=email]", "ada@example.com"},
		{"#contact [name=message]", "Do you have a free place?"},
	} {
		p.Do(chromedp.SendKeys(chromedp.CSS(field.selector), field.text))
	}
	for _, form := range []string{"#waitlist", "#contact"} {
		p.Do(chromedp.Click(chromedp.CSS(form + " button")))
	}
	waitForElement(p, "#waitlist .result", "You are on the waitlist.")
	waitForElement(p, "#contact .result", "Your message was sent.")
	checkForms(t, values)
}

// checkForms checks that the forms of the person are stored and mailed, and those of the
// bots are not.
func checkForms(t *testing.T, values map[string]string) {
	t.Helper()
	inbox := values["TRIBUTARY_MAIL_SINK_URL"] + "/api/messages?" + url.Values{"to": {demoOperator}}.Encode()
	var mails []mailsink.Message
	for deadline := time.Now().Add(browsertest.Timeout); len(mails) == 0; time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal([]byte(get(t, inbox)), &mails); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no mail to %s after %s", demoOperator, browsertest.Timeout)
		}
	}
	if len(mails) != 1 || mails[0].Subject != "Contact form: Ada Byron" || !strings.Contains(mails[0].Headers["Reply-To"], "<ada@example.com>") {
		t.Errorf("the operator has the mails %+v, want one of Ada Byron", mails)
	}
	s, err := store.Open(t.Context(), values[databaseURLName], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.CountWaitlist(t.Context()); err != nil || n != 1 {
		t.Errorf("the waitlist has %d addresses, %v; want 1", n, err)
	}
	messages, err := s.ContactMessages(t.Context(), uuid.Nil, 10)
	if err != nil || len(messages) != 1 || messages[0].Message != "Do you have a free place?" {
		t.Errorf("the stored messages are %+v, %v; want that of the person", messages, err)
	}
}
