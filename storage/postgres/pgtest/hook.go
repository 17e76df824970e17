package pgtest

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// Hook runs before each statement that a handle sends, including begin, commit and the
// statements of a batch. It can observe the statement or delay it. If it returns an error, the
// connection closes, so that the statement fails as if the database were gone.
type Hook func(sql string, args []any) error

// ErrResponseLost is returned by a Hook so that the statement runs before the connection closes. The statement
// must have no arguments, for example commit. It takes effect, but the caller gets an error.
var ErrResponseLost = errors.New("the response of the database was lost")

// AfterHook runs after each statement that has succeeded, before the caller gets the result.
// The hook can observe the statement or delay its result. The parameter rows is the number of
// rows that the statement returned or changed.
type AfterHook func(sql string, rows int64)

// OpenHooked opens another handle of the database. The handle calls the first hook before each statement and the
// other hooks after each statement that has succeeded. The hooks must be safe for concurrent use.
func (f *Fixture) OpenHooked(hook Hook, after ...AfterHook) *postgres.DB {
	f.Helper()
	return f.OpenWith(postgres.Config{Tracer: hookTracer{hook, after}})
}

// OpenWith opens another handle of the database, with the URL and the ErasureKeys of the
// fixture.
func (f *Fixture) OpenWith(cfg postgres.Config) *postgres.DB {
	f.Helper()
	cfg.URL, cfg.ErasureKeys = f.URL, ErasureKeys
	db, err := postgres.Open(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(db.Close)
	return db
}

// hookTracer calls hooks. It implements pgx.QueryTracer, pgx.BatchTracer and
// pgx.CopyFromTracer.
type hookTracer struct {
	before Hook
	after  []AfterHook
}

// sqlKey is the key of the statement in the context of a traced call.
type sqlKey struct{}

func (h hookTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return h.start(ctx, conn, data.SQL, data.Args)
}

func (h hookTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	h.end(ctx, data.CommandTag, data.Err)
}

func (h hookTracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		h.start(ctx, conn, query.SQL, query.Arguments)
	}
	return ctx
}

func (h hookTracer) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	h.end(context.WithValue(ctx, sqlKey{}, data.SQL), data.CommandTag, data.Err)
}

func (hookTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (h hookTracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	return h.start(ctx, conn, "copy "+data.TableName.Sanitize(), nil)
}

func (h hookTracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromEndData) {
	h.end(ctx, data.CommandTag, data.Err)
}

// start calls the hook before a statement. It returns the context of the statement.
func (h hookTracer) start(ctx context.Context, conn *pgx.Conn, sql string, args []any) context.Context {
	if err := h.before(sql, args); err != nil {
		last := "rollback" // without it, the transaction's locks would remain for a moment
		if errors.Is(err, ErrResponseLost) {
			last = sql
		}
		_, _ = conn.PgConn().Exec(ctx, last).ReadAll()
		_ = conn.Close(ctx) // the statement reports that the connection is closed
	}
	return context.WithValue(ctx, sqlKey{}, sql)
}

// end calls the hooks after a statement that has succeeded.
func (h hookTracer) end(ctx context.Context, tag pgconn.CommandTag, err error) {
	if err != nil {
		return
	}
	sql, _ := ctx.Value(sqlKey{}).(string)
	for _, hook := range h.after {
		hook(sql, tag.RowsAffected())
	}
}
