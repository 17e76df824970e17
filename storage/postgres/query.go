package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// Queryer is a pool, a connection or a transaction.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func execute(ctx context.Context, on Executor, sql string, args []any) (pgconn.CommandTag, error) {
	tag, err := on.Exec(ctx, sql, args...)
	return tag, nameStatement(sql, err)
}

func query(ctx context.Context, on Queryer, sql string, args []any) (pgx.Rows, error) {
	rows, err := on.Query(ctx, sql, args...)
	return namedRows{rows, sql}, nameStatement(sql, err)
}

// namedRows, namedRow and namedBatch are results whose errors name the statement.
type namedRows struct {
	pgx.Rows
	sql string
}

// Err returns the error that ended the result.
func (r namedRows) Err() error { return nameStatement(r.sql, r.Rows.Err()) }

type namedRow struct {
	pgx.Row
	sql string
}

// Scan reads the row. Errors: pgx.ErrNoRows.
func (r namedRow) Scan(dest ...any) error { return nameStatement(r.sql, r.Row.Scan(dest...)) }

type namedBatch struct {
	pgx.BatchResults
	batch *pgx.Batch
}

// Close reads the results that were not read. Its error names the first statement.
func (b namedBatch) Close() error {
	err := b.BatchResults.Close()
	if err != nil && len(b.batch.QueuedQueries) > 0 {
		err = nameStatement("batch from "+b.batch.QueuedQueries[0].SQL, err)
	}
	return err
}

// statementName is the number of characters with which an error names a statement.
const statementName = 60

// nameStatement adds the beginning of a statement to its error.
func nameStatement(sql string, err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	name := strings.Join(strings.Fields(sql), " ")
	return fmt.Errorf("%s: %w", name[:min(len(name), statementName)], err)
}

// OneRow reads the only row of a query into a T, by the names of its columns. Errors:
// NOT_FOUND if the query returned no row.
func OneRow[T any](rows pgx.Rows, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return row, err
}

// Optional reads the row of a query that returns at most one row, by the names of its columns.
// found is false if there is no row.
func Optional[T any](ctx context.Context, db Queryer, sql string, args ...any) (row T, found bool, err error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectExactlyOneRow returns the error
	row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, err
}

// AllRows reads all rows of a query by the names of their columns and converts each row
// with the given function.
func AllRows[R, T any](rows pgx.Rows, err error, convert func(R) T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
		r, err := pgx.RowToStructByName[R](row)
		if err != nil {
			var zero T
			return zero, err
		}
		return convert(r), nil
	})
}

// CountUpTo returns a statement that counts rows. The parameter from is a FROM clause, with
// conditions if necessary. The statement stops after limit+1 rows. A result greater than limit
// therefore means that there are more rows than limit. The comments on functions that
// return such a result say that the number stops at limit.
func CountUpTo(limit int64, from string) string {
	return fmt.Sprintf(`select count(*) from (select %s limit %d) counted`, from, limit+1)
}

// ActorName returns an expression for the current name of a member, or "service:" and the name of
// a service token, of the workspace. The parameter actor is an expression for the id, which can be
// null or the word "system". The result is null for system and for members who have left. The names
// are read by subqueries for each row. With a join, Postgres could read the users of all workspaces.
func ActorName(actor, workspace string) string {
	return `case when ` + actor + ` ~ '^[0-9a-f-]{36}$' then coalesce(
		(
			select u.name from users u join members m on m.user_id = u.id
			where u.id = (` + actor + `)::uuid and u.erased_at is null and m.workspace_id = ` + workspace + `
		),
		(select 'service:' || s.name from service_tokens s where s.workspace_id = ` + workspace + ` and s.id = (` + actor + `)::uuid)
	) end`
}

// PgEpoch is 2000-01-01 in Unix microseconds. Postgres stores an instant as the
// number of microseconds since then.
const PgEpoch = 946_684_800_000_000

// List reads all rows of a query by the names of their columns.
func List[T any](ctx context.Context, db Queryer, sql string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns the error
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// Values reads the only column of all rows of a query.
func Values[T any](ctx context.Context, db Queryer, sql string, args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns the error
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// Value reads the only value of a query.
func Value[T any](ctx context.Context, db Queryer, sql string, args ...any) (T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectExactlyOneRow returns the error
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

// Page reads the rows of a page by the names of their columns, and counts the rows of all pages. Both statements get
// the arguments of the given conditions; the statement for the page then gets the size and the offset of the page. A
// row that is inserted between the two statements is missing from the page but included in the total. On the last
// page nothing is counted, because the position of its last row is the total.
func Page[T any](
	ctx context.Context, db Queryer, where Conditions, page affiliate.Page, pageSQL, countSQL string,
) (rows []T, total int64, err error) {
	args := append([]any{PlanForArgs}, where.Args...)
	rows, err = List[T](ctx, db, pageSQL, append(args, page.Size, page.Offset())...)
	if err != nil {
		return nil, 0, err
	}
	if n := int64(len(rows)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		return rows, page.Offset() + n, nil
	}
	total, err = Value[int64](ctx, db, countSQL, args...)
	return rows, total, err
}

// Executor is a pool, a connection or a transaction that executes statements.
type Executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// ExecCount executes a statement and returns the number of affected rows.
func ExecCount(ctx context.Context, db Executor, sql string, args ...any) (int64, error) {
	tag, err := db.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

// Exec executes a statement without a result.
func Exec(ctx context.Context, db Executor, sql string, args ...any) error {
	_, err := db.Exec(ctx, sql, args...)
	return err
}

// Send executes the statements of a batch in one round trip, or does nothing if the batch
// is empty.
func Send(ctx context.Context, db Executor, batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	return db.SendBatch(ctx, batch).Close()
}

// QueueList queues a query whose rows are read into list, by the names of their columns.
func QueueList[T any](batch *pgx.Batch, list *[]T, sql string, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*list, err = pgx.CollectRows(rows, pgx.RowToStructByName[T])
		return err
	})
}

// QueueValues queues a query with one column, which is read into values.
func QueueValues[T any](batch *pgx.Batch, values *[]T, sql string, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*values, err = pgx.CollectRows(rows, pgx.RowTo[T])
		return err
	})
}

