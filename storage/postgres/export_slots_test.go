package postgres_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// exportText runs an export whose statement returns a single text column.
func exportText(t *testing.T, db *postgres.DB, workspace affiliate.WorkspaceID, sql string) iter.Seq2[string, error] {
	t.Helper()
	return postgres.Export(t.Context(), db, workspace, pgx.RowTo[string], sql)
}

// A slot is the permission to run an export. An export uses one slot until its reader has
// finished. A workspace has two slots, and the process has eight. Therefore slow readers
// cannot use all connections of the pool. A finished export must free its slot.
func TestExport_LimitsConcurrentExports(t *testing.T) {
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	unavailable := affiliate.Refuse(affiliate.ReasonServiceUnavailable)
	reading, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	// begin starts an export and returns when the export has returned its row.
	begin := func(workspace affiliate.WorkspaceID) {
		go func() {
			var failed error
			for _, err := range exportText(t, db, workspace, `select 'x'`) {
				failed = err
				reading <- struct{}{}
				<-release
			}
			ended <- failed
		}()
		<-reading
	}
	checkRefused := func(workspace affiliate.WorkspaceID) {
		t.Helper()
		var got error
		for row, err := range exportText(t, db, workspace, `select 'x'`) {
			if got = err; row != "" {
				t.Error("an export without a free slot returned a row")
			}
		}
		var refusal *affiliate.Error
		if !errors.Is(got, unavailable) || !errors.As(got, &refusal) || refusal.Metadata["retry_after"] != "10" {
			t.Errorf("an export without a free slot returned %v, want %v with retry_after 10", got, unavailable)
		}
	}
	for range postgres.MaxExports / postgres.MaxWorkspaceExports {
		workspace := affiliate.NewID[affiliate.WorkspaceID](time.Now())
		for range postgres.MaxWorkspaceExports {
			begin(workspace)
		}
		checkRefused(workspace)
	}
	other := affiliate.NewID[affiliate.WorkspaceID](time.Now())
	checkRefused(other)
	if err := db.Ping(t.Context()); err != nil {
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
	for _, err := range exportText(t, db, other, `select 'x'`) {
		if err != nil {
			t.Errorf("finished exports did not free their slots: %v", err)
		}
	}
}

func TestExport_IsReadOnlyWithTimeoutOfTenMinutes(t *testing.T) {
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, want := range map[string]string{"statement_timeout": "10min", "transaction_read_only": "on", "role": "tributary_app"} {
		for got, err := range exportText(t, db, affiliate.WorkspaceID{}, fmt.Sprintf(`select current_setting('%s')`, name)) {
			if err != nil || got != want {
				t.Errorf("during an export, %s is %q, %v, want %q", name, got, err, want)
			}
		}
	}
	// The settings of the export must not remain on the only connection of the pool.
	var timeout string
	if err := db.InTx(t.Context(), func(tx *postgres.Tx) error {
		return tx.QueryRow(t.Context(), `select current_setting('statement_timeout')`).Scan(&timeout)
	}); err != nil || timeout != "10s" {
		t.Errorf("after an export, statement_timeout is %q, %v, want 10s", timeout, err)
	}
}

func TestExport_EndsAfterAnErrorOrWhenItsReaderStops(t *testing.T) {
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Each export needs the only connection and a free slot. Therefore the export before
	// it must have released both.
	for range postgres.MaxWorkspaceExports + 1 {
		read := 0
		for _, err := range exportText(t, db, affiliate.WorkspaceID{}, `select 'x' from generate_series(1, 1000000)`) {
			if read++; err != nil {
				t.Fatal(err)
			}
			break
		}
		var failures []error
		for _, err := range exportText(t, db, affiliate.WorkspaceID{}, `select (1 / (2 - n))::text from generate_series(1, 2) n`) {
			if read++; err != nil {
				failures = append(failures, err)
			}
		}
		if read != 3 || len(failures) != 1 {
			t.Errorf("the two exports returned %d elements with the errors %v, want 3 and one error", read, failures)
		}
	}
}
