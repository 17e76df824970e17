package payout_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is the service on a real database. Tests insert commissions directly and change
// them through the commission service.
type world struct {
	*pgtest.Fixture
	t       *testing.T
	service *payout.Service
	keys    *seal.Keys
	clock   atomic.Int64 // Unix milliseconds
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.clock.Store(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC).UnixMilli())
	w.Fixture = pgtest.Open(t, w.now)
	var err error
	if w.keys, err = seal.New("k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))); err != nil {
		t.Fatal(err)
	}
	w.service = payout.New(payout.Config{Store: stores.Payout(w.Store), Seal: w.keys, Now: w.now})
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()).UTC() }

func (w *world) advance(d time.Duration) { w.clock.Add(d.Milliseconds()) }

// merchant is a workspace in one mode, with one programme.
type merchant struct {
	w       *world
	scope   affiliate.Scope
	user    affiliate.UserID
	program affiliate.ProgramID
}

func (w *world) merchant(columns ...pgtest.Row) *merchant {
	w.t.Helper()
	m := &merchant{w: w, scope: affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}}
	m.user = affiliate.NewID[affiliate.User](w.now())
	m.program = w.NewProgram(m.scope, columns...)
	return m
}

func (m *merchant) context() context.Context {
	return server.WithPrincipal(m.w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: m.user, Workspace: m.scope.Workspace, Role: affiliate.RoleFinance, Mode: m.scope.Mode,
	})
}

func withKey(ctx context.Context, key string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
}

// partner adds a partner to the merchant's programme. The payout method is PayPal.
func (m *merchant) partner(name string) pgtest.Participant {
	m.w.t.Helper()
	p := m.w.NewParticipant(m.scope, m.program, m.w.NewPartner(name))
	m.setMethod(p, affiliate.PayoutAccount{Method: affiliate.PayoutPayPal, Account: name + "@example.com"})
	return p
}

func (m *merchant) setMethod(p pgtest.Participant, account affiliate.PayoutAccount) {
	m.w.t.Helper()
	plain, err := json.Marshal(account)
	if err != nil {
		m.w.t.Fatal(err)
	}
	var sealed []byte
	if account.Account != "" {
		sealed = m.w.keys.Seal(plain, []byte(p.Partner.String()))
	}
	_, err = m.w.Store.SetPayoutMethod(m.w.t.Context(), p.Partner, affiliate.SealedPayoutAccount{
		Method: account.Method, Hint: account.Hint(), Sealed: sealed, Same: func([]byte) bool { return false },
	}, m.w.now(), affiliate.Actor{User: &p.Partner})
	if err != nil {
		m.w.t.Fatal(err)
	}
}

// addCommission stores a commission of the amount and approves it.
func (m *merchant) addCommission(p pgtest.Participant, cents int64, columns ...pgtest.Row) affiliate.CommissionID {
	m.w.t.Helper()
	now := m.w.now()
	id, conversion, decision := affiliate.NewID[affiliate.Commission](now), affiliate.NewID[affiliate.Conversion](now), affiliate.NewID[affiliate.Decision](now)
	rule, err := json.Marshal(affiliate.RuleSnapshot{Version: 1, Rules: affiliate.DefaultRules()})
	if err != nil {
		m.w.t.Fatal(err)
	}
	m.w.Insert("conversions", pgtest.Row{
		"workspace_id": m.scope.Workspace, "id": conversion, "mode": m.scope.Mode, "external_transaction_id": conversion.String(),
		"event_type": "purchase", "amount_cents": 10 * cents, "currency": "EUR", "tax_cents": 0, "shipping_cents": 0, "fee_cents": 0,
		"discount_cents": 0, "occurred_at": now, "created_at": now, "source": "api", "status": "recorded", "attributed": true,
		"reason_code": "CLICK_MATCHED", "decision_id": decision, "product_ids": []string{}, "is_recurring": false,
		"fraud_score": 0, "fraud_signals": "[]", "version": 1,
	})
	m.w.Insert("attribution_decisions", pgtest.Row{
		"workspace_id": m.scope.Workspace, "id": decision, "conversion_id": conversion, "mode": m.scope.Mode, "attributed": true,
		"method": "click", "reason_code": "CLICK_MATCHED", "explanation": "A click.", "engine_version": "1", "trace": "{}",
		"clicked_at": now, "decided_at": now,
	})
	m.w.Insert("commissions", append([]pgtest.Row{{
		"workspace_id": m.scope.Workspace, "id": id, "mode": m.scope.Mode, "program_id": m.program, "participant_id": p.ID,
		"partner_id": p.Partner, "conversion_id": conversion, "decision_id": decision, "external_transaction_id": conversion.String(),
		"status": "pending", "commission_type": "percentage", "event_type": "purchase", "rate_bps": 1000, "amount_cents": cents,
		"original_amount_cents": cents, "currency": "EUR", "base_amount_cents": 10 * cents, "sale_amount_cents": 10 * cents, "sale_currency": "EUR",
		"needs_review": false, "review_reasons": []string{}, "dispute_status": "none", "rule_snapshot": string(rule), "version": 1,
		"created_at": now, "updated_at": now,
	}}, columns...)...)
	if err := m.moveCommission(id, affiliate.MoveApprove, affiliate.CommissionTransition{}); err != nil {
		m.w.t.Fatal(err)
	}
	return id
}

