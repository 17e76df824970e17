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
	Consent   string  `db:"consent,nullable"`
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
	want := "r.id, r.workspace_id, r.mode, r.status, r.remark, coalesce(r.consent, '') as consent, r.reasons, r.cents, r.fx_rate, r.rule, r.created_at, r.paid_at"
	if got := Columns[record]("r"); got != want {
		t.Errorf("the columns are %s, want %s", got, want)
	}
}

func TestRowsOf_ReplacesPlaceholders(t *testing.T) {
	update := RowsOf[record](`update records r set {changes} from (values {typed rows}) as t ({columns}) where r.id = t.id`)
	want := "update records r set status = t.status, remark = t.remark, consent = t.consent, reasons = t.reasons, cents = t.cents, " +
		"fx_rate = t.fx_rate, rule = t.rule, paid_at = t.paid_at from (values " +
		"($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::text[], $8::bigint, $9::numeric, $10::jsonb, $11::timestamptz, $12::timestamptz)" +
		") as t (id, workspace_id, mode, status, remark, consent, reasons, cents, fx_rate, rule, created_at, paid_at) where r.id = t.id"
	if update.sql[0] != want {
		t.Errorf("the statement is\n%s\nwant\n%s", update.sql[0], want)
	}
}

func TestRowsOf_SplitsRowsIntoStatements(t *testing.T) {
	type pair struct {
		Name  string
		Count *int
		Tags  []string
		Note  string `db:"note,nullable"`
	}
	statement := RowsOf[pair](`insert into t ({columns}) values {rows}`)
	count := 3
	rows := slices.Repeat([]pair{{Name: "a", Count: &count}, {Name: "b", Tags: []string{"x"}, Note: "n"}}, 20)

	batch := &pgx.Batch{}
	var sizes []int
	for _, q := range statement.Queue(batch, rows...) {
		sizes = append(sizes, q.N)
	}
	if want := []int{32, 8}; !slices.Equal(sizes, want) {
		t.Fatalf("the statements have %v rows, want %v", sizes, want)
	}
	last := batch.QueuedQueries[1]
	if want := `insert into t (name, count, tags, note) values ($1, $2, $3, $4), ($5, $6, $7, $8), `; !strings.HasPrefix(last.SQL, want) {
		t.Errorf("the statement is %q, want a statement that begins with %q", last.SQL, want)
	}
	if len(last.Arguments) != 32 || last.Arguments[0] != "a" || last.Arguments[1] != &count || last.Arguments[4] != "b" {
		t.Errorf("the arguments are %v, want 32 arguments that begin with a, %p, [] and b", last.Arguments, &count)
	}
	if tags, ok := last.Arguments[2].([]string); !ok || tags == nil || len(tags) != 0 {
		t.Errorf("a list that is nil is written as %#v, want an empty list", last.Arguments[2])
	}
	if empty, set := last.Arguments[3], last.Arguments[7]; empty != nil || set != "n" {
		t.Errorf("a nullable column is written as %#v if the text is empty and as %#v if it is n, want nil and n", empty, set)
	}
}

func TestUnnest_HasAnArrayForEachColumn(t *testing.T) {
	type pair struct {
		Name  affiliate.CommissionID `db:"name,fixed"`
		Count int64
		Total int64 `db:"-"`
	}
	want := "unnest(@name::uuid[], @count::bigint[]) as k (name, count)"
	if got := Unnest[pair]("k"); got != want {
		t.Errorf("the expression is %s, want %s", got, want)
	}
	if got, want := Excluded[pair](), "count = excluded.count"; got != want {
		t.Errorf("the assignments are %s, want %s", got, want)
	}
	args := Arrays(affiliate.Scope{Mode: affiliate.ModeTest}, []pair{{Count: 1}, {Count: 2, Total: 3}})
	if counts, ok := args["count"].([]int64); !ok || !slices.Equal(counts, []int64{1, 2}) {
		t.Errorf("the counts are %#v, want 1 and 2", args["count"])
	}
	if len(args) != 4 || args["mode"] != affiliate.ModeTest {
		t.Errorf("the arguments are %v, want name, count, workspace and mode", args)
	}
}
