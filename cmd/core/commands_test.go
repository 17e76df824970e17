package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/mailsink"
)

func TestCheckConsistency_ReportsViolation(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	var out bytes.Buffer
	if err := checkConsistency(t.Context(), &out); err != nil || strings.Contains(out.String(), "VIOLATED") || !strings.Contains(out.String(), "ok        balances: ") {
		t.Errorf("checkConsistency of correct data returned %v and printed\n%s", err, &out)
	}
	f.Exec(`insert into ledger_balances values (gen_random_uuid(), gen_random_uuid(), 'EUR', 0, 5)`)
	out.Reset()
	if err := checkConsistency(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "1 of 23 checks") || !strings.Contains(out.String(), "VIOLATED  balances: ") {
		t.Errorf("checkConsistency with a wrong balance returned %v, want 1 of 23 checks; it printed\n%s", err, &out)
	}
}

func TestLoadRates_LoadsAllFilesOrNone(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	file := func(name, body string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.csv", "date,base,quote,rate\n2026-03-09,EUR,USD,1.08\n2026-03-09,EUR,JPY,160\n")
	bad := file("bad.csv", "Date,USD\n2026-03-09,x\n")
	var out bytes.Buffer
	if err := loadRates(t.Context(), &out, []string{good, bad}); err == nil || !strings.Contains(err.Error(), bad+": line 2") || out.Len() > 0 {
		t.Errorf("loadRates with an invalid file returned %v, want an error about line 2; it printed %q, want nothing", err, &out)
	}
	if n := f.Count(`select count(*) from fx_rates`); n != 0 {
		t.Errorf("%d rates were stored, want none", n)
	}
	later := file("later.csv", "Date,USD\n2026-03-09,1.09\n2026-03-10,1.1\n")
	if err := loadRates(t.Context(), &out, []string{good, later}); err != nil {
		t.Fatal(err)
	}
	if want := good + ": 2 new, 0 changed, 0 unchanged\n" + later + ": 1 new, 1 changed, 0 unchanged\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestAnnounce_NotifiesAllWorkspaces(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	f.NewWorkspace()
	f.NewWorkspace()
	var out bytes.Buffer
	for _, text := range []struct{ title, body string }{{"", "Text"}, {"News", " \n"}, {"\ufeff\u202e", "Text"}, {strings.Repeat("x", 121), "Text"}, {"News", strings.Repeat("x", 5001)}} {
		if err := announce(t.Context(), strings.NewReader(text.body), &out, text.title, "-"); err == nil || !strings.Contains(err.Error(), "VALIDATION_ERROR") {
			t.Errorf("announce with a title of %d and a body of %d bytes returned %v, want VALIDATION_ERROR", len(text.title), len(text.body), err)
		}
	}
	if err := announce(t.Context(), nil, &out, "News", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("announce without the file succeeded")
	}
	f.WantCount(0, "notifications", `select count(*) from notifications`)
	if err := announce(t.Context(), strings.NewReader("There are <b>new</b> pages.\n"), &out, "News", "-"); err != nil {
		t.Fatal(err)
	}
	if out.String() != "announced to 2 workspaces\n" {
		t.Errorf("printed %q, want the number of workspaces", out.String())
	}
	f.WantCount(2, "notifications for workspaces", `
		select count(*) from notifications n join announcements a on a.id = n.resource_id
		where n.feed_id = n.workspace_id and n.mode = 'both' and n.category = 'product_updates' and a.title = 'News' and a.body = 'There are <b>new</b> pages.'`)
	f.WantCount(1, "arrivals of two notifications", `select count(*) from notification_arrivals where cardinality(ids) = 2`)
}

func TestCommands_RejectOldSchema(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	f.Exec(`delete from goose_db_version where version_id = (select max(version_id) from goose_db_version)`)
	rates := filepath.Join(t.TempDir(), "rates.csv")
	if err := os.WriteFile(rates, []byte("date,base,quote,rate\n2026-03-09,EUR,USD,1.08\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]func() error{
		"check": func() error { return checkConsistency(t.Context(), io.Discard) },
		"announce": func() error {
			return announce(t.Context(), strings.NewReader("Text"), io.Discard, "News", "-")
		},
		"fx load": func() error { return loadRates(t.Context(), io.Discard, []string{rates}) },
	} {
		if err := command(); err == nil || !strings.Contains(err.Error(), "run `core migrate` first") {
			t.Errorf("core %s on an old schema returned %v, want an error that names `core migrate`", name, err)
		}
	}
}

func TestInvalidArguments_ReturnUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"fx"}, {"fx", "load"}, {"fx", "unload", "file"}, {"announce", "News"}, {"nothing"}, {"analytics"}, {"analytics", "count"}, {"keys", "reset"}, {"keys", "list", "TRIBUTARY_HASH_KEY"}} {
		if err := run(t.Context(), args, io.Discard); err == nil || err.Error() != usage {
			t.Errorf("run(%q) returned %v, want the usage", args, err)
		}
	}
}

