package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestAfterCommit_CallsFunctionsAfterTheCommit(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	refused := errors.New("refused")
	serializationFailure := &pgconn.PgError{Code: "40001"}

	for _, tc := range []struct {
		name    string
		results []error  // result of the transaction's function in each run
		want    error    // result of InTx
		called  []string // functions that must be called
	}{
		{name: "in the order of registration", results: []error{nil}, called: []string{"first of run 1", "second of run 1"}},
		{name: "not after a rollback", results: []error{refused}, want: refused},
		{
			name: "once for a transaction that was repeated", results: []error{serializationFailure, nil},
			called: []string{"first of run 2", "second of run 2"},
		},
		{name: "not after a canceled context", results: []error{context.Canceled}, want: context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const lock = 1
			var called []string
			runs := 0
			err := db.InTx(t.Context(), func(tx *postgres.Tx) error {
				runs++
				if _, err := tx.Exec(t.Context(), `select pg_advisory_xact_lock($1)`, lock); err != nil {
					return err
				}
				for _, name := range []string{"first", "second"} {
					name = fmt.Sprintf("%s of run %d", name, runs)
					tx.AfterCommit(func() {
						// The lock belongs to the transaction, so it is free after the
						// commit.
						var committed bool
						err := db.QueryRow(t.Context(), `select pg_try_advisory_xact_lock($1)`, lock).Scan(&committed)
						if err != nil || !committed {
							t.Errorf("the function %q was called before the commit (committed %t, %v)", name, committed, err)
						}
						called = append(called, name)
					})
				}
				return tc.results[runs-1]
			})
			if !errors.Is(err, tc.want) || runs != len(tc.results) {
				t.Errorf("InTx returned %v after %d runs, want %v after %d", err, runs, tc.want, len(tc.results))
			}
			if !slices.Equal(called, tc.called) {
				t.Errorf("the functions %q were called, want %q", called, tc.called)
			}
		})
	}
}
