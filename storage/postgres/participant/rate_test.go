package participant_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCountRates_ReadsOnlyParticipantsWithRates(t *testing.T) {
	pgtest.Slow(t)
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeLive)
	shop.JoinMany(50_000)
	f.ExecWithoutForeignKeys(`update participants set override_rate_bps = 1000 where id in (select id from participants limit 50)`)
	f.VacuumAnalyze("participants")
	plans := f.PlansOf(func(db *postgres.DB) error {
		counts, err := participants.CountRates(t.Context(), db, shop.Scope, shop.Program)
		if err == nil && counts.Own != 50 {
			t.Errorf("CountRates returned %+v, want 50 with a rate of their own", counts)
		}
		return err
	})
	pgtest.CheckPlan(t, "CountRates", plans[0], []string{"participants_with_rate"}, pgtest.ScansOf("participants"))
}
