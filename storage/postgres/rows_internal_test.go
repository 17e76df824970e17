package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestRowsOf_SplitsRowsIntoStatements(t *testing.T) {
	type pair struct {
		Name  string `db:"name" sql:"text"`
		Count *int   `db:"count"`
	}
	statement := RowsOf[pair](`insert into t (%[1]s) values %[2]s`)
	count := 3
	rows := slices.Repeat([]pair{{"a", &count}, {"b", nil}}, 20)

	batch := &pgx.Batch{}
	var sizes []int
	for _, q := range statement.Queue(batch, rows...) {
		sizes = append(sizes, q.N)
	}
	if want := []int{32, 8}; !slices.Equal(sizes, want) {
		t.Fatalf("the statements have %v rows, want %v", sizes, want)
	}
	last := batch.QueuedQueries[1]
	if want := `insert into t (name, count) values ($1::text, $2), ($3, $4), `; !strings.HasPrefix(last.SQL, want) {
		t.Errorf("the statement is %q, want a statement that begins with %q", last.SQL, want)
	}
	if len(last.Arguments) != 16 || last.Arguments[0] != "a" || last.Arguments[1] != &count || last.Arguments[2] != "b" {
		t.Errorf("the arguments are %v, want 16 arguments that begin with a, %p and b", last.Arguments, &count)
	}
}

func TestRowsOf_PanicsForFieldWithoutColumn(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("rowsOf did not panic")
		}
	}()
	RowsOf[struct{ Name string }](`%[1]s %[2]s`)
}