func TestRecountAnalytics(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	shop := f.NewShop(affiliate.ModeLive)
	f.NewShop(affiliate.ModeLive)
	shop.NewClick(shop.Join("Pat"))
	f.Exec(`delete from analytics_log`) // the sums then lack the click
	now := time.Now()
	workspace := shop.Scope.Workspace.String()
	for text, args := range map[string][]string{
		"--from and --to must be dates":      {"--from", "yesterday"},
		"must not be before --from or after": {"--to", now.AddDate(0, 0, 2).Format(time.DateOnly)},
		"--workspace must be the id":         {"--workspace", "shop"},
	} {
		if err := recountAnalytics(t.Context(), io.Discard, args, now); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("analytics recount %q returned %v, want an error with %q", args, err, text)
		}
	}
	var out bytes.Buffer
	from := now.AddDate(0, 0, -1).UTC().Format(time.DateOnly)
	if err := recountAnalytics(t.Context(), &out, []string{"--workspace", workspace, "--from", from}, now); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("workspace %[1]s, test: 2 days, 0 clicks, 0 conversions\nworkspace %[1]s, live: 2 days, 1 clicks, 0 conversions\n", workspace)
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	f.WantCount(1, "clicks in the analytics", `
		select sum(clicks) from analytics_days where dimension = '' and participant_id = '00000000-0000-0000-0000-000000000000'`)
	out.Reset()
	old := now.AddDate(-2, 0, 0).Format(time.DateOnly)
	if err := recountAnalytics(t.Context(), &out, []string{"--workspace", workspace, "--from", old, "--to", old}, now); err != nil || strings.Count(out.String(), ": 0 days") != 2 {
		t.Errorf("analytics recount of a day whose clicks were deleted returned %v and printed %q, want 0 days", err, out.String())
	}
	out.Reset()
	if err := recountAnalytics(t.Context(), &out, []string{"--from", from}, now); err != nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("analytics recount of all workspaces returned %v and printed %q, want a line for each workspace and mode", err, out.String())
	}
}

func TestCreateWorkspace_PrintsLink(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	t.Setenv("TRIBUTARY_PUBLIC_URL", "https://api.example.com")
	command := func(email, name string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), []string{"workspace", "create", "--email", email, "--name", name, "--workspace", "Shop"}, &out)
		return out.String(), err
	}
	for _, tc := range []struct{ email, name, fault string }{
		{"no address", "Mia", "--email"}, {"mia@shop.example", " ", "--name"},
	} {
		if out, err := command(tc.email, tc.name); err == nil || !strings.Contains(err.Error(), tc.fault) || out != "" {
			t.Errorf("the command printed %q and returned %v, want an error about %s", out, err, tc.fault)
		}
	}
	t.Setenv("TRIBUTARY_PUBLIC_URL", "")
	if out, err := command("mia@shop.example", "Mia"); err == nil || out != "" || f.Count(`select count(*) from workspaces`) != 0 {
		t.Errorf("without an address for the link the command printed %q and returned %v, want an error before a workspace exists", out, err)
	}
	t.Setenv("TRIBUTARY_PUBLIC_URL", "https://api.example.com")
	out, err := command("mia@shop.example", "Mia")
	if err != nil || !strings.Contains(out, "https://api.example.com/reset-password#kind=merchant&token=rst_") {
		t.Errorf("the command printed %q and returned %v, want a link", out, err)
	}
	if out, err := command("mia@shop.example", "Mia"); err == nil || out != "" {
		t.Errorf("the second command printed %q and returned %v, want an error", out, err)
	}
	if n := f.Count(`select count(*) from workspaces`); n != 1 {
		t.Errorf("there are %d workspaces, want 1", n)
	}
}

