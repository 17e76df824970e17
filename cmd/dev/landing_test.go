package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/tools/browser"
	"github.com/tributary-hq/tributary/tools/mailsink"
)

// fillInForms fills in the forms of the demo's landing page in a browser, as a bot and as a
// person. The page and the service have different origins, so it also tests CORS.
func fillInForms(t *testing.T, values map[string]string) {
	t.Helper()
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	tab, leave := chromedp.NewContext(ctx)
	defer leave()
	run := func(script string) {
		t.Helper()
		if _, err := chromedp.Run(tab, chromedp.Evaluate[any](script)); err != nil {
			t.Fatal(err)
		}
	}
	// waitFor waits until a script returns true.
	waitFor := func(what, script string) {
		t.Helper()
		for deadline := time.Now().Add(shopTimeout); ; time.Sleep(20 * time.Millisecond) {
			ok, err := chromedp.Run(tab, chromedp.Evaluate[bool](script))
			if err == nil && ok {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: not after %s (error %v)", what, shopTimeout, err)
			}
		}
	}
	waitForText := func(selector, want string) {
		t.Helper()
		waitFor(fmt.Sprintf("%s contains %q", selector, want), fmt.Sprintf("document.querySelector(%q).textContent.includes(%q)", selector, want))
	}
	open := func() {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(values["TRIBUTARY_SHOP_URL"]+landingPath)); err != nil {
			t.Fatal(err)
		}
		waitForText("#count", "0 of 1000 places are taken.")
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
	waitForText("#waitlist .result", refused)
	waitForText("#contact .result", refused)

	// A bot that fills in the hidden field.
	open()
	waitFor("the time of a person has passed", personTime)
	run(fillInBoth + `for (const trap of document.querySelectorAll("[name=website]")) trap.value = "https://spam.example";` + submitBoth)
	waitForText("#waitlist .result", refused)
	waitForText("#contact .result", refused)

	open()
	waitFor("the time of a person has passed", personTime)
	for _, field := range []struct{ selector, text string }{
		{"#waitlist [name=email]", "Ada@Example.com"},
		{"#contact [name=name]", "Ada Byron"},
		{"#contact [name=email]", "ada@example.com"},
		{"#contact [name=message]", "Do you have a free place?"},
	} {
		if err := chromedp.Do(tab, chromedp.SendKeys(chromedp.CSS(field.selector), field.text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, form := range []string{"#waitlist", "#contact"} {
		if err := chromedp.Do(tab, chromedp.Click(chromedp.CSS(form+" button"))); err != nil {
			t.Fatal(err)
		}
	}
	waitForText("#waitlist .result", "You are on the waitlist.")
	waitForText("#contact .result", "Your message was sent.")
	checkForms(t, values)
}

// checkForms checks that the forms of the person are stored and mailed, and those of the
// bots are not.
func checkForms(t *testing.T, values map[string]string) {
	t.Helper()
	inbox := values["TRIBUTARY_MAIL_SINK_URL"] + "/api/messages?" + url.Values{"to": {demoOperator}}.Encode()
	var mails []mailsink.Message
	for deadline := time.Now().Add(shopTimeout); len(mails) == 0; time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal([]byte(get(t, inbox)), &mails); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no mail to %s after %s", demoOperator, shopTimeout)
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
