package main

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
)

const envHeading = `Addresses, logins and keys of the demo, for: source .dev/env
make run writes this file at each start. The programme and the referral code are in
test mode, so REST calls need the header X-Mode: test.
`

const listenHint = "To see webhooks, in another terminal: go run ./cmd/dev listen [--forward-to http://127.0.0.1:3000/hooks]"

const stripeHint = "To send an event of Stripe: go run ./cmd/dev stripe"

// walkthroughHeading is the line before the walkthrough. A blank line follows the
// heading, and another blank line follows the walkthrough.
const walkthroughHeading = "From a click to an approved commission. Paste into another terminal, line by line:"

// walkthrough returns shell commands that lead from a click to an approved commission. The parameter env is the path
// of .dev/env, quoted for the shell. The commands need curl, sed and grep. They can be repeated.
func walkthrough(env string) []string {
	return []string{
		`. ` + env,
		`json='Content-Type: application/json'`,
		`login=$(curl --fail-with-body -sS -H "$json" -d "{\"email\":\"$DEMO_MERCHANT_EMAIL\",\"password\":\"$DEMO_MERCHANT_PASSWORD\"}" "$TRIBUTARY_API_URL/api/v1/auth/merchant/login")`,
		`token=$(echo "$login" | sed -n 's/.*"accessToken":"\([^"]*\)".*/\1/p')`,
		`click=$(curl --fail-with-body -sS -A 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0' -H "Authorization: Bearer $DEMO_PK_TEST" -H "$json" -d "{\"referral_code\":\"$DEMO_REFERRAL_CODE\",\"url\":\"https://shop.example/\"}" "$TRIBUTARY_COLLECTOR_URL/v1/clicks"); echo "$click"`,
		`click_id=$(echo "$click" | sed -n 's/.*"click_id":"\([^"]*\)".*/\1/p')`,
		`order=order-$(date +%s%N)`,
		`curl --fail-with-body -sS -H "Authorization: Bearer $DEMO_SK_TEST" -H "$json" -d "{\"event_type\":\"purchase\",\"external_transaction_id\":\"$order\",\"amount_cents\":4900,\"currency\":\"USD\",\"click_id\":\"$click_id\"}" "$TRIBUTARY_API_URL/api/v1/conversions"; echo`,
		`list=$(curl --fail-with-body -sS -H "Authorization: Bearer $token" -H 'X-Mode: test' "$TRIBUTARY_API_URL/api/v1/programs/$DEMO_PROGRAM_ID/commissions?status=pending&search=$order"); echo "$list"`,
		`commission=$(echo "$list" | sed -n 's/^{"data":\[{"id":"\([^"]*\)".*/\1/p')`,
		`curl --fail-with-body -sS -X PATCH -H "Authorization: Bearer $token" -H 'X-Mode: test' "$TRIBUTARY_API_URL/api/v1/programs/$DEMO_PROGRAM_ID/commissions/$commission/approve"; echo`,
		`curl --fail-with-body -sS -H "Authorization: Bearer $token" -H 'X-Mode: test' "$TRIBUTARY_API_URL/api/v1/programs/$DEMO_PROGRAM_ID/commissions/$commission" | grep -oE '"(status|amountCents|currency|partnerName)":[^,]*'`,
	}
}

// systemAddresses holds the addresses of a run.
type systemAddresses struct {
	api, collector, grpc, metrics, shop, mailSink, landing string // host and port
	postgresURL, redisURL, stripeURL                       string
}

func (s systemAddresses) apiURL() string { return "http://" + s.api }

func (s systemAddresses) collectorURL() string { return "http://" + s.collector }

func (s systemAddresses) mailSinkURL() string { return "http://" + s.mailSink }

func (s systemAddresses) landingURL() string { return "http://" + s.landing }

// shopURL returns the partner's link to the demo shop.
func (s systemAddresses) shopURL(code string) string { return "http://" + s.shop + "/?via=" + code }

// variables returns the variables of .dev/env. The map demo has a value for each name in demoNames.
func (s systemAddresses) variables(demo map[string]string) []variable {
	vars := []variable{
		{"TRIBUTARY_API_URL", s.apiURL()},
		{"TRIBUTARY_COLLECTOR_URL", s.collectorURL()},
		{"TRIBUTARY_GRPC_ADDR", s.grpc},
		{"TRIBUTARY_METRICS_URL", "http://" + s.metrics},
		{"TRIBUTARY_SHOP_URL", "http://" + s.shop},
		{"TRIBUTARY_MAIL_SINK_URL", s.mailSinkURL()},
		{"TRIBUTARY_LANDING_URL", s.landingURL()},
		{databaseURLName, s.postgresURL},
		{redisURLName, s.redisURL},
		{stripeURLName, s.stripeURL},
	}
	for _, name := range demoNames {
		vars = append(vars, variable{name, demo[name]})
	}
	return vars
}

// printOverview prints the addresses, the logins, the keys and the walkthrough.
func printOverview(out io.Writer, f *folder, s systemAddresses, demo map[string]string) {
	table := func(rows ...[2]string) {
		for _, row := range rows {
			fmt.Fprintf(out, "  %-11s %s\n", row[0], row[1])
		}
		fmt.Fprintln(out)
	}
	fmt.Fprint(out, "\nTributary is running. Ctrl-C stops it and keeps the data; make reset deletes it.\n\n")
	table(
		[2]string{"Demo shop", s.shopURL(demo[referralCodeName])},
		[2]string{"Console", s.apiURL() + "/console/test"},
		[2]string{"Portal", s.apiURL() + "/portal/test"},
		[2]string{"Join page", demo[programPageName]},
		[2]string{"REST API", s.apiURL() + "/api/v1/"},
		[2]string{"Reference", s.apiURL() + "/docs"},
		[2]string{"Mails", s.mailSinkURL() + "/"},
		[2]string{"Collector", s.collectorURL() + "/v1/clicks"},
		[2]string{"Forms", "http://" + s.shop + landingPath + "  (service: " + s.landingURL() + "/api/public/)"},
		[2]string{"gRPC", s.grpc},
		[2]string{"Metrics", "http://" + s.metrics + "/metrics"},
		[2]string{"Postgres", withoutPassword(s.postgresURL)},
		[2]string{"Redis", withoutPassword(s.redisURL)},
		[2]string{"Stripe API", withoutPassword(s.stripeURL)},
		[2]string{"Log", filepath.Join(f.path, logName+".log")},
	)
	table(
		[2]string{"Merchant", demo[merchantEmailName] + "  " + demo[merchantPasswordName]},
		[2]string{"Partner", demo[partnerEmailName] + "  " + demo[partnerPasswordName]},
		[2]string{"Programme", demo[programIDName] + "  referral code " + demo[referralCodeName] + "  (test mode)"},
		[2]string{"Test keys", demo[publicKeyName("test")] + "  " + demo[secretKeyName("test")]},
		[2]string{"Live keys", demo[publicKeyName("live")] + "  " + demo[secretKeyName("live")]},
	)
	env := f.file("env")
	fmt.Fprintf(out, "These values as shell variables: %s\n%s\n%s\n\n%s\n\n", env, listenHint, stripeHint, walkthroughHeading)
	fmt.Fprint(out, strings.Join(walkthrough(quote(env)), "\n"), "\n\n")
}

// withoutPassword returns an address that can be printed to the terminal. The complete
// address is in .dev/env.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return "(in .dev/env)"
	}
	return u.Redacted()
}
