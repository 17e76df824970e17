package payout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	payPalFormat = affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_PAYPAL
	wiseFormat   = affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_WISE
)

// exportRows exports a batch and returns the given columns of each row, separated by |,
// and the number of parts.
func (f *fixture) exportRows(req *affiliatev1.ExportPayoutBatchRequest, columns ...int) (rows []string, parts string) {
	f.Helper()
	d, err := f.export(req)
	if err != nil {
		f.Fatal(err)
	}
	for _, row := range d.Rows(f) {
		var cells []string
		for _, i := range columns {
			cells = append(cells, row[i])
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows, strings.Join(d.Header.Get("export-parts"), ",")
}

func (f *fixture) wantRows(req *affiliatev1.ExportPayoutBatchRequest, columns []int, want ...string) {
	f.Helper()
	got, parts := f.exportRows(req, columns...)
	if !slices.Equal(got, want) || parts != "1" {
		f.Errorf("the export %v has %s parts and\n%s\nwant one part and\n%s", req, parts, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExportPayoutBatch(t *testing.T) {
	f := newFixture(t, pgtest.Row{"name": "=Prog"})
	anna, bank, wise, yen := f.partner("Anna"), f.partner("Bank"), f.Join("Wise"), f.partner("Yuko")
	f.setMethod(wise, payout.Account{Method: payout.Wise, Account: "w@example.com"})
	f.setMethod(bank, payout.Account{Method: payout.BankTransfer, Account: "DE89370400440532013000", Holder: "Bank, B."})
	f.clock.Advance(payout.AccountHold)
	f.addCommission(anna, 5)
	f.addCommission(bank, 123456)
	f.addCommission(wise, 300)
	f.addCommission(yen, 700, inCurrency("JPY"))
	b := f.mustCreateBatch()
	type req = affiliatev1.ExportPayoutBatchRequest
	_, err := f.export(&req{BatchId: b.Id})
	requireStateRefusal(t, err, "draft")
	f.confirm(b)

	checkFiles := func(status string) {
		t.Helper()
		f.wantRows(&req{BatchId: b.Id, Format: payPalFormat, Currency: new("EUR")}, []int{0, 1, 2, 4, 5},
			"Recipient|Amount|Currency|Note|Recipient wallet", "Anna@example.com|0.05|EUR|'=Prog|PAYPAL")
		f.wantRows(&req{BatchId: b.Id, Format: payPalFormat, Currency: new("jpy")}, []int{0, 1, 2},
			"Recipient|Amount|Currency", "Yuko@example.com|700|JPY")
		f.wantRows(&req{BatchId: b.Id, Format: wiseFormat}, []int{0, 1, 3, 4, 6, 7},
			"name|recipientEmail|amount|amountCurrency|targetCurrency|type", "Wise|w@example.com|3.00|target|EUR|EMAIL")
		f.wantRows(&req{BatchId: b.Id}, []int{1, 2, 4, 5, 6, 7, 8, 9, 10},
			"status|programName|partnerName|amountCents|amount|currency|method|account|accountHolder",
			status+"|'=Prog|Anna|5|0.05|EUR|paypal|Anna@example.com|", status+"|'=Prog|Bank|123456|1234.56|EUR|bank_transfer|DE89370400440532013000|Bank, B.",
			status+"|'=Prog|Wise|300|3.00|EUR|wise|w@example.com|", status+"|'=Prog|Yuko|700|700|JPY|paypal|Yuko@example.com|")
	}
	checkFiles("pending")
	f.WantCount(4, "pending payouts, which the exports did not change", `select count(*) from payouts where status = 'pending' and version = 2`)
	f.mustProcess(b)
	checkFiles("processing")
	f.WantCount(4, "events of processed payouts", `select count(*) from events where type = 'payout.processing'`)

	got, _ := f.exportRows(&req{BatchId: b.Id, Format: payPalFormat, Currency: new("EUR")}, 3)
	if id := got[1]; len(id) != 30 || strings.ContainsAny(id, " -") {
		t.Errorf("PayPal's file has the customer id %q, want 30 characters without spaces", id)
	}
	got, _ = f.exportRows(&req{BatchId: b.Id, Format: wiseFormat}, 2)
	if reference := got[1]; len(reference) != 10 {
		t.Errorf("Wise's file has the reference %q, want 10 characters", reference)
	}

	actions := f.AuditActions("payout_batch", b.Id)
	exports := len(slices.DeleteFunc(slices.Clone(actions), func(action string) bool { return action != "payout_batch.export" }))
	if exports != 10 || len(actions) != 13 {
		t.Errorf("the audit log of the batch has %q, want create, confirm, process and ten exports", actions)
	}
	f.WantCount(0, "audit records with a payout account", `select count(*) from audit_log where after::text like '%example.com%' or after::text like '%DE89%'`)
	for _, p := range f.payouts(b) {
		f.mustMove(p.Id, "paid")
	}
	_, err = f.export(&req{BatchId: b.Id})
	pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
}

func TestExportPayoutBatch_RejectsFilesThatAProviderRejects(t *testing.T) {
	f := newFixture(t)
	for _, currency := range []string{"EUR", "HUF", "BHD"} {
		f.addCommission(f.partner("Partner "+currency), 1250, inCurrency(currency))
	}
	b := f.confirm(f.mustCreateBatch())
	for name, tc := range map[string]struct {
		req       *affiliatev1.ExportPayoutBatchRequest
		want      affiliate.Reason
		wantField string
		wantText  string
	}{
		"several currencies": {&affiliatev1.ExportPayoutBatchRequest{Format: payPalFormat}, affiliate.ReasonValidation, "currency", "BHD, EUR, HUF"},
		"a currency in which PayPal makes no payouts": {
			&affiliatev1.ExportPayoutBatchRequest{Format: payPalFormat, Currency: new("BHD")}, affiliate.ReasonValidation, "currency", "PayPal",
		},
		"fractions of HUF": {&affiliatev1.ExportPayoutBatchRequest{Format: payPalFormat, Currency: new("HUF")}, affiliate.ReasonPayoutState, "", "HUF"},
		"no such part": {
			&affiliatev1.ExportPayoutBatchRequest{Format: payPalFormat, Currency: new("EUR"), Part: proto.Int32(2)}, affiliate.ReasonValidation, "part", "between 1 and 1",
		},
		"a generic file has one part": {&affiliatev1.ExportPayoutBatchRequest{Part: proto.Int32(2)}, affiliate.ReasonValidation, "part", "between 1 and 1"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.BatchId = b.Id
			_, err := f.export(tc.req)
			pgtest.RequireRefusal(t, err, tc.want, tc.wantField)
			if refusal, _ := errors.AsType[*affiliate.Error](err); !strings.Contains(fmt.Sprint(refusal.Message, refusal.Violations), tc.wantText) {
				t.Errorf("the error is %q %v, want the text %q", refusal.Message, refusal.Violations, tc.wantText)
			}
		})
	}
	if got := f.AuditActions("payout_batch", b.Id); slices.Contains(got, "payout_batch.export") {
		t.Errorf("the audit log has %q although no file was sent", got)
	}
}

// PayPal accepts whole forints only.
func TestExportPayoutBatch_WritesWholeUnitsForPayPal(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 125000, inCurrency("HUF"))
	b := f.confirm(f.mustCreateBatch())
	f.wantRows(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id, Format: payPalFormat}, []int{1, 2}, "Amount|Currency", "1250|HUF")
}

// The parts of an export must not move when payouts of another part are paid between the
// downloads. Otherwise payouts would be in two parts or in none.
func TestExportPayoutBatch_HasFixedParts(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t)
	const payouts = 12_000
	f.fillWithPartners(payouts)
	b := f.confirm(f.mustCreateBatch())
	f.mustProcess(b)
	part := func(n int32) []string {
		rows, parts := f.exportRows(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id, Format: payPalFormat, Part: &n}, 0)
		if parts != "3" {
			t.Fatalf("the header Export-Parts is %q, want 3", parts)
		}
		return rows[1:]
	}
	first := part(1)
	f.Exec(`update payouts set status = 'paid', paid_at = $1 where id in (select id from payouts order by id limit 3000)`, f.Now())
	all := append(append(first, part(2)...), part(3)...)
	if len(first) != 5000 || len(all) != payouts {
		t.Errorf("part 1 has %d payouts and all parts have %d, want 5000 and %d", len(first), len(all), payouts)
	}
	slices.Sort(all)
	if unique := len(slices.Compact(all)); unique != payouts {
		t.Errorf("the parts have %d different payouts, want %d", unique, payouts)
	}
	if left := len(part(1)); left != 2000 {
		t.Errorf("after 3000 payouts of part 1 were paid, it has %d payouts, want 2000", left)
	}
	if rows, parts := f.exportRows(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id}, 0); parts != "1" || len(rows) != payouts-3000+1 {
		t.Errorf("the generic export has %s parts and %d rows, want 1 part and %d rows", parts, len(rows), payouts-3000+1)
	}
}

