package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/analytics"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

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