// QueueFirst queues a query whose first row is read into a new T, by the names of its columns, and
// sets *first to this T. If there is no row, *first does not change.
func QueueFirst[T any](batch *pgx.Batch, first **T, sql string, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[T])
		if len(found) > 0 {
			*first = found[0]
		}
		return err
	})
}

// IfNone returns a function for the result of a queued statement. The function returns the
// given error if the statement has affected no row.
func IfNone(err error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return err
		}
		return nil
	}
}

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

// Placeholder returns the placeholder of the nth argument after c.Args. The first one has the number 1.
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

// Hits reads the hits of a statement that searches one kind of records. Its arguments are the scope, the text, the
// pattern of texts that start with it, the id that the text is (or null), and the limit.
func Hits(ctx context.Context, db Queryer, scope affiliate.Scope, text, sql string) ([]affiliate.Hit, error) {
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "text": text, "pattern": LikePrefix(text), "id": nil, "limit": affiliate.MaxHits,
	}
	if id, ok := affiliate.ParseID[affiliate.ID[affiliate.Record]](text); ok {
		args["id"] = id
	}
	return List[affiliate.Hit](ctx, db, sql, PlanForArgs, args)
}

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

// CheckParticipation checks that the partner takes part in the programme. If program is
// nil, there is nothing to check. Errors: NOT_FOUND.
func CheckParticipation(ctx context.Context, db *DB, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID) error {
	if program == nil {
		return nil
	}
	const known = `select exists (select from participants t where t.partner_id = $1 and t.mode = $2 and t.program_id = $3)`
	var found bool
	if err := db.QueryRow(ctx, known, partner, mode, *program).Scan(&found); err != nil {
		return err
	}
	if !found {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// CheckFilter checks that the programme, participant and payout batch of a filter exist
// in the scope. Without this check, a filter with an unknown id would return an empty
// list. Nil values are not checked. Errors: NOT_FOUND.
func CheckFilter(
	ctx context.Context, db *DB, scope affiliate.Scope, program *affiliate.ProgramID, participant *affiliate.ParticipantID, batch *payout.BatchID,
) error {
	if program == nil && participant == nil && batch == nil {
		return nil
	}
	const known = `
		select
			($3::uuid is null or exists (select from programs where workspace_id = $1 and mode = $2 and id = $3))
			and ($4::uuid is null or exists (select from participants where workspace_id = $1 and mode = $2 and id = $4))
			and ($5::uuid is null or exists (select from payout_batches where workspace_id = $1 and mode = $2 and id = $5))`
	var found bool
	if err := db.QueryRow(ctx, known, scope.Workspace, scope.Mode, program, participant, batch).Scan(&found); err != nil {
		return err
	}
	if !found {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// ExistInMode reports whether all records exist in the scope.
func ExistInMode(ctx context.Context, db *DB, scope affiliate.Scope, records []affiliate.Record) (bool, error) {
	const known = `
		select
			(@program::uuid is null or exists (select from programs where workspace_id = @workspace and mode = @mode and id = @program))
			and (@participant::uuid is null or exists (select from participants where workspace_id = @workspace and mode = @mode and id = @participant))
			and (@commission::uuid is null or exists (select from commissions where workspace_id = @workspace and mode = @mode and id = @commission))
			and (@conversion::uuid is null or exists (select from conversions where workspace_id = @workspace and mode = @mode and id = @conversion))
			and (@payout::uuid is null or exists (select from payouts where workspace_id = @workspace and mode = @mode and id = @payout))
			and (@payout_batch::uuid is null or exists (select from payout_batches where workspace_id = @workspace and mode = @mode and id = @payout_batch))
			and (@link::uuid is null or exists (select from links where workspace_id = @workspace and mode = @mode and id = @link))
			and (@promo_code::uuid is null or exists (select from promo_codes where workspace_id = @workspace and mode = @mode and id = @promo_code))
			and (@fraud_event::uuid is null or exists (select from fraud_events where workspace_id = @workspace and mode = @mode and id = @fraud_event))
			and (@webhook::uuid is null or exists (select from webhook_endpoints where workspace_id = @workspace and mode = @mode and id = @webhook))`
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode}
	for _, record := range records {
		args[string(record.Kind)] = record.ID
	}
	return Value[bool](ctx, db, known, args)
}
