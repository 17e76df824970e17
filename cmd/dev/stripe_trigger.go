package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

const stripeUsage = `usage: go run ./cmd/dev stripe trigger EVENT [flags]

Sends a signed event of Stripe to the running demo, and prints what the service did.

  checkout.session.completed --click ID | --code CODE   a sale through a Payment Link
  invoice.paid --click ID                               the first payment of a subscription
      --amount 4900 --currency usd                      what was paid, in Stripe's minor units
  charge.refunded --sale ID                             a refund of everything, or of a part
      --amount 1900
  charge.dispute.created --sale ID                      the buyer disputes the payment
  charge.dispute.closed --sale ID --status won|lost

--click is the id of a click, --code is a promo code, and --sale is the external transaction
id that an event of a sale prints.`

const (
	defaultStripeAmount   = shopCents
	defaultStripeCurrency = "usd"
)

// errStripeUsage is returned for invalid arguments of dev stripe.
var errStripeUsage error = usageError(stripeUsage)

// usageError is a text about the use of a command. errors.Is treats it as errUsage.
type usageError string

func (e usageError) Error() string { return string(e) }

func (usageError) Is(target error) bool { return target == errUsage }

// stripeCommand runs `dev stripe`. path is the data folder of the running demo.
func stripeCommand(ctx context.Context, path string, args []string, out io.Writer) error {
	if len(args) == 0 {
		_, err := fmt.Fprintln(out, stripeUsage)
		return err
	}
	if args[0] != "trigger" || len(args) == 1 {
		return errStripeUsage
	}
	trigger, err := parseTrigger(args[1], args[2:])
	if err != nil {
		return err
	}
	merchant, err := loginToDemo(ctx, path)
	if err != nil {
		return err
	}
	values, err := readVariables(filepath.Join(path, "env"))
	if err != nil {
		return err
	}
	account, connected := stripeAccountOf(values, values["TRIBUTARY_API_URL"])
	if !connected {
		return fmt.Errorf("the demo is not connected to the stand-in for Stripe: start make run without %s", stripeURLName)
	}
	event, err := account.send(ctx, trigger)
	if err != nil {
		return err
	}
	outcome, err := waitForOutcome(ctx, merchant, event.ID)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Event %s, %s: %s", event.ID, trigger.Type, outcome.Status)
	if outcome.Reason != nil {
		fmt.Fprintf(out, " (%s)", *outcome.Reason)
	}
	fmt.Fprintln(out)
	if outcome.ConversionID == nil {
		return nil
	}
	server := merchant.withCredential(values[secretKeyName(demoModes[0])])
	return printConversion(ctx, server, *outcome.ConversionID, event.Sale, out)
}

// parseTrigger reads the flags of an event and checks them.
func parseTrigger(event string, args []string) (stripeTrigger, error) {
	t := stripeTrigger{Type: event}
	if !slices.Contains(stripeEventTypes(), event) {
		return t, fmt.Errorf("unknown event %q: use one of %s", event, strings.Join(stripeEventTypes(), ", "))
	}
	flags := flag.NewFlagSet(event, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	isSale := event == "checkout.session.completed" || event == "invoice.paid"
	if isSale {
		flags.StringVar(&t.Click, "click", "", "")
		flags.StringVar(&t.Currency, "currency", defaultStripeCurrency, "")
	} else {
		flags.StringVar(&t.Sale, "sale", "", "")
	}
	switch event {
	case "checkout.session.completed":
		flags.StringVar(&t.Code, "code", "", "")
		fallthrough
	case "invoice.paid":
		flags.Int64Var(&t.Amount, "amount", defaultStripeAmount, "")
	case "charge.refunded":
		flags.Int64Var(&t.Amount, "amount", 0, "")
	case "charge.dispute.closed":
		flags.StringVar(&t.Status, "status", "", "")
	}
	if err := flags.Parse(args); err != nil {
		return t, fmt.Errorf("%w\n%w", err, errStripeUsage)
	}
	t.Currency = strings.ToLower(t.Currency)
	switch {
	case flags.NArg() > 0:
		return t, errStripeUsage
	case t.Amount < 0:
		return t, errors.New("--amount must not be negative")
	case event == "checkout.session.completed" && cmp.Or(t.Click, t.Code) == "":
		return t, errors.New("--click or --code is required: the event has no effect on commissions without a click or a promo code")
	case event == "invoice.paid" && t.Click == "":
		return t, errors.New("--click is required")
	case !isSale && t.Sale == "":
		return t, errors.New("--sale is required: it is the external transaction id of the sale, for example pi_…")
	case event == "charge.dispute.closed" && t.Status != "won" && t.Status != "lost":
		return t, errors.New("--status must be won or lost")
	}
	return t, nil
}

// printConversion prints the conversion of an event. The given API client must have a secret key.
func printConversion(ctx context.Context, server apiClient, id, sale string, out io.Writer) error {
	var c recordedConversion
	if err := server.call(ctx, http.MethodGet, "/api/v1/conversions/"+url.PathEscape(id), nil, &c); err != nil {
		return err
	}
	fmt.Fprintf(out, "Conversion %s, sale %s\n%s\n", id, sale, c.Attribution.Explanation)
	if c.Commission != nil {
		fmt.Fprintf(out, "Commission %s, %s\n", price(c.Commission.AmountCents, c.Commission.Currency), c.Commission.Status)
	}
	return nil
}
