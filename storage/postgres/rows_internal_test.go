package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// record is a row with each kind of field.
type record struct {
	ID affiliate.CommissionID `db:"id,fixed"`
	affiliate.Scope
	Status    affiliate.Mode
	Note      *string `db:"remark"`
	Reasons   []string
	Cents     int64
	FXRate    *string `sql:"numeric"`
	Rule      map[string]int
	CreatedAt time.Time `db:"created_at,fixed"`
	PaidAt    *time.Time
	Total     int64 `db:"-"`
	hidden    int   //nolint:unused // is no column
}

func TestColumns_AreTheFieldsOfTheStruct(t *testing.T) {
	want := "r.id, r.workspace_id, r.mode, r.status, r.remark, r.reasons, r.cents, r.fx_rate, r.rule, r.created_at, r.paid_at"
	if got := Columns[record]("r"); got != want {
		t.Errorf("the columns are %s, want %s", got, want)
	}
}

func TestRowsOf_ReplacesPlaceholders(t *testing.T) {
	update := RowsOf[record](`update records r set {changes} from (values {typed rows}) as t ({columns}) where r.id = t.id`)
	want := "update records r set status = t.status, remark = t.remark, reasons = t.reasons, cents = t.cents, " +
		"fx_rate = t.fx_rate, rule = t.rule, paid_at = t.paid_at from (values " +
		"($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::text[], $7::bigint, $8::numeric, $9::jsonb, $10::timestamptz, $11::timestamptz)" +
		") as t (id, workspace_id, mode, status, remark, reasons, cents, fx_rate, rule, created_at, paid_at) where r.id = t.id"
	if update.sql[0] != want {
		t.Errorf("the statement is\n%s\nwant\n%s", update.sql[0], want)
	}
}

func TestRowsOf_SplitsRowsIntoStatements(t *testing.T) {
	type pair struct {
		Name  string
		Count *int
		Tags  []string
	}
	statement := RowsOf[pair](`insert into t ({columns}) values {rows}`)
	count := 3
	rows := slices.Repeat([]pair{{Name: "a", Count: &count}, {Name: "b", Tags: []string{"x"}}}, 20)

	batch := &pgx.Batch{}
	var sizes []int
	for _, q := range statement.Queue(batch, rows...) {
		sizes = append(sizes, q.N)
	}
	if want := []int{32, 8}; !slices.Equal(sizes, want) {
		t.Fatalf("the statements have %v rows, want %v", sizes, want)
	}
	last := batch.QueuedQueries[1]
	if want := `insert into t (name, count, tags) values ($1, $2, $3), ($4, $5, $6), `; !strings.HasPrefix(last.SQL, want) {
		t.Errorf("the statement is %q, want a statement that begins with %q", last.SQL, want)
	}
	if len(last.Arguments) != 24 || last.Arguments[0] != "a" || last.Arguments[1] != &count || last.Arguments[3] != "b" {
		t.Errorf("the arguments are %v, want 24 arguments that begin with a, %p, [] and b", last.Arguments, &count)
	}
	if tags, ok := last.Arguments[2].([]string); !ok || tags == nil || len(tags) != 0 {
		t.Errorf("a list that is nil is written as %#v, want an empty list", last.Arguments[2])
	}
}
