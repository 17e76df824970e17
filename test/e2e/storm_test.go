package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
)

// conflicts contains the errors that a request may get because a concurrent request has
// already changed the same commission, conversion or payout.
var conflicts = map[string]bool{
	"409 COMMISSION_NOT_PENDING": true, "409 COMMISSION_TERMINAL": true, "409 COMMISSION_HOLD_ACTIVE": true, "409 COMMISSION_HOLD_NOT_ACTIVE": true,
	"409 PAYOUT_STATE_INVALID": true, "422 REFUND_EXCEEDS_AMOUNT": true, "409 CONVERSION_DUPLICATE": true,
}

// stormOutcomes counts responses by kind of request, and by status and error code.
type stormOutcomes struct {
	mu     sync.Mutex
	counts map[string]map[string]int
}

func newStormOutcomes() *stormOutcomes {
	return &stormOutcomes{counts: map[string]map[string]int{}}
}

// add counts a response. The test fails if the response is an error that is not in
// conflicts.
func (o *stormOutcomes) add(t *testing.T, kind string, r response) response {
	t.Helper()
	for outcome := range countStatuses([]response{r}) {
		if r.status >= http.StatusBadRequest && !conflicts[outcome] {
			t.Errorf("%s: got %s, want success or a conflict; body %s", r.request, outcome, r.body)
		}
		o.mu.Lock()
		if o.counts[kind] == nil {
			o.counts[kind] = map[string]int{}
		}
		o.counts[kind][outcome]++
		o.mu.Unlock()
	}
	return r
}

// wantSuccesses checks that at least one request of each kind has succeeded.
func (o *stormOutcomes) wantSuccesses(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		succeeded := 0
		for outcome, n := range o.counts[kind] {
			if strings.HasPrefix(outcome, "2") {
				succeeded += n
			}
		}
		if succeeded == 0 {
			t.Errorf("no request of the kind %s has succeeded; outcomes of all kinds: %v", kind, o.counts)
		}
	}
}

// storm sends concurrent requests that move money and counts their outcomes. Its
// programmes have the same merchant and the same partner.
type storm struct {
	automatic stormProgram // has no hold period; the service approves new commissions immediately
	manual    stormProgram // has no hold period; the merchant approves the commissions
	held      stormProgram // has a hold period of one day
	outcomes  *stormOutcomes
}

// stormProgram is a programme and the click to which all its sales are attributed.
type stormProgram struct {
	fixture
	click string
}

func (s storm) report(t *testing.T, p stormProgram, external string, cents int) response {
	t.Helper()
	sale := purchase(p.click)
	sale["external_transaction_id"], sale["amount_cents"] = external, cents
	return s.outcomes.add(t, "report", p.report(t, sale))
}

// refund refunds a part of a sale, or the whole sale if cents is 0.
func (s storm) refund(t *testing.T, kind string, p stormProgram, external string, cents int) response {
	t.Helper()
	var fields object
	if cents > 0 {
		fields = object{"amount_cents": cents}
	}
	return s.outcomes.add(t, kind, p.refund(t, external, fields))
}

func (s storm) commissionAction(t *testing.T, p stormProgram, commission, action string, body any) response {
	t.Helper()
	return s.outcomes.add(t, action, p.merchant.patch(t, p.commissionPath(commission)+"/"+action, body))
}

func (s storm) payoutAction(t *testing.T, payout, action string, body any) response {
	t.Helper()
	return s.outcomes.add(t, action, s.automatic.merchant.patch(t, payout+"/"+action, body))
}

// createPayouts creates and confirms a batch of payouts, and processes the batch if process
// is set. It returns the paths of the payouts, or nil if nothing is payable.
func (s storm) createPayouts(t *testing.T, process bool) (paths []string) {
	t.Helper()
	merchant := s.automatic.merchant
	batch := s.outcomes.add(t, "create batch", s.automatic.createBatch(t, object{}))
	if batch.status != http.StatusCreated {
		return nil
	}
	id := batch.text("id")
	s.outcomes.add(t, "confirm batch", merchant.post(t, batchesPath+"/"+id+"/confirm", nil))
	if process {
		s.outcomes.add(t, "process batch", merchant.post(t, batchesPath+"/"+id+"/process", nil))
	}
	payouts := merchant.get(t, "/api/v1/payouts?batchId="+id).wantStatus(http.StatusOK)
	for i := range payouts.length("data") {
		paths = append(paths, "/api/v1/payouts/"+payouts.text(fmt.Sprintf("data.%d.id", i)))
	}
	return paths
}

// sendSequentially sends requests of every kind, one after the other. All of them must
// succeed. It returns the number of sales.
func (s storm) sendSequentially(t *testing.T) (sales int) {
	t.Helper()
	sell := func(p stormProgram) (external, commission string) {
		sales++
		external = fmt.Sprintf("calm-%d", sales)
		return external, s.report(t, p, external, 10_000).wantStatus(http.StatusCreated).text("commission.id")
	}
	_, commission := sell(s.manual)
	s.commissionAction(t, s.manual, commission, "approve", nil).wantStatus(http.StatusOK)
	_, commission = sell(s.manual)
	s.commissionAction(t, s.manual, commission, "reject", nil).wantStatus(http.StatusOK)
	_, commission = sell(s.held)
	s.commissionAction(t, s.held, commission, "approve-override", object{"reason": "Calm"}).wantStatus(http.StatusOK)

	s.refund(t, "early refund", s.automatic, fmt.Sprintf("calm-%d", sales+1), 1000).wantStatus(http.StatusAccepted)
	external, _ := sell(s.automatic)
	s.refund(t, "partial refund", s.automatic, external, 1000).wantStatus(http.StatusCreated)
	s.refund(t, "full refund", s.automatic, external, 0).wantStatus(http.StatusCreated)

	for _, paid := range []bool{false, true} {
		sell(s.automatic)
		for _, payout := range s.createPayouts(t, true) {
			s.payoutAction(t, payout, "mark-failed", object{"reason": "Calm"}).wantStatus(http.StatusOK)
			s.payoutAction(t, payout, "retry", nil).wantStatus(http.StatusOK)
			if paid {
				s.payoutAction(t, payout, "mark-paid", object{"reference": "calm"}).wantStatus(http.StatusOK)
			} else {
				s.payoutAction(t, payout, "cancel", nil).wantStatus(http.StatusOK)
			}
		}
	}
	return sales
}

