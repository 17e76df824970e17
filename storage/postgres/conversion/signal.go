package conversion

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// lockPromoCode locks a promo code. findPromoCode is a statement of its own, because a
// statement that waits for a lock does not see other changes that commit during the wait.
const lockPromoCode = `
	select from promo_codes
	where workspace_id = $1 and mode = $2 and code = $3
	for no key update`

// findPromoCode returns the promo code in the conversion's mode. If there is none, it returns the promo
// code of the other mode, which the decision must distinguish from an unknown code and which is not locked.
const findPromoCode = `
	select x.id, x.mode, x.active, x.expires_at, x.max_redemptions, x.redemptions, ` + earnerColumns + `
	from promo_codes x` + earnerOfX + `
	where x.workspace_id = $1 and x.mode in ('test', 'live') and x.code = $3
	order by x.mode = $2 desc
	limit 1`

// signals contains a conversion and the data that was looked up for its click, its promo
// code and its customer. The decision about the conversion uses this data.
type signals struct {
	conversion  conversion.Conversion
	inputs      attribution.Inputs
	newCustomer bool // this transaction inserted the customer
}

// lockSignals locks and reads the customers and promo codes of conversions, in one round trip.
// The locks last until the transaction ends. To prevent deadlocks, every transaction that
// decides about conversions takes these locks in the same order: customers before promo codes,
// each sorted by scope and then by reference or code. Before these locks it takes only the
// locks on idempotency keys and aliases. No two of the conversions may have the same customer
// or promo code.
func lockSignals(ctx context.Context, tx *postgres.Tx, all ...*signals) error {
	batch := &pgx.Batch{}
	queueCustomerLocks(batch, all)
	withCode := slices.DeleteFunc(slices.Clone(all), func(s *signals) bool { return s.conversion.PromoCode == nil })
	slices.SortFunc(withCode, func(a, b *signals) int {
		return cmp.Or(a.conversion.Compare(b.conversion.Scope), cmp.Compare(*a.conversion.PromoCode, *b.conversion.PromoCode))
	})
	for _, s := range withCode {
		batch.Queue(lockPromoCode, s.conversion.Workspace, s.conversion.Mode, s.conversion.PromoCode)
	}
	for _, s := range all {
		if s.conversion.CustomerRef != nil {
			s.inputs.Customer = queueCustomerReads(batch, s.conversion.Scope, *s.conversion.CustomerRef)
		}
		if s.conversion.PromoCode != nil {
			queuePromoCode(batch, s.conversion, &s.inputs)
		}
	}
	return postgres.Send(ctx, tx, batch)
}

// queuePromoCode queues the statement that reads the promo code of a conversion.
func queuePromoCode(batch *pgx.Batch, c conversion.Conversion, inputs *attribution.Inputs) {
	postgres.QueueFirst(batch, &inputs.FoundPromoCode, findPromoCode, c.Workspace, c.Mode, c.PromoCode)
}

// redeem adds one redemption to a locked promo code. The decision has already checked that the
// code has a redemption left. The WHERE clause checks it again.
const redeem = `
	update promo_codes set redemptions = redemptions + 1
	where workspace_id = $1 and mode = $2 and id = $3 and (max_redemptions is null or redemptions < max_redemptions)`

func queueRedemption(batch *pgx.Batch, scope affiliate.Scope, code affiliate.PromoCodeID) {
	batch.Queue(redeem, scope.Workspace, scope.Mode, code).Exec(postgres.IfNone(fmt.Errorf("promo code %s has no redemption left", code)))
}

// ReadSignals adds the stored promo code, customer and participant to the inputs of a
// decision about a conversion. It also adds a promo code of the other mode, so that the
// caller can refuse the request. It reads the same inputs as lockSignals and readFacts, in
// one snapshot. It uses a read-only transaction, takes no locks and does not wait for
// other transactions. The data may therefore change before a real decision is made.
func ReadSignals(ctx context.Context, db *postgres.DB, c conversion.Conversion, in attribution.Inputs) (attribution.Inputs, error) {
	result := signals{conversion: c, inputs: in}
	err := db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if c.CustomerRef != nil {
			result.inputs.Customer = queueCustomerReads(batch, c.Scope, *c.CustomerRef)
		}
		if c.PromoCode != nil {
			queuePromoCode(batch, c, &result.inputs)
		}
		if err := postgres.Send(ctx, tx, batch); err != nil {
			return err
		}
		return readFacts(ctx, tx, &result)
	})
	return result.inputs, err
}
