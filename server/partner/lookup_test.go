package partner_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

type lookup = affiliatev1.LookupPartnerConversionRequest

func (f *fixture) lookup(user affiliate.UserID, mode affiliate.Mode, req *lookup) *affiliatev1.PartnerConversionLookup {
	f.Helper()
	if err := servertest.Check(f.service, req); err != nil {
		f.Fatal(err)
	}
	got, err := f.service.LookupPartnerConversion(f.asPartner(user, mode), req)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// report records an unattributed sale with the given number. Its decision has one candidate: a
// signal of the participant, which was rejected.
func (p programme) report(number string, participant pgtest.Participant, rejected string) {
	p.Helper()
	c := p.NewConversion(p.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = number })
	p.Exec(`
		update attribution_decisions set trace = jsonb_build_object('program', jsonb_build_object('id', $2::text), 'candidates', jsonb_build_array(
			jsonb_build_object('type', 'click', 'participant_id', $3::text, 'rejected_because', $4::text, 'eligible', $4 = 'OUTRANKED',
				'at', '2026-01-01T00:00:00Z', 'expires_at', '2026-01-31T00:00:00Z')))
		where conversion_id = $1`, c.ID, p.Program.String(), participant.ID.String(), rejected)
}

func TestLookupPartnerConversion(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	workspace := f.workspace("Shop")
	alpha, beta := f.program(workspace, "Alpha", nil), f.program(f.workspace("Other shop"), "Beta", nil)
	inAlpha, inBeta, johns := alpha.join(jane, nil), beta.join(jane, nil), alpha.join(john, nil)
	own := f.NewCommission(inAlpha, func(c *commission.Commission) { c.ExternalTransactionID = "own" })
	f.NewCommission(inBeta, func(c *commission.Commission) { c.ExternalTransactionID = "own" })
	f.NewCommission(johns, func(c *commission.Commission) { c.ExternalTransactionID = "johns" })
	f.NewConversion(alpha.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "of nobody" })
	alpha.report("expired", inAlpha, "CLICK_EXPIRED")
	alpha.report("johns expired", johns, "CLICK_EXPIRED")
	moved := f.NewCommission(inAlpha, func(c *commission.Commission) { c.ExternalTransactionID = "reassigned" })
	f.Exec(`update attribution_decisions set participant_id = $2, explanation = 'secret' where id = $1`, moved.Decision, johns.ID)

	unknown := f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("unknown")})
	if len(unknown.Data) != 0 || unknown.GetExplanation() == "" {
		t.Errorf("an unknown number has the result %v", unknown)
	}
	for name, got := range map[string]*affiliatev1.PartnerConversionLookup{
		"a sale of another partner":             f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("johns")}),
		"an expired click of another partner":   f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("johns expired")}),
		"a sale of nobody":                      f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("of nobody")}),
		"the other mode":                        f.lookup(jane, affiliate.ModeTest, &lookup{ExternalTransactionId: new("own")}),
		"a sale of a merchant of others":        f.lookup(f.user("Stranger"), affiliate.ModeLive, &lookup{ExternalTransactionId: new("own")}),
		"another programme than that of a sale": f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("expired"), ProgramId: new(beta.Program.String())}),
	} {
		if !proto.Equal(got, unknown) {
			t.Errorf("%s has the result %v, want the same as an unknown number", name, got)
		}
	}

	got := f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("own"), ProgramId: new(alpha.Program.String())})
	if len(got.Data) != 1 || got.Explanation != nil || got.Data[0].Result != affiliatev1.PartnerConversionResult_PARTNER_CONVERSION_RESULT_CREDITED ||
		got.Data[0].GetCommissionId() != own.ID.String() || got.Data[0].CommissionStatus != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING ||
		got.Data[0].ProgramName != "Alpha" || got.Data[0].Explanation != "A click." {
		t.Errorf("the own sale has the result %v", got)
	}
	if got := f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("own")}); len(got.Data) != 2 {
		t.Errorf("a number of two merchants has the result %v, want two sales", got)
	}
	got = f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("expired")})
	if len(got.Data) != 1 || got.Data[0].Reason != affiliatev1.PartnerConversionReason_PARTNER_CONVERSION_REASON_CLICK_EXPIRED || got.Data[0].CommissionId != nil {
		t.Errorf("the sale after the window has the result %v", got)
	}
	got = f.lookup(jane, affiliate.ModeLive, &lookup{ExternalTransactionId: new("reassigned")})
	if len(got.Data) != 1 || got.Data[0].Reason != affiliatev1.PartnerConversionReason_PARTNER_CONVERSION_REASON_REASSIGNED {
		t.Errorf("the reassigned sale has the result %v", got)
	}
	if text := protojson.Format(got); strings.Contains(text, "secret") || strings.Contains(text, johns.ID.String()) {
		t.Errorf("the lookup shows the decision about another partner: %s", text)
	}
}

func TestLookupPartnerConversion_FindsSalesOfADay(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	alpha := f.program(f.workspace("Shop"), "Alpha", nil)
	mine, johns := alpha.join(jane, nil), alpha.join(f.user("John"), nil)
	alpha.report("1", mine, "CLICK_EXPIRED")
	alpha.report("2", johns, "CLICK_EXPIRED")
	program, today := alpha.Program.String(), f.Now().Format("2006-01-02")
	for name, tc := range map[string]struct {
		req  *lookup
		want int
	}{
		"the day":        {&lookup{Date: &today, ProgramId: &program}, 1},
		"another day":    {&lookup{Date: new("2026-02-01"), ProgramId: &program}, 0},
		"in a time zone": {&lookup{Date: new("2026-03-03"), ProgramId: &program, Timezone: new("America/Los_Angeles")}, 1},
	} {
		if got := f.lookup(jane, affiliate.ModeLive, tc.req); len(got.Data) != tc.want {
			t.Errorf("%s: %v, want %d sales", name, got, tc.want)
		}
	}
	_, err := f.service.LookupPartnerConversion(f.asLivePartner(f.user("Stranger")), &lookup{Date: &today, ProgramId: &program})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)

	for name, tc := range map[string]struct {
		req    *lookup
		fields []string
	}{
		"nothing":      {&lookup{}, []string{"external_transaction_id"}},
		"both":         {&lookup{ExternalTransactionId: new("x"), Date: &today, ProgramId: &program}, []string{"external_transaction_id"}},
		"no programme": {&lookup{Date: &today}, []string{"program_id"}},
		"no such day":  {&lookup{Date: new("2026-02-30"), ProgramId: &program}, []string{"date"}},
		"no such zone": {&lookup{Date: &today, ProgramId: &program, Timezone: new("Mars/Base")}, []string{"timezone"}},
	} {
		t.Run(name, func(t *testing.T) {
			pgtest.RequireRefusal(t, servertest.Check(f.service, tc.req), affiliate.ReasonValidation, tc.fields...)
		})
	}
}
