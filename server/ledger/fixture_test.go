package ledger_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/ledger"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const (
	bonus      = affiliatev1.LedgerEntryType_LEDGER_ENTRY_TYPE_BONUS
	adjustment = affiliatev1.LedgerEntryType_LEDGER_ENTRY_TYPE_ADJUSTMENT
)

// fixture is a shop with the service under test.
type fixture struct {
	*pgtest.Shop
	service *ledger.Service
	clock   *pgtest.Clock
}

// newFixture returns a fixture. program changes the columns of the shop's programme.
func newFixture(t *testing.T, program ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 987_654_321, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, program...)
	return &fixture{shop, ledger.New(shop.DB, clock.Now), clock}
}

// in returns a fixture whose methods work in another shop.
func (f *fixture) in(shop *pgtest.Shop) *fixture {
	return &fixture{shop, f.service, f.clock}
}

// asOwner returns the context of a call by the shop's owner.
func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

// addEntry creates an entry, one second after the previous entry. If currency is empty,
// the entry has the programme's currency.
func (f *fixture) addEntry(p pgtest.Participant, kind affiliatev1.LedgerEntryType, cents int64, currency string) *affiliatev1.LedgerEntry {
	f.Helper()
	f.clock.Advance(time.Second)
	req := &affiliatev1.CreateLedgerEntryRequest{
		ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Type: kind, AmountCents: cents, Reason: fmt.Sprint("Reason ", cents),
	}
	if currency != "" {
		req.Currency = &currency
	}
	if err := servertest.Check(f.service, req); err != nil {
		f.Fatal(err)
	}
	entry, err := f.service.CreateLedgerEntry(f.asOwner(), req)
	if err != nil {
		f.Fatal(err)
	}
	return entry
}

// listEntries sets the ids in req and sends it as the shop's owner.
func (f *fixture) listEntries(p pgtest.Participant, req *affiliatev1.ListLedgerRequest) *affiliatev1.ListLedgerResponse {
	f.Helper()
	req.ProgramId, req.ParticipantId = f.Program.String(), p.ID.String()
	page, err := f.service.ListLedger(f.asOwner(), req)
	if err != nil {
		f.Fatalf("ListLedger with %v: %v", req, err)
	}
	return page
}

// summarize returns the amounts of the entries, the balances and the total in one line,
// for example "30 -700 | CHF-700 EUR30 | total 2".
func summarize[E interface{ GetAmountCents() int64 }](page interface {
	GetData() []E
	GetBalances() []*affiliatev1.LedgerBalance
	GetTotal() int64
},
) string {
	var words []string
	for _, entry := range page.GetData() {
		words = append(words, strconv.FormatInt(entry.GetAmountCents(), 10))
	}
	words = append(words, "|")
	for _, b := range page.GetBalances() {
		words = append(words, fmt.Sprint(b.GetCurrency(), b.GetBalanceCents()))
	}
	return strings.Join(append(words, "| total", strconv.FormatInt(page.GetTotal(), 10)), " ")
}
