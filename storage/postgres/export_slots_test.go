package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Readers who take their time hold places, never the pool: a workspace has two,
// everybody together eight, and who ends makes room.
func TestSlowReadersHoldNoMoreThanTheirPlaces(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	full := affiliate.Refuse(affiliate.ReasonServiceUnavailable)
	reading, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	begin := func(workspace affiliate.WorkspaceID) {
		go func() {
			ended <- store.InExport(t.Context(), workspace, func(context.Context, pgx.Tx) error {
				reading <- struct{}{}
				<-release
				return nil
			})
		}()
		<-reading
	}
	refused := func(workspace affiliate.WorkspaceID) {
		t.Helper()
		err := store.InExport(t.Context(), workspace, func(context.Context, pgx.Tx) error { t.Error("it ran"); return nil })
		var refusal *affiliate.Error
		if !errors.Is(err, full) || !errors.As(err, &refusal) || refusal.Metadata["retry_after"] != "10" {
			t.Errorf("%v", err)
		}
	}
	for range postgres.MaxExports / postgres.MaxWorkspaceExports {
		workspace := affiliate.NewID[affiliate.Workspace](time.Now())
		for range postgres.MaxWorkspaceExports {
			begin(workspace)
		}
		refused(workspace)
	}
	other := affiliate.NewID[affiliate.Workspace](time.Now())
	refused(other)
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	release <- struct{}{}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	begin(other)
	close(release)
	for range postgres.MaxExports {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := store.InExport(t.Context(), other, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Errorf("places are held by nobody: %v", err)
	}
}

func TestExportsMayTakeTenMinutesAndOnlyRead(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name, want := range map[string]string{"statement_timeout": "10min", "transaction_read_only": "on", "role": "tributary_app"} {
		if got, err := store.ExportSetting(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	// The one connection is as before.
	var timeout string
	if err := store.InTx(t.Context(), func(tx *postgres.Tx) error {
		return tx.QueryRow(t.Context(), `select current_setting('statement_timeout')`).Scan(&timeout)
	}); err != nil || timeout != "10s" {
		t.Errorf("after an export: %s, %v", timeout, err)
	}
}