// moveCommission changes the status of a commission, with the merchant's user as actor.
func (m *merchant) moveCommission(id affiliate.CommissionID, move affiliate.CommissionMove, t affiliate.CommissionTransition) error {
	t.Scope, t.Program, t.Commission, t.Move, t.At = m.scope, m.program, id, move, m.w.now()
	t.Actor = affiliate.Actor{User: &m.user}
	_, err := commissionservice.Move(m.w.t.Context(), stores.Commission(m.w.Store), t)
	return err
}

// refund reduces a commission to remaining cents. If remaining is 0, the complete sale is
// refunded.
func (m *merchant) refund(id affiliate.CommissionID, remaining int64) error {
	return m.moveCommission(id, affiliate.MoveRefund, affiliate.CommissionTransition{AmountCents: remaining, Full: remaining == 0, RefundReason: affiliate.RefundedSale})
}

func (m *merchant) addEntry(p pgtest.Participant, kind affiliate.LedgerEntryType, cents int64) {
	m.w.t.Helper()
	_, err := m.w.Store.AddLedgerEntry(m.w.t.Context(), affiliate.ManualEntry{
		Scope: m.scope, Program: m.program, Participant: p.ID, Type: kind, AmountCents: cents, Reason: "R",
		By: affiliate.Actor{User: &m.user}, At: m.w.now(),
	})
	if err != nil {
		m.w.t.Fatal(err)
	}
}

// createBatch creates a batch with a new idempotency key. Its cutoff is the current time.
func (m *merchant) createBatch() (*affiliatev1.PayoutBatch, error) {
	key := affiliate.NewID[affiliate.PayoutBatch](m.w.now()).String()
	return m.w.service.CreatePayoutBatch(withKey(m.context(), key), &affiliatev1.CreatePayoutBatchRequest{})
}

func (m *merchant) mustCreateBatch() *affiliatev1.PayoutBatch {
	m.w.t.Helper()
	b, err := m.createBatch()
	if err != nil {
		m.w.t.Fatal(err)
	}
	return b
}

