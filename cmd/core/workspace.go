package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/cmd/settings"
	accountservice "github.com/tributary-hq/tributary/server/account"
)

// createWorkspace creates a workspace with its owner, and prints the link with which the
// owner sets the password. It works whatever the setting of the registration is.
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
