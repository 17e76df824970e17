package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server/account"
)

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
	store, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	accounts := account.New(account.Config{Store: stores.Account(store.DB), Now: now})
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
