package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/mail"
	accountservice "github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/server/fx"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// checkConsistency runs the consistency checks (package check), and prints the result of each
// check. It has no timeout.
func checkConsistency(ctx context.Context, out io.Writer) error {
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	// On a standby, Run returns an error, because the results cannot be stored. They are printed all the same.
	results, err := check.Run(ctx, db, time.Now)
	if err := errors.Join(check.Print(out, results), err); err != nil {
		return err
	}
	if n := check.Violated(results); n > 0 {
		return fmt.Errorf("%d of %d checks have failed", n, len(results))
	}
	return nil
}

// loadRates loads exchange rates from files. It reads all files before it stores any
// rate. If one of the files is invalid, it stores nothing.
func loadRates(ctx context.Context, out io.Writer, paths []string) error {
	files := make([][]attribution.FXRate, len(paths))
	for i, path := range paths {
		var err error
		if files[i], err = fx.Read(path); err != nil {
			return err
		}
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	for i, rates := range files {
		loaded, err := fx.Load(ctx, db, rates, time.Now().UTC().Truncate(time.Millisecond))
		if err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
		if _, err := fmt.Fprintf(out, "%s: %d new, %d changed, %d unchanged\n", paths[i], loaded.New, loaded.Changed, loaded.Same); err != nil {
			return err
		}
	}
	return nil
}

// announce sends a text of the operator to the members of all workspaces, as a
// notification of the category product_updates. path is a file with the text, or - for the
// standard input.
func announce(ctx context.Context, in io.Reader, out io.Writer, title, path string) error {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	announcement, err := notification.NewProductAnnouncement(title, string(body), time.Now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return err
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var workspaces int64
	if err := db.InTx(ctx, func(tx *postgres.Tx) error {
		workspaces, err = notifications.AnnounceProduct(ctx, tx, announcement)
		return err
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "announced to %d workspaces\n", workspaces)
	return err
}

// resetKeys deletes the stored fingerprints of the keys of a setting, so that the next core may
// start with other keys.
func resetKeys(ctx context.Context, out io.Writer, setting string) error {
	if !slices.Contains(assemble.KeySettings(), setting) {
		return fmt.Errorf("the setting must be one of %s", strings.Join(assemble.KeySettings(), ", "))
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	deleted, err := postgres.DeleteKeyFingerprints(ctx, db, setting)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: the fingerprints of %d keys were deleted\n", setting, deleted)
	return err
}

// openStore opens the database. It returns an error if a migration of this binary was not
// applied to the database.
func openStore(ctx context.Context) (*postgres.DB, error) {
	cfg, err := settings.Read[settings.Database]()
	if err != nil {
		return nil, err
	}
	if _, err := postgres.CheckSchema(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL, MaxConns: 1})
}

// sendTestMail sends a mail to an address over the mail server of the settings, and prints
// the reply of the server. It makes one attempt and does not use the database. An address
// to which mails are suppressed gets the mail too.
func sendTestMail(ctx context.Context, out io.Writer, address string, at time.Time) error {
	cfg, err := settings.Read[settings.Mail]()
	if err != nil {
		return err
	}
	if cfg.SMTPURL == "" {
		return errors.New("TRIBUTARY_SMTP_URL is not set, so no mail is sent")
	}
	sender, err := mail.NewSender(mail.Config{URL: cfg.SMTPURL, From: cfg.MailFrom, ReplyTo: cfg.MailReplyTo})
	if err != nil {
		return err
	}
	to, err := mail.ParseAddress(address)
	if err != nil {
		return fmt.Errorf("ADDRESS: %w", err)
	}
	const subject = "Test of the mail server"
	content, err := mail.Document{
		Brand: "Tributary", Subject: subject, Heading: subject,
		Blocks: []mail.Block{{Paragraph: "The mail server of this installation delivers mail to this address."}},
		Footer: mail.Footer{Reason: "You get this mail because the operator ran core mail test."},
	}.Render()
	if err != nil {
		return err
	}
	reply, err := sender.SendWithReply(ctx, mail.Message{ID: uuid.NewString(), To: to, Content: content, Date: at})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the mail server has accepted the mail: %s\n", reply)
	return err
}

// resetSecondFactor removes the second factor of an account whose owner has lost the
// authenticator app and the recovery codes. It ends the sessions and notifies the owner.
func resetSecondFactor(ctx context.Context, out io.Writer, args []string, now func() time.Time) error {
	flags := flag.NewFlagSet("account reset-second-factor", flag.ContinueOnError)
	email := flags.String("email", "", "e-mail address of the account")
	kind := flags.String("kind", "", "merchant or partner")
	if err := flags.Parse(args); err != nil {
		return err
	}
	accountKind := affiliate.AccountKind(*kind)
	if *email == "" || accountKind != affiliate.Merchant && accountKind != affiliate.Partner {
		return errors.New("--email must be an address, and --kind merchant or partner")
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	accounts := accountservice.New(accountservice.Config{DB: db, Now: now})
	err = accounts.ResetSecondFactor(ctx, accountKind, strings.ToLower(*email))
	switch {
	case errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)):
		return fmt.Errorf("%s has no %s account", *email, *kind)
	case errors.Is(err, affiliate.Refuse(affiliate.ReasonSecondFactorState)):
		return fmt.Errorf("the %s account of %s has no second factor", *kind, *email)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintln(out, "the second factor was removed, and all sessions were ended")
	return err
}

// recountAnalytics counts the clicks and conversions of days again, in one workspace or in all.
func recountAnalytics(ctx context.Context, out io.Writer, args []string, now time.Time) error {
	today := now.UTC().Truncate(24 * time.Hour)
	flags := flag.NewFlagSet("analytics recount", flag.ContinueOnError)
	workspace := flags.String("workspace", "", "id of a workspace; default: all workspaces")
	first := flags.String("from", analytics.OldestDay(now).Format(time.DateOnly), "first day (UTC)")
	last := flags.String("to", today.Format(time.DateOnly), "last day (UTC)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	from, errFrom := time.Parse(time.DateOnly, *first)
	to, errTo := time.Parse(time.DateOnly, *last)
	switch {
	case errFrom != nil || errTo != nil:
		return errors.New("--from and --to must be dates such as 2026-01-31")
	case to.Before(from) || to.After(today):
		return errors.New("--to must not be before --from or after today")
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	workspaces, err := rollups.Workspaces(ctx, db)
	if err != nil {
		return err
	}
	if *workspace != "" {
		id, ok := affiliate.ParseID[affiliate.WorkspaceID](*workspace)
		if !ok {
			return errors.New("--workspace must be the id of a workspace")
		}
		workspaces = []affiliate.WorkspaceID{id}
	}
	service := analytics.New(db, slog.New(slog.NewJSONHandler(os.Stderr, nil)), time.Now)
	for _, id := range workspaces {
		for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
			counted, err := service.Recount(ctx, affiliate.Scope{Workspace: id, Mode: mode}, from, to)
			if err != nil {
				return fmt.Errorf("workspace %s, %s: %w", id, mode, err)
			}
			_, err = fmt.Fprintf(out, "workspace %s, %s: %d days, %d clicks, %d conversions\n", id, mode, counted.Days, counted.Clicks, counted.Conversions)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// createWorkspace creates a workspace with its owner, and prints the link with which the owner
// sets the password. It also works if the settings close the registration of merchants.
func createWorkspace(ctx context.Context, out io.Writer, args []string, now func() time.Time) error {
	flags := flag.NewFlagSet("workspace create", flag.ContinueOnError)
	email := flags.String("email", "", "e-mail address of the owner")
	name := flags.String("name", "", "name of the owner")
	workspace := flags.String("workspace", "", "name of the workspace")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !account.BareAddress(*email) || len(*email) > 320 {
		return errors.New("--email must be an e-mail address")
	}
	*name, *workspace = strings.TrimSpace(*name), strings.TrimSpace(*workspace)
	for _, text := range []string{*name, *workspace} {
		if length := utf8.RuneCountInString(text); length < 1 || length > 100 {
			return errors.New("--name and --workspace must have 1 to 100 characters")
		}
	}
	links, err := settings.Read[settings.Links]()
	if err != nil {
		return err
	}
	base := cmp.Or(links.AppURL, links.PublicURL)
	if base == "" {
		return errors.New("TRIBUTARY_APP_URL or TRIBUTARY_PUBLIC_URL must be set, because the command prints a link")
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	accounts := accountservice.New(accountservice.Config{DB: db, Now: now})
	id, token, err := accounts.CreateWorkspace(ctx, *email, *name, *workspace)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonEmailTaken)) {
		return fmt.Errorf("%s already has a merchant account", *email)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "workspace %s\nThe owner sets the password within 7 days: %s/reset-password#kind=merchant&token=%s\n",
		id, strings.TrimSuffix(base, "/"), token)
	return err
}
