package conversion_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with a 30 percent programme and an approved partner. The service
// uses a real database.
type world struct {
	*pgtest.Fixture
	store       *countingStore
	service     *conversion.Service
	tail        *tail
	scope       affiliate.Scope
	program     affiliate.ProgramID
	participant affiliate.ParticipantID
	partner     affiliate.UserID
	offset      atomic.Int64 // of the service's clock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{tail: &tail{}}
	w.Fixture = pgtest.Open(t, w.now)
	w.store = &countingStore{Store: stores.Conversion(w.Store)}
	w.service = conversion.New(conversion.Config{
		Store: w.store, Tail: w.tail, HashKey: []byte("key of the tests"), Now: w.now, Log: slog.New(slog.DiscardHandler),
	})
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	w.program = w.newProgram(w.scope)
	w.participant, w.partner = w.newParticipant(w.scope, w.program)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func (w *world) newProgram(scope affiliate.Scope) affiliate.ProgramID {
	w.Helper()
	return w.NewProgram(scope, pgtest.Row{
		"rules":         `{"commission_type":"percentage","rate_bps":3000,"hold_period_days":30,"auto_approval":true,"net_basis":"gross"}`,
		"rules_version": 4,
	})
}

func (w *world) newParticipant(scope affiliate.Scope, program affiliate.ProgramID) (affiliate.ParticipantID, affiliate.UserID) {
	w.Helper()
	p := w.NewParticipant(scope, program, w.NewPartner("Pat"))
	return p.ID, p.Partner
}

// click returns a click of the world's participant that is received now. It is not
// stored.
func (w *world) click() affiliate.Click { return w.clickAt(w.now()) }

func (w *world) clickAt(receivedAt time.Time) affiliate.Click {
	receivedAt = receivedAt.UTC().Truncate(time.Millisecond)
	id := affiliate.NewID[affiliate.Click](receivedAt)
	clickedAt, _ := id.Time()
	return affiliate.Click{
		ID: id, Scope: w.scope, Program: w.program, Participant: w.participant, ReferralCode: "pat",
		ClickedAt: clickedAt, ReceivedAt: receivedAt, ExpiresAt: affiliate.WindowEnd(receivedAt, 30), CreatedAt: receivedAt,
		Consent: affiliate.ConsentUnknown,
	}
}

func (w *world) storeClick(c affiliate.Click) affiliate.Click {
	w.Helper()
	w.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'unknown', false)`,
		c.Scope.Workspace, c.ID, c.ClickedAt, c.Scope.Mode, c.Program, c.Participant, c.ReferralCode, c.ReceivedAt, c.ExpiresAt, w.now())
	return c
}

// as returns the context of a call with a secret key of the scope.
func as(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(context.Background(), server.Principal{
		Kind: server.SecretKey, Workspace: scope.Workspace, Mode: scope.Mode,
	})
}

func (w *world) report(req *affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionResponse, error) {
	return w.service.ReportConversion(as(w.scope), req)
}

func (w *world) mustReport(req *affiliatev1.ReportConversionRequest) *affiliatev1.ReportConversionResponse {
	w.Helper()
	response, err := w.report(req)
	if err != nil {
		w.Fatal(err)
	}
	return response
}

// purchase returns the report of a purchase of 100 EUR with a click id.
func purchase(external string, click affiliate.ClickID) *affiliatev1.ReportConversionRequest {
	return &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external,
		AmountCents: ptr(int64(10_000)), Currency: ptr("eur"), ClickId: ptr(click.String()),
	}
}

func (w *world) count(sql string, args ...any) int {
	w.Helper()
	return w.Count(`select count(*) from `+sql, args...)
}

func (w *world) wantCount(want int, sql string, args ...any) {
	w.Helper()
	if got := w.count(sql, args...); got != want {
		w.Errorf("%d × %s, want %d", got, sql, want)
	}
}

// countingStore is the real store. It counts the look-ups of clicks, and a test can make
// its RecordConversion fail.
type countingStore struct {
	conversion.Store
	found   func() // called after each look-up of a click; may be nil
	looks   atomic.Int64
	failing atomic.Int64 // number of reports that fail while they hold their locks
	broken  atomic.Bool  // all reports fail except the next left ones
	left    atomic.Int64
	through atomic.Int64 // how many of these are not recorded yet
	panics  atomic.Bool  // RecordConversion panics
}

func (s *countingStore) FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	s.looks.Add(1)
	if s.found != nil {
		defer s.found()
	}
	return s.Store.FindClick(ctx, workspace, id)
}

// tail is a tail of the click stream with the clicks and the error that a test sets.
type tail struct {
	clicks []affiliate.Click
	err    error
	looks  atomic.Int64
}

func (f *tail) Find(_ context.Context, id affiliate.ClickID) (affiliate.Click, bool, error) {
	f.looks.Add(1)
	for _, c := range f.clicks {
		if c.ID == id {
			return c, true, nil
		}
	}
	return affiliate.Click{}, false, f.err
}

func refused(err error, reason affiliate.Reason) bool {
	return errors.Is(err, affiliate.Refuse(reason))
}

func ptr[T any](v T) *T { return &v }
