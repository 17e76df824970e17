package ledger_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCreateLedgerEntry(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "CHF"})
	anna := f.Join("Anna")
	got := f.addEntry(anna, bonus, 500, "")
	want := &affiliatev1.LedgerEntry{
		Id: got.GetId(), ProgramId: f.Program.String(), ParticipantId: anna.ID.String(), Mode: affiliatev1.Mode_MODE_LIVE, Type: bonus,
		AmountCents: 500, Currency: "CHF", Reason: new("Reason 500"), CreatedBy: f.Owner.String(),
		CreatedByName: &f.Texts(`select name from users where id = $1`, f.Owner)[0],
		CreatedAt:     server.Timestamp(f.Now().Truncate(time.Millisecond)),
	}
	if !proto.Equal(got, want) {
		t.Errorf("CreateLedgerEntry returned %v\nwant %v", got, want)
	}
	f.addEntry(anna, adjustment, -700, "")
	f.addEntry(anna, adjustment, 30, "eur")
	page := f.listEntries(anna, &affiliatev1.ListLedgerRequest{})
	if got, want := summarize(page), "30 -700 500 | CHF-200 EUR30 | total 3"; got != want {
		t.Fatalf("ListLedger returned %s, want %s", got, want)
	}
	if got := page.GetData()[2]; !proto.Equal(got, want) {
		t.Errorf("ListLedger returned the entry %v\nwant %v", got, want)
	}
	if actions := f.AuditActions("ledger_entry", got.GetId()); !slices.Equal(actions, []string{"ledger.bonus"}) {
		t.Errorf("the audit log of the bonus has %q, want ledger.bonus", actions)
	}
	n := f.Count(`select count(*) from audit_log where action = 'ledger.adjustment' and after ->> 'participant_id' = $1::text`, anna.ID.String())
	if n != 2 {
		t.Errorf("the audit log has %d adjustments of the participant, want 2", n)
	}
}