func (m *merchant) confirm(b *affiliatev1.PayoutBatch) *affiliatev1.PayoutBatch {
	m.w.t.Helper()
	confirmed, err := m.w.service.ConfirmPayoutBatch(m.context(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
	if err != nil {
		m.w.t.Fatal(err)
	}
	return confirmed
}

// payouts returns all payouts of a batch with their commissions.
func (m *merchant) payouts(b *affiliatev1.PayoutBatch) []*affiliatev1.PayoutDetail {
	m.w.t.Helper()
	list, err := m.w.service.ListPayouts(m.context(), &affiliatev1.ListPayoutsRequest{BatchId: &b.Id, PageSize: proto.Int32(100)})
	if err != nil {
		m.w.t.Fatal(err)
	}
	details := make([]*affiliatev1.PayoutDetail, len(list.Data))
	for i, p := range list.Data {
		details[i] = m.payout(p.Id)
	}
	return details
}

func (m *merchant) payout(id string) *affiliatev1.PayoutDetail {
	m.w.t.Helper()
	p, err := m.w.service.GetPayout(m.context(), &affiliatev1.GetPayoutRequest{PayoutId: id})
	if err != nil {
		m.w.t.Fatal(err)
	}
	return p
}

// onlyPayout returns the payout of a batch that must have exactly one.
func (m *merchant) onlyPayout(b *affiliatev1.PayoutBatch) *affiliatev1.PayoutDetail {
	m.w.t.Helper()
	all := m.payouts(b)
	if len(all) != 1 {
		m.w.t.Fatalf("%d payouts", len(all))
	}
	return all[0]
}

// move calls the method for a move: paid, failed, retry or cancel.
func (m *merchant) move(id, move string) (*affiliatev1.Payout, error) {
	ctx := m.context()
	switch move {
	case "paid":
		return m.w.service.MarkPayoutPaid(ctx, &affiliatev1.MarkPayoutPaidRequest{PayoutId: id, Reference: "T-1"})
	case "failed":
		return m.w.service.MarkPayoutFailed(ctx, &affiliatev1.MarkPayoutFailedRequest{PayoutId: id, Reason: "No such account."})
	case "retry":
		return m.w.service.RetryPayout(ctx, &affiliatev1.RetryPayoutRequest{PayoutId: id})
	default:
		return m.w.service.CancelPayout(ctx, &affiliatev1.CancelPayoutRequest{PayoutId: id})
	}
}

func (m *merchant) mustMove(id, move string) *affiliatev1.Payout {
	m.w.t.Helper()
	p, err := m.move(id, move)
	if err != nil {
		m.w.t.Fatalf("%s: %v", move, err)
	}
	return p
}

// download records the header and the body of an export.
type download struct {
	grpc.ServerStream
	ctx    context.Context
	header metadata.MD
	body   bytes.Buffer
}

func (d *download) Context() context.Context       { return d.ctx }
func (d *download) SetHeader(md metadata.MD) error { d.header = md; return nil }
func (d *download) Send(piece *httpbody.HttpBody) error {
	_, err := d.body.Write(piece.Data)
	return err
}

func (m *merchant) export(b *affiliatev1.PayoutBatch, format affiliatev1.PayoutExportFormat) (*download, error) {
	d := &download{ctx: m.context()}
	return d, m.w.service.ExportPayoutBatch(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id, Format: format}, d)
}

func (m *merchant) send(b *affiliatev1.PayoutBatch) {
	m.w.t.Helper()
	if _, err := m.export(b, 0); err != nil {
		m.w.t.Fatal(err)
	}
}

// preview returns the preview of a batch whose cutoff is the current time.
func (m *merchant) preview() *affiliatev1.PayoutPreview {
	m.w.t.Helper()
	p, err := m.w.service.PreviewPayouts(m.context(), &affiliatev1.PreviewPayoutsRequest{PageSize: proto.Int32(100)})
	if err != nil {
		m.w.t.Fatal(err)
	}
	return p
}

// balance returns the sum of a participant's ledger entries.
func (w *world) balance(p pgtest.Participant) int {
	w.t.Helper()
	return w.Count(`select coalesce(sum(amount_cents), 0)::bigint from ledger_entries where participant_id = $1`, p.ID)
}

// checkConsistency checks the invariants of payouts, commissions and the ledger. They must
// hold at any time.
func (w *world) checkConsistency() {
	w.t.Helper()
	for violation, sql := range map[string]string{
		"balances that are not the sums of their entries": `
			select count(*) from (select participant_id, currency, sum(amount_cents) as n from ledger_entries group by 1, 2) e
			full join (select participant_id, currency, sum(balance_cents) as n from ledger_balances group by 1, 2) b using (participant_id, currency)
			where e.n is distinct from b.n`,
		"payouts whose entries are not the amount that was sent": `
			select count(*) from payouts p
			where (select coalesce(sum(amount_cents), 0) from ledger_entries e where e.payout_id = p.id)
				<> case when p.status in ('processing', 'paid') then -p.amount_cents else 0 end`,
		"commissions whose entries are not the amount of the commission": `
			select count(*) from commissions c
			where (select coalesce(sum(amount_cents), 0) from ledger_entries e where e.commission_id = c.id)
				<> case when c.status in ('approved', 'paid') then c.amount_cents else 0 end`,
		"payouts whose amount is not the sum of their commissions and adjustment": `
			select count(*) from payouts p
			where p.amount_cents <> p.adjustment_cents + (select coalesce(sum(amount_cents), 0) from payout_commissions c where c.payout_id = p.id)
				or p.commission_count <> (select count(*) from payout_commissions c where c.payout_id = p.id)`,
		"approved commissions in a payout that is not open or does not contain them": `
			select count(*) from commissions c
			where c.status = 'approved' and c.payout_id is not null and not exists (
				select from payouts p join payout_commissions h on h.payout_id = p.id and h.commission_id = c.id
				where p.id = c.payout_id and p.status in ('draft', 'pending', 'processing'))`,
		"paid commissions outside of paid payouts": `
			select count(*) from commissions c
			where c.status = 'paid' and not exists (select from payouts p where p.id = c.payout_id and p.status = 'paid')`,
		"commissions in two open payouts": `
			select count(*) from (
				select h.commission_id from payout_commissions h join payouts p on p.id = h.payout_id
				where p.status in ('draft', 'pending', 'processing', 'paid') group by 1 having count(*) > 1) twice`,
		"batches whose status does not match their payouts": `
			select count(*) from (
				select b.status, (b.completed_at is not null) as ended, count(*) filter (where p.status = 'draft') as draft,
					count(*) filter (where p.status in ('pending', 'processing')) as open, count(*) filter (where p.status in ('processing', 'paid')) as sent,
					count(*) filter (where p.status = 'failed') as failed, count(*) filter (where p.status = 'paid') as paid
				from payout_batches b join payouts p on p.batch_id = b.id group by b.id, b.workspace_id
			) s where ended <> (draft + open = 0) or status <> case
				when draft > 0 then 'draft' when open > 0 and sent > 0 then 'processing' when open > 0 then 'confirmed'
				when failed > 0 then 'partially_failed' when paid > 0 then 'completed' else 'canceled' end`,
	} {
		if n := w.Count(sql); n != 0 {
			w.t.Errorf("%d %s", n, violation)
		}
	}
}