// fillWithPartners adds partners with a PayPal account and a bonus. It inserts the rows
// directly, because thousands of calls would take too long.
func (f *fixture) fillWithPartners(n int) {
	f.Helper()
	users, accounts := make([]string, n), make([][]byte, n)
	for i := range n {
		id := affiliate.NewID[affiliate.UserID](f.Now())
		users[i] = id.String()
		accounts[i] = f.keys.Seal(fmt.Appendf(nil, `{"account": "partner-%d@example.com"}`, i), []byte(users[i]))
	}
	f.ExecWithoutForeignKeys(`
		with people as (
			insert into users (id, kind, email, password_hash, name, created_at)
			select id, 'partner', id || '@example.com', '', 'Partner', $4 from unnest($5::uuid[]) id
		), methods as (
			insert into payout_methods (user_id, method, account, account_hint, updated_at)
			select id, 'paypal', account, 'p***@example.com', $4 from unnest($5::uuid[], $6::bytea[]) as t (id, account)
		), joined as (
			insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
				application_answers, applied_at, created_at, updated_at)
			select $1, id, $2, $3, id, 'Partner', 'x', 'approved', id::text, '{}', $4, $4, $4 from unnest($5::uuid[]) id
		), balances as (
			insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
			select $1, id, 'EUR', 0, 100 from unnest($5::uuid[]) id
		)
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, reason, created_by, created_at)
		select $1, gen_random_uuid(), $3, $2, id, id, 'bonus', 100, 'EUR', 'x', 'system', $4 from unnest($5::uuid[]) id`,
		f.Scope.Workspace, f.Program, f.Scope.Mode, f.Now(), users, accounts)
}