func TestResetSecondFactor_RemovesIt(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	user := f.NewPartner("Ada")
	email := f.Texts(`select email from users`)[0]
	f.Insert("second_factors", pgtest.Row{"user_id": user, "secret": []byte("sealed"), "created_at": f.Now(), "confirmed_at": f.Now()})
	for _, tc := range []struct{ email, kind, fault string }{
		{email, "operator", "--kind"}, {email, "merchant", "no merchant account"}, {email, "partner", ""}, {email, "partner", "no second factor"},
	} {
		err := run(t.Context(), []string{"account", "reset-second-factor", "--email", tc.email, "--kind", tc.kind}, io.Discard)
		if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("the command for %s returned %v, want %q", tc.kind, err, tc.fault)
		}
	}
	f.WantCount(0, "second factors", `select count(*) from second_factors`)
}

// runMailTest runs the command with a mail server and returns its output.
func runMailTest(t *testing.T, smtpURL, address string) (string, error) {
	t.Helper()
	t.Setenv("TRIBUTARY_SMTP_URL", smtpURL)
	t.Setenv("TRIBUTARY_MAIL_FROM", "Acme <no-reply@example.com>")
	t.Setenv("TRIBUTARY_PUBLIC_URL", "https://api.example.com")
	var out bytes.Buffer
	err := run(t.Context(), []string{"mail", "test", address}, &out)
	return out.String(), err
}

func TestMailTest_PrintsReplyOfServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sink := mailsink.New(10)
	go func() { _ = sink.ServeSMTP(t.Context(), listener) }()
	out, err := runMailTest(t, "smtp://"+listener.Addr().String()+"?tls=none", "mia@shop.example")
	if want := "the mail server has accepted the mail: 250 2.0.0 OK: queued\n"; err != nil || out != want {
		t.Errorf("the command printed %q and returned %v, want %q", out, err, want)
	}
	got := sink.Messages("mia@shop.example")
	if len(got) != 1 || got[0].From != `"Acme" <no-reply@example.com>` || got[0].Subject != "Test of the mail server" {
		t.Errorf("the server received %+v, want the test mail", got)
	}
}

func TestMailTest_FailsWithReasonOfServer(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{User: "tributary", Password: "hunter2"})
	server.RefuseRecipient("nobody@shop.example", mailtest.Reply{Code: 550, Text: "5.1.1 User unknown"})
	server.FailOnce(mail.PhaseAuth, mailtest.Reply{Code: 535, Text: "5.7.8 Bad credentials"})
	for _, tc := range []struct{ name, url, address, want string }{
		{"wrong password", server.URL(), "mia@shop.example", "mail: auth: 535 5.7.8 Bad credentials"},
		{"unknown recipient", server.URL(), "nobody@shop.example", "mail: rcpt: 550 5.1.1 User unknown"},
		{"invalid address", server.URL(), "nobody", "ADDRESS: the mail address is invalid"},
		{"no server", "smtp://127.0.0.1:1?tls=none", "mia@shop.example", "connection refused"},
		{"no setting", "", "mia@shop.example", "TRIBUTARY_SMTP_URL is not set, so no mail is sent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := runMailTest(t, tc.url, tc.address)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") || out != "" {
				t.Errorf("the command printed %q and returned %v, want the error %q", out, err, tc.want)
			}
		})
	}
	if n := len(server.Messages()); n != 0 {
		t.Errorf("the server received %d mails, want none", n)
	}
}

func TestResetKeys_AllowsOtherKeys(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	t.Setenv("TRIBUTARY_DATABASE_URL", f.URL)
	log := filepath.Join(t.TempDir(), "erasures.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(key byte) error {
		t.Setenv("TRIBUTARY_HASH_KEY", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{key}, 32)))
		return run(t.Context(), []string{"erasures", "replay", log}, io.Discard)
	}
	if err := replay(1); err != nil {
		t.Fatal(err)
	}
	if err := replay(2); err == nil || !strings.HasPrefix(err.Error(), "TRIBUTARY_HASH_KEY: the key is missing") {
		t.Errorf("erasures are repeated with another hash key, with the error %v", err)
	}
	if err := run(t.Context(), []string{"keys", "reset", "TRIBUTARY_SMTP_URL"}, io.Discard); err == nil || !strings.Contains(err.Error(), "TRIBUTARY_HASH_KEY") {
		t.Errorf("core keys reset of another setting returned %v, want the names of the settings", err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"keys", "reset", "TRIBUTARY_HASH_KEY"}, &out); err != nil || out.String() != "TRIBUTARY_HASH_KEY: the fingerprints of 1 keys were deleted\n" {
		t.Errorf("core keys reset printed %q and returned %v", &out, err)
	}
	if err := replay(2); err != nil {
		t.Errorf("after core keys reset another hash key returns %v", err)
	}
}