func TestCreateLedgerEntry_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	anna, ben := f.Join("Anna"), f.Join("Ben")
	create := func(f *fixture, key string, p pgtest.Participant, cents int64) (entry *affiliatev1.LedgerEntry, replayed bool, err error) {
		f.clock.Advance(time.Second)
		ctx, transport := servertest.WithTransport(f.asOwner(), key)
		entry, err = f.service.CreateLedgerEntry(ctx, &affiliatev1.CreateLedgerEntryRequest{
			ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Type: bonus, AmountCents: cents, Reason: "R",
		})
		return entry, transport.Replayed(), err
	}
	first, replayed, err := create(f, "k-1", anna, 500)
	if err != nil || replayed {
		t.Fatalf("the first request returned %v, replayed %t", err, replayed)
	}
	var group errgroup.Group
	for range 5 {
		group.Go(func() error {
			again, replayed, err := create(f, "k-1", anna, 500)
			if err == nil && (!replayed || !proto.Equal(again, first)) {
				t.Errorf("the repeated request returned %v, replayed %t; want the first response %v", again, replayed, first)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	_, _, err = create(f, "k-1", anna, 600)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	_, _, err = create(f, "k-1", ben, 500)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	_, _, err = create(f, "k 1", anna, 500)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "Idempotency-Key")
	if got, want := summarize(f.listEntries(anna, &affiliatev1.ListLedgerRequest{})), "500 | EUR500 | total 1"; got != want {
		t.Errorf("ListLedger returned %s, want %s", got, want)
	}

	// Another mode and another workspace have keys of their own. A refused request leaves no key.
	for name, other := range map[string]*fixture{"other mode": f.in(f.InOtherMode()), "other workspace": f.in(f.NewShop(affiliate.ModeLive))} {
		if _, replayed, err := create(other, "k-1", other.Join("Otto"), 500); err != nil || replayed {
			t.Errorf("%s: the request returned %v, replayed %t", name, err, replayed)
		}
	}
	_, _, err = create(f, "k-2", pgtest.Participant{}, 500)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if _, replayed, err := create(f, "k-2", ben, 500); err != nil || replayed {
		t.Errorf("the key of a refused request: %v, replayed %t", err, replayed)
	}
	f.clock.Advance(affiliate.IdempotencyTTL)
	if _, replayed, err := create(f, "k-1", anna, 500); err != nil || replayed {
		t.Errorf("a day later the request returned %v, replayed %t; want a new entry", err, replayed)
	}
}

func TestLedger_OfOtherScopesIsNotFound(t *testing.T) {
	f := newFixture(t)
	stranger, testMode := f.in(f.NewShop(affiliate.ModeLive)), f.in(f.InOtherMode())
	program, anna := f.Program.String(), f.Join("Anna").ID.String()
	for name, tc := range map[string]struct {
		caller               context.Context
		program, participant string
	}{
		"another programme":      {f.asOwner(), f.NewProgram(f.Scope).String(), anna},
		"invalid participant id": {f.asOwner(), program, "x"},
		"invalid programme id":   {f.asOwner(), "x", anna},
		"another workspace":      {stranger.asOwner(), program, anna},
		"the other mode":         {testMode.asOwner(), program, anna},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.CreateLedgerEntry(tc.caller, &affiliatev1.CreateLedgerEntryRequest{
				ProgramId: tc.program, ParticipantId: tc.participant, Type: bonus, AmountCents: 1, Reason: "R",
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.ListLedger(tc.caller, &affiliatev1.ListLedgerRequest{ProgramId: tc.program, ParticipantId: tc.participant})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if n := f.Count(`select count(*) from ledger_entries`); n != 0 {
		t.Errorf("refused calls created %d entries, want none", n)
	}
}

func TestCreateLedgerEntry_OfErasedParticipantIsAnAdjustment(t *testing.T) {
	f := newFixture(t)
	erased := f.Join("Erased", pgtest.Row{"erased_at": f.Now()})
	_, err := f.service.CreateLedgerEntry(f.asOwner(), &affiliatev1.CreateLedgerEntryRequest{
		ProgramId: f.Program.String(), ParticipantId: erased.ID.String(), Type: bonus, AmountCents: 1, Reason: "R",
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	if got, want := summarize(f.listEntries(erased, &affiliatev1.ListLedgerRequest{})), "| | total 0"; got != want {
		t.Errorf("after the refused call ListLedger returned %s, want %s", got, want)
	}
	f.addEntry(erased, adjustment, -7, "USD")
	if n := f.Count(`select count(*) from ledger_entries where participant_id = $1 and type = 'adjustment' and amount_cents = -7`, erased.ID); n != 1 {
		t.Errorf("an adjustment has created %d entries, want 1", n)
	}
}

func TestListLedger_FiltersEntriesButNotBalances(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.Join("Anna"), f.Join("Berta")
	for i := range int64(3) {
		f.addEntry(anna, bonus, 1+i, "")
		f.addEntry(anna, adjustment, 10+i, "USD")
		f.addEntry(berta, bonus, 1000, "")
	}
	for name, tc := range map[string]struct {
		req  *affiliatev1.ListLedgerRequest
		want string
	}{
		"all":                 {&affiliatev1.ListLedgerRequest{}, "12 3 11 2 10 1 | EUR6 USD33 | total 6"},
		"type":                {&affiliatev1.ListLedgerRequest{Type: bonus}, "3 2 1 | EUR6 USD33 | total 3"},
		"currency":            {&affiliatev1.ListLedgerRequest{Currency: new("USD")}, "12 11 10 | EUR6 USD33 | total 3"},
		"type and currency":   {&affiliatev1.ListLedgerRequest{Type: bonus, Currency: new("USD")}, "| EUR6 USD33 | total 0"},
		"second page":         {&affiliatev1.ListLedgerRequest{Page: new(int32(2)), PageSize: new(int32(2))}, "11 2 | EUR6 USD33 | total 6"},
		"after the last page": {&affiliatev1.ListLedgerRequest{Page: new(int32(9))}, "| EUR6 USD33 | total 6"},
	} {
		if got := summarize(f.listEntries(anna, tc.req)); got != tc.want {
			t.Errorf("%s: ListLedger returned %s, want %s", name, got, tc.want)
		}
	}
}

func TestListPartnerLedger_ShowsOwnEntries(t *testing.T) {
	f := newFixture(t, pgtest.Row{"name": "Alpha"})
	beta := f.in(f.NewShop(affiliate.ModeLive, pgtest.Row{"name": "Beta"}))
	inAlpha := f.Join("Jane")
	jane := inAlpha.Partner
	inBeta := f.NewParticipant(beta.Scope, beta.Program, jane)
	f.addEntry(inAlpha, bonus, 1, "")
	entry := beta.addEntry(inBeta, bonus, 2, "")
	beta.addEntry(inBeta, adjustment, -5, "USD")
	f.addEntry(f.Join("John"), bonus, 1000, "")
	list := func(mode affiliate.Mode, req *affiliatev1.ListPartnerLedgerRequest) (*affiliatev1.ListPartnerLedgerResponse, error) {
		return f.service.ListPartnerLedger(servertest.AsPartner(t, jane, mode), req)
	}
	for name, tc := range map[string]struct {
		mode affiliate.Mode
		req  *affiliatev1.ListPartnerLedgerRequest
		want string
	}{
		"all":            {affiliate.ModeLive, &affiliatev1.ListPartnerLedgerRequest{}, "-5 2 1 | EUR3 USD-5 | total 3"},
		"programme":      {affiliate.ModeLive, &affiliatev1.ListPartnerLedgerRequest{ProgramId: new(beta.Program.String())}, "-5 2 | EUR2 USD-5 | total 2"},
		"type":           {affiliate.ModeLive, &affiliatev1.ListPartnerLedgerRequest{Type: bonus}, "2 1 | EUR3 USD-5 | total 2"},
		"currency":       {affiliate.ModeLive, &affiliatev1.ListPartnerLedgerRequest{Currency: new("USD")}, "-5 | EUR3 USD-5 | total 1"},
		"the other mode": {affiliate.ModeTest, &affiliatev1.ListPartnerLedgerRequest{}, "| | total 0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := list(tc.mode, tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if summary := summarize(got); summary != tc.want {
				t.Errorf("ListPartnerLedger returned %s, want %s", summary, tc.want)
			}
			if text := protojson.Format(got); strings.Contains(text, f.Owner.String()) || strings.Contains(text, beta.Owner.String()) {
				t.Errorf("ListPartnerLedger shows the id of the user who created an entry: %s", text)
			}
		})
	}

	got, err := list(affiliate.ModeLive, &affiliatev1.ListPartnerLedgerRequest{Type: bonus, ProgramId: new(beta.Program.String())})
	if err != nil || len(got.GetData()) != 1 {
		t.Fatalf("ListPartnerLedger returned %v, error %v, want one entry", got, err)
	}
	want := &affiliatev1.PartnerLedgerEntry{
		Id: entry.GetId(), ProgramId: beta.Program.String(), ProgramName: "Beta", ParticipantId: inBeta.ID.String(),
		Mode: affiliatev1.Mode_MODE_LIVE, Type: bonus, AmountCents: 2, Currency: "EUR", Reason: new("Reason 2"), CreatedAt: entry.GetCreatedAt(),
	}
	if !proto.Equal(got.GetData()[0], want) {
		t.Errorf("ListPartnerLedger returned the entry %v\nwant %v", got.GetData()[0], want)
	}
	_, err = list(affiliate.ModeLive, &affiliatev1.ListPartnerLedgerRequest{ProgramId: new(affiliate.NewID[affiliate.ProgramID](f.Now()).String())})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		req       proto.Message
		wantField string
	}{
		{&affiliatev1.ListLedgerRequest{Type: 99}, "type"},
		{&affiliatev1.ListPartnerLedgerRequest{Type: 99}, "type"},
		{&affiliatev1.CreateLedgerEntryRequest{Type: bonus, AmountCents: -1}, "amount_cents"},
		{&affiliatev1.CreateLedgerEntryRequest{Type: adjustment}, "amount_cents"},
		{&affiliatev1.CreateLedgerEntryRequest{Type: adjustment, AmountCents: -1, Currency: new("EURO")}, "currency"},
	} {
		if found := f.service.Check(tc.req); len(found) != 1 || found[0].Field != tc.wantField {
			t.Errorf("Check of %T with %v found %v, want one violation of the field %s", tc.req, tc.req, found, tc.wantField)
		}
	}
}
