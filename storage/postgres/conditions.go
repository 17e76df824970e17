package postgres

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// PlanForArgs makes Postgres plan a statement for its actual arguments. A generic plan
// does not consider how large the workspace is or how many rows have a prefix, and it
// cannot use an index for a LIKE pattern.
const PlanForArgs = pgx.QueryExecModeCacheDescribe

// Conditions are the terms of a WHERE clause and their arguments.
type Conditions struct {
	Terms []string
	Args  []any
}

// Add appends a term and its arguments. It replaces each ? in the term by the placeholder
// of the next argument.
func (c *Conditions) Add(term string, args ...any) {
	for _, arg := range args {
		term = strings.Replace(term, "?", c.Placeholder(1), 1)
		c.Args = append(c.Args, arg)
	}
	c.Terms = append(c.Terms, term)
}

// Placeholder returns the placeholder of the nth argument after c.args.
func (c *Conditions) Placeholder(n int) string { return fmt.Sprintf("$%d", len(c.Args)+n) }

// SQL returns the terms, joined by and.
func (c *Conditions) SQL() string { return strings.Join(c.Terms, " and ") }

// Within adds the condition that the time in a column lies in a period.
func (c *Conditions) Within(column string, p affiliate.Period) {
	if p.From != nil {
		c.Add(column+" >= ?", *p.From)
	}
	if p.Before != nil {
		c.Add(column+" < ?", *p.Before)
	}
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// LikePrefix returns the LIKE pattern for texts that start with prefix.
func LikePrefix(prefix string) string { return likeEscapes.Replace(prefix) + "%" }

// IDRange returns the first and the last id that start with prefix. ok is false if no
// id can start with prefix.
func IDRange(prefix string) (first, last uuid.UUID, ok bool) {
	const zeros, fs = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(prefix) > len(zeros) {
		return first, last, false
	}
	var errFirst, errLast error
	first, errFirst = uuid.Parse(prefix + zeros[len(prefix):])
	last, errLast = uuid.Parse(prefix + fs[len(prefix):])
	return first, last, errFirst == nil && errLast == nil
}
