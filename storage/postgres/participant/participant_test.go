package participant_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

func TestExistInMode_NeedsAllRecordsInOneScope(t *testing.T) {
	f := newFixture(t)
	testMode, stranger := f.InOtherMode(), f.NewShop(f.Scope.Mode)
	commission := testMode.NewCommission(testMode.Join("Pat"))
	own := f.NewCommission(f.Join("Pat"))
	program := func(id affiliate.ProgramID) affiliate.Record {
		return affiliate.Record{Kind: affiliate.ProgramRecord, ID: affiliate.ID[affiliate.Record](id)}
	}
	commissionRecord := func(id affiliate.CommissionID) affiliate.Record {
		return affiliate.Record{Kind: affiliate.CommissionRecord, ID: affiliate.ID[affiliate.Record](id)}
	}
	for name, c := range map[string]struct {
		scope   affiliate.Scope
		records []affiliate.Record
		want    bool
	}{
		"programme":                       {testMode.Scope, []affiliate.Record{program(testMode.Program)}, true},
		"programme and commission":        {testMode.Scope, []affiliate.Record{program(testMode.Program), commissionRecord(commission.ID)}, true},
		"programme of the other mode":     {testMode.Scope, []affiliate.Record{program(f.Program), commissionRecord(commission.ID)}, false},
		"commission of the other mode":    {testMode.Scope, []affiliate.Record{program(testMode.Program), commissionRecord(own.ID)}, false},
		"programme of another workspace":  {f.Scope, []affiliate.Record{program(stranger.Program)}, false},
		"commission in another workspace": {stranger.Scope, []affiliate.Record{commissionRecord(own.ID)}, false},
	} {
		if got, err := postgres.ExistInMode(t.Context(), f.DB, c.scope, c.records); err != nil || got != c.want {
			t.Errorf("%s: ExistInMode returned %t, %v; want %t", name, got, err, c.want)
		}
	}
	// Each kind names a table in the statement.
	for _, kind := range []affiliate.RecordKind{
		affiliate.ProgramRecord, affiliate.ParticipantRecord, affiliate.CommissionRecord, affiliate.ConversionRecord, affiliate.PayoutRecord,
		affiliate.PayoutBatchRecord, affiliate.LinkRecord, affiliate.PromoCodeRecord, affiliate.FraudEventRecord, affiliate.WebhookRecord,
	} {
		unknown := affiliate.Record{Kind: kind, ID: affiliate.NewID[affiliate.ID[affiliate.Record]](f.Now())}
		if got, err := postgres.ExistInMode(t.Context(), f.DB, f.Scope, []affiliate.Record{unknown}); err != nil || got {
			t.Errorf("an unknown %s: ExistInMode returned %t, %v; want false", kind, got, err)
		}
	}
}
