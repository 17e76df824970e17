package ledger_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/ledger"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	bonus      = affiliatev1.LedgerEntryType_LEDGER_ENTRY_TYPE_BONUS
	adjustment = affiliatev1.LedgerEntryType_LEDGER_ENTRY_TYPE_ADJUSTMENT
)

type world struct {
	*pgtest.Fixture
	t       *testing.T
	service *ledger.Service
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 10, 12, 0, 0, 987_654_321, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.service = ledger.New(w.Store, w.Now)
	return w
}

// merchant is a user of a workspace in live mode with one programme.
type merchant struct {
	w       *world
	scope   affiliate.Scope
	user    affiliate.UserID
	program affiliate.ProgramID
}

func (w *world) newMerchant(columns ...pgtest.Row) *merchant {
	w.t.Helper()
	m := &merchant{w: w, scope: affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}, user: affiliate.NewID[affiliate.User](w.now)}
	m.program = w.NewProgram(m.scope, columns...)
	return m
}

func (m *merchant) context() context.Context {
	return server.WithPrincipal(m.w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: m.user, Workspace: m.scope.Workspace, Role: affiliate.RoleFinance, Mode: m.scope.Mode,
	})
}

// addEntry creates an entry one second after the previous one.
func (m *merchant) addEntry(p pgtest.Participant, kind affiliatev1.LedgerEntryType, cents int64, currency string) *affiliatev1.LedgerEntry {
	m.w.t.Helper()
	m.w.now = m.w.now.Add(time.Second)
	req := &affiliatev1.CreateLedgerEntryRequest{
		ProgramId: m.program.String(), ParticipantId: p.ID.String(), Type: kind, AmountCents: cents, Reason: fmt.Sprint("Reason ", cents),
	}
	if currency != "" {
		req.Currency = &currency
	}
	if found := m.w.service.Check(req); found != nil {
		m.w.t.Fatal(found)
	}
	e, err := m.w.service.CreateLedgerEntry(m.context(), req)
	if err != nil {
		m.w.t.Fatal(err)
	}
	return e
}

func (m *merchant) list(p pgtest.Participant, req *affiliatev1.ListLedgerRequest) (*affiliatev1.ListLedgerResponse, error) {
	req.ProgramId, req.ParticipantId = m.program.String(), p.ID.String()
	return m.w.service.ListLedger(m.context(), req)
}

// summarize returns the amounts and the balances as one line of text.
func summarize[E interface{ GetAmountCents() int64 }](entries []E, balances []*affiliatev1.LedgerBalance) string {
	var all []string
	for _, e := range entries {
		all = append(all, strconv.FormatInt(e.GetAmountCents(), 10))
	}
	all = append(all, "|")
	for _, b := range balances {
		all = append(all, fmt.Sprint(b.Currency, b.BalanceCents))
	}
	return strings.Join(all, " ")
}

func TestCreateLedgerEntry(t *testing.T) {
	w := newWorld(t)
	m := w.newMerchant(pgtest.Row{"currency": "CHF"})
	anna := w.NewParticipant(m.scope, m.program, w.NewPartner("Anna"))
	e := m.addEntry(anna, bonus, 500, "")
	if e.Type != bonus || e.AmountCents != 500 || e.Currency != "CHF" || e.GetReason() != "Reason 500" || e.CreatedBy != m.user.String() ||
		e.Mode != affiliatev1.Mode_MODE_LIVE || !e.CreatedAt.AsTime().Equal(w.now.Truncate(time.Millisecond)) || e.CommissionId != nil || e.PayoutId != nil {
		t.Errorf("%v", e)
	}
	m.addEntry(anna, adjustment, -700, "")
	m.addEntry(anna, adjustment, 30, "eur")
	all, err := m.list(anna, &affiliatev1.ListLedgerRequest{})
	if err != nil || summarize(all.Data, all.Balances) != "30 -700 500 | CHF-200 EUR30" || all.Total != 3 || !proto.Equal(all.Data[2], e) {
		t.Errorf("%v, %v", all, err)
	}
	if got := w.AuditActions("ledger_entry", e.Id); len(got) != 1 || got[0] != "ledger.bonus" {
		t.Errorf("%v", got)
	}
	if n := w.Count(`select count(*) from audit_log where action = 'ledger.adjustment' and after ->> 'participant_id' = $1::text`, anna.ID.String()); n != 2 {
		t.Errorf("%d audit records", n)
	}

	request := func() *affiliatev1.CreateLedgerEntryRequest {
		return &affiliatev1.CreateLedgerEntryRequest{
			ProgramId: m.program.String(), ParticipantId: anna.ID.String(), Type: bonus, AmountCents: 1, Reason: "R",
		}
	}
	other := w.newMerchant()
	for name, change := range map[string]func(*affiliatev1.CreateLedgerEntryRequest) *merchant{
		"another programme": func(r *affiliatev1.CreateLedgerEntryRequest) *merchant {
			r.ProgramId = w.NewProgram(m.scope).String()
			return m
		},
		"not a UUID":        func(r *affiliatev1.CreateLedgerEntryRequest) *merchant { r.ParticipantId = "x"; return m },
		"unknown programme": func(r *affiliatev1.CreateLedgerEntryRequest) *merchant { r.ProgramId = "x"; return m },
		"another workspace": func(*affiliatev1.CreateLedgerEntryRequest) *merchant { return other },
		"another mode": func(*affiliatev1.CreateLedgerEntryRequest) *merchant {
			test := *m
			test.scope.Mode = affiliate.ModeTest
			return &test
		},
	} {
		req := request()
		caller := change(req)
		_, err := w.service.CreateLedgerEntry(caller.context(), req)
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s: %v", name, err)
		}
		_, err = w.service.ListLedger(caller.context(), &affiliatev1.ListLedgerRequest{ProgramId: req.ProgramId, ParticipantId: req.ParticipantId})
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("list of %s: %v", name, err)
		}
	}
	w.Exec(`update participants set erased_at = $2 where id = $1`, anna.ID, w.now)
	_, err = w.service.CreateLedgerEntry(m.context(), request())
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	if n := w.Count(`select count(*) from ledger_entries`); n != 3 {
		t.Errorf("%d entries", n)
	}
}

