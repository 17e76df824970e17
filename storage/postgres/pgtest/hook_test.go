package pgtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres"
)

func TestOpenHooked_ObservesStatementsAndFailsThem(t *testing.T) {
	t.Parallel()
	f := Open(t, time.Now)
	var seen []string
	var refused string
	db := f.OpenHooked(func(sql string, _ []any) error {
		seen = append(seen, sql)
		if sql == refused {
			return errors.New("refused")
		}
		return nil
	})
	run := func() error {
		return db.InTx(f.Context(), func(tx *postgres.Tx) error {
			_, err := tx.Exec(f.Context(), "select 1")
			return err
		})
	}
	for _, refused = range []string{"", "select 1", "commit", "begin"} {
		seen = nil
		if err := run(); (err != nil) != (refused != "") {
			t.Errorf("when %q is refused, InTx returned %v", refused, err)
		}
		if refused == "" && !slices.Equal(seen, []string{"begin", "select 1", "commit"}) {
			t.Errorf("the hook saw %q", seen)
		}
	}
	if err := run(); err == nil {
		t.Error("InTx succeeded although begin is refused")
	}
}

func TestOpenHooked_LosesTheResponseOfACommit(t *testing.T) {
	t.Parallel()
	f := Open(t, time.Now)
	db := f.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" {
			return ErrResponseLost
		}
		return nil
	})
	err := db.InTx(f.Context(), func(tx *postgres.Tx) error {
		_, err := tx.Exec(f.Context(), "insert into fx_rates (base, quote, date, rate, loaded_at) values ('EUR', 'USD', now(), 1, now())")
		return err
	})
	if err == nil {
		t.Error("InTx succeeded although the response of the commit was lost")
	}
	f.WantCount(1, "committed rows", "select count(*) from fx_rates")
}

func TestOpenHooked_ReportsTheNumberOfRows(t *testing.T) {
	t.Parallel()
	f := Open(t, time.Now)
	rows := map[string]int64{}
	db := f.OpenHooked(func(string, []any) error { return nil }, func(sql string, n int64) { rows[sql] = n })
	const three, two = "select from generate_series(1, 3)", "select from generate_series(1, 2)"
	if _, err := db.Exec(f.Context(), three); err != nil {
		t.Fatal(err)
	}
	batch := &pgx.Batch{}
	batch.Queue(two)
	batch.Queue("select 1 / 0")
	if err := db.SendBatch(f.Context(), batch).Close(); err == nil {
		t.Error("the batch succeeded although a statement divides by zero")
	}
	if _, failed := rows["select 1 / 0"]; failed || rows[three] != 3 || rows[two] != 2 {
		t.Errorf("the hook saw the rows %v, want 3 and 2, and nothing of a statement that failed", rows)
	}
}
