package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/settings"
	privacyservice "github.com/tributary-hq/tributary/server/privacy"
	"github.com/tributary-hq/tributary/server/privacy/buyer"
	"github.com/tributary-hq/tributary/storage/postgres"
	erasures "github.com/tributary-hq/tributary/storage/postgres/privacy"
)

// replayErasures erases the subjects that erasure logs name and that are not erased in the
// database. The jobs that it enqueues run when the core runs.
func replayErasures(ctx context.Context, out io.Writer, paths []string) error {
	cfg, err := settings.Read[settings.Erasures]()
	if err != nil {
		return err
	}
	if _, err := postgres.CheckSchema(ctx, cfg.DatabaseURL); err != nil {
		return err
	}
	hashKeys := cfg.HashKeys.Keys()
	keys := privacy.NewErasureKeys(hashKeys)
	db, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL, MaxConns: 2, ErasureKeys: keys})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := assemble.CheckKeys(ctx, db, cfg.HashKeys.SettingKeys()); err != nil {
		return err
	}
	r := replayer{buyer.New(buyer.Config{
		DB: db, ErasureLog: privacyservice.NoLog{}, BuyerKeys: privacy.BuyerKeys(hashKeys), ErasureKeys: keys, Now: time.Now,
	}), privacyservice.New(privacyservice.Config{DB: db, Log: privacyservice.NoLog{}, HashKeys: hashKeys, Now: time.Now})}
	for _, path := range paths {
		if err := r.replayFile(ctx, out, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

type replayer struct {
	buyers   *buyer.Service
	accounts *privacyservice.Service
}

// replay erases the subject of an entry. It returns false if nothing was left to do. Buyers are
// always erased again, because only the sales of a buyer show whether the buyer was erased.
func (r replayer) replay(ctx context.Context, entry privacy.ErasureLogEntry) (bool, error) {
	identity, ok := privacy.BuyerOfEntry(entry)
	if !ok {
		_, done, err := r.accounts.Replay(ctx, entry)
		return done, err
	}
	err := r.buyers.Replay(ctx, *entry.Workspace, identity, entry.At)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) { // the backup is older than the workspace
		return false, nil
	}
	return err == nil, err
}

func (r replayer) replayFile(ctx context.Context, out io.Writer, path string) error {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	entries, invalid, err := privacyservice.ReadLog(file)
	if err != nil {
		return err
	}
	replayed := 0
	for _, entry := range entries {
		done, err := r.replay(ctx, entry)
		if err != nil {
			return fmt.Errorf("%s %s: %w", entry.Kind, entry.Subject, err)
		}
		if done {
			replayed++
		}
	}
	_, err = fmt.Fprintf(out, "%s: %d entries, %d erased again, %d invalid lines\n", path, len(entries), replayed, invalid)
	return err
}

func setBilling(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("workspace billing", flag.ContinueOnError)
	text := flags.String("id", "", "id of the workspace")
	active := flags.Bool("active", false, "whether the subscription is active")
	if err := flags.Parse(args); err != nil {
		return err
	}
	id, ok := affiliate.ParseID[affiliate.WorkspaceID](*text)
	if !ok {
		return errors.New("--id must be the id of a workspace")
	}
	db, err := openStore(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	found, err := erasures.SetBilling(ctx, db, id, *active)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("there is no workspace %s", id)
	}
	_, err = fmt.Fprintf(out, "workspace %s: subscription active: %t\n", id, *active)
	return err
}