func TestListLedger_FiltersEntriesButNotBalances(t *testing.T) {
	w := newWorld(t)
	m := w.newMerchant()
	anna, berta := w.NewParticipant(m.scope, m.program, w.NewPartner("Anna")), w.NewParticipant(m.scope, m.program, w.NewPartner("Berta"))
	for i := range int64(3) {
		m.addEntry(anna, bonus, 1+i, "")
		m.addEntry(anna, adjustment, 10+i, "USD")
		m.addEntry(berta, bonus, 1000, "")
	}
	for name, c := range map[string]struct {
		req   *affiliatev1.ListLedgerRequest
		want  string
		total int64
	}{
		"all":           {&affiliatev1.ListLedgerRequest{}, "12 3 11 2 10 1 | EUR6 USD33", 6},
		"one type":      {&affiliatev1.ListLedgerRequest{Type: bonus}, "3 2 1 | EUR6 USD33", 3},
		"one currency":  {&affiliatev1.ListLedgerRequest{Currency: proto.String("USD")}, "12 11 10 | EUR6 USD33", 3},
		"both":          {&affiliatev1.ListLedgerRequest{Type: bonus, Currency: proto.String("USD")}, "| EUR6 USD33", 0},
		"second page":   {&affiliatev1.ListLedgerRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, "11 2 | EUR6 USD33", 6},
		"after the end": {&affiliatev1.ListLedgerRequest{Page: proto.Int32(9)}, "| EUR6 USD33", 6},
	} {
		got, err := m.list(anna, c.req)
		if err != nil || summarize(got.Data, got.Balances) != c.want || got.Total != c.total {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestListPartnerLedger_ShowsOwnEntries(t *testing.T) {
	w := newWorld(t)
	alpha, beta := w.newMerchant(pgtest.Row{"name": "Alpha"}), w.newMerchant(pgtest.Row{"name": "Beta"})
	jane := w.NewPartner("Jane")
	inAlpha, inBeta := w.NewParticipant(alpha.scope, alpha.program, jane), w.NewParticipant(beta.scope, beta.program, jane)
	other := w.NewParticipant(alpha.scope, alpha.program, w.NewPartner("John"))
	alpha.addEntry(inAlpha, bonus, 1, "")
	beta.addEntry(inBeta, bonus, 2, "")
	beta.addEntry(inBeta, adjustment, -5, "USD")
	alpha.addEntry(other, bonus, 1000, "")
	for name, c := range map[string]struct {
		mode  affiliate.Mode
		req   *affiliatev1.ListPartnerLedgerRequest
		want  string
		total int64
	}{
		"all":           {"live", &affiliatev1.ListPartnerLedgerRequest{}, "-5 2 1 | EUR3 USD-5", 3},
		"one programme": {"live", &affiliatev1.ListPartnerLedgerRequest{ProgramId: proto.String(beta.program.String())}, "-5 2 | EUR2 USD-5", 2},
		"a type":        {"live", &affiliatev1.ListPartnerLedgerRequest{Type: bonus}, "2 1 | EUR3 USD-5", 2},
		"a currency":    {"live", &affiliatev1.ListPartnerLedgerRequest{Currency: proto.String("USD")}, "-5 | EUR3 USD-5", 1},
		"test mode":     {"test", &affiliatev1.ListPartnerLedgerRequest{}, "|", 0},
	} {
		ctx := server.WithPrincipal(t.Context(), server.Principal{Kind: server.PartnerToken, User: jane, Mode: c.mode})
		got, err := w.service.ListPartnerLedger(ctx, c.req)
		if err != nil || summarize(got.Data, got.Balances) != c.want || got.Total != c.total {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
		if text := protojson.Format(got); strings.Contains(text, alpha.user.String()) || strings.Contains(text, beta.user.String()) {
			t.Errorf("%s: the response shows who created an entry: %s", name, text)
		}
		if name == "all" && (got.Data[1].ProgramName != "Beta" || got.Data[1].GetReason() != "Reason 2" || got.Data[1].ParticipantId != inBeta.ID.String()) {
			t.Errorf("%v", got.Data[1])
		}
	}
	stranger := server.WithPrincipal(t.Context(), server.Principal{Kind: server.PartnerToken, User: jane, Mode: "live"})
	_, err := w.service.ListPartnerLedger(stranger, &affiliatev1.ListPartnerLedgerRequest{ProgramId: proto.String(inBeta.ID.String())})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound) // the request has a participant's id instead of a programme's
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	w := newWorld(t)
	for field, req := range map[string]proto.Message{
		"type":          &affiliatev1.ListLedgerRequest{Type: 99},
		"type ":         &affiliatev1.ListPartnerLedgerRequest{Type: 99},
		"amount_cents":  &affiliatev1.CreateLedgerEntryRequest{Type: bonus, AmountCents: -1},
		"amount_cents ": &affiliatev1.CreateLedgerEntryRequest{Type: adjustment},
		"currency":      &affiliatev1.CreateLedgerEntryRequest{Type: adjustment, AmountCents: -1, Currency: proto.String("EURO")},
	} {
		if found := w.service.Check(req); len(found) != 1 || found[0].Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, found)
		}
	}
}