// sell reports sales, and sends concurrent refunds and actions for each sale.
func (s storm) sell(t *testing.T, seller, rounds int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(seller))) //nolint:gosec // the test must be repeatable
	for round := range rounds {
		p := []stormProgram{s.automatic, s.manual, s.held}[round%3]
		external := fmt.Sprintf("storm-%d-%d", seller, round)
		if random.IntN(4) == 0 {
			s.refund(t, "early refund", p, external, 1+random.IntN(5000))
		}
		sale := s.report(t, p, external, 5000+random.IntN(9000))
		if sale.status != http.StatusCreated {
			return
		}
		id, part := sale.text("commission.id"), 1+random.IntN(5000)
		var requests sync.WaitGroup
		for _, request := range []func(){
			func() { s.refund(t, "partial refund", p, external, part) },
			func() { s.commissionAction(t, p, id, "reject", nil) },
			func() { s.commissionAction(t, p, id, "approve", nil) },
			func() { s.commissionAction(t, p, id, "approve-override", object{"reason": "Storm"}) },
			func() { s.refund(t, "full refund", p, external, 0) },
		} {
			if random.IntN(2) == 0 {
				requests.Go(request)
			}
		}
		requests.Wait()
	}
}

// pay creates payouts and changes their status until stopped is set.
func (s storm) pay(t *testing.T, payer int, stopped *atomic.Bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(2, uint64(payer))) //nolint:gosec // the test must be repeatable
	for !stopped.Load() {
		for _, payout := range s.createPayouts(t, random.IntN(2) == 0) {
			switch random.IntN(4) {
			case 0:
				s.payoutAction(t, payout, "mark-failed", object{"reason": "Storm"})
				s.payoutAction(t, payout, "retry", nil)
			case 1:
				s.payoutAction(t, payout, "cancel", nil)
			default:
				s.payoutAction(t, payout, "mark-paid", object{"reference": "storm"})
			}
		}
	}
}

// TestLedger_ConsistentUnderConcurrency concurrently sends all kinds of requests that
// move money of one partner. After that the ledger check must find no violation.
func TestLedger_ConsistentUnderConcurrency(t *testing.T) {
	t.Parallel()
	const (
		sellers = 6
		rounds  = 12
		payers  = 2
	)
	sys := start(t, setup{})
	automatic := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	manual := sys.newFixtureFor(t, automatic.merchant, automatic.partner, manualApprovalRules())
	held := sys.newFixtureFor(t, automatic.merchant, automatic.partner, rules(nil))
	automatic.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	s := storm{
		automatic: stormProgram{automatic, automatic.click(t)},
		manual:    stormProgram{manual, manual.click(t)},
		held:      stormProgram{held, held.click(t)},
		outcomes:  newStormOutcomes(),
	}
	sales := s.sendSequentially(t)
	// If a kind of request never succeeded, the test would prove nothing about this kind.
	s.outcomes.wantSuccesses(t, "report", "early refund", "partial refund", "full refund", "approve", "reject", "approve-override",
		"create batch", "confirm batch", "process batch", "mark-failed", "retry", "cancel", "mark-paid")

	s.outcomes = newStormOutcomes()
	var selling, paying sync.WaitGroup
	var stopped atomic.Bool
	for seller := range sellers {
		selling.Go(func() { s.sell(t, seller, rounds) })
	}
	for payer := range payers {
		paying.Go(func() { s.pay(t, payer, &stopped) })
	}
	selling.Wait()
	stopped.Store(true)
	paying.Wait()
	// The number of payouts depends on the speed of the machine. It can be so small that
	// an action on payouts never succeeds, so these actions are not in this list.
	s.outcomes.wantSuccesses(t, "report", "early refund", "partial refund", "full refund", "approve", "reject", "approve-override",
		"create batch", "confirm batch")

	db, err := postgres.Open(t.Context(), postgres.Config{URL: sys.database, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Jobs may still update counts and apply refunds that arrived before their sale. The
	// checks find no violation before or after such a job.
	eventually(t, waitTimeout, "the ledger check finds no violation", func() error {
		results, err := checks.Run(t.Context(), db, time.Now)
		for _, result := range results {
			if result.Violated > 0 {
				return fmt.Errorf("%s: %v", result.Name, result.Violations)
			}
		}
		return err
	})
	sales += sellers * rounds
	if n := automatic.merchant.get(t, "/api/v1/conversions").number("total"); n != int64(sales) {
		t.Errorf("%d conversions are stored, want %d; outcomes of all requests: %v", n, sales, s.outcomes.counts)
	}
}
