package conversion_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// keyA is the hash key of a new fixture. keyB is the next key.
var keyA, keyB = []byte(hashKey), []byte("the next key of the tests")

// rotate continues with other hash keys, as after a restart of the core.
func (f *fixture) rotate(keys ...[]byte) {
	f.config.HashKeys = keys
	f.restart()
}

func TestCustomer_StaysKnownAfterRotationOfTheHashKey(t *testing.T) {
	f := newFixture(t)
	renewal := func(customer, external string) *reportRequest {
		r := purchaseWithCode(external, "unknown")
		r.CustomerId = &customer
		return r
	}
	f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID))
	f.record(f.sale("1", func(s *processor.Sale) { s.IDs.Customer, s.Click = "cus_ann", f.NewClick(f.pat).ID.String() }))

	f.rotate(keyB, keyA)
	f.wantReason(f.mustReport(renewal("ann", "order-2")), "CUSTOMER_BOUND")
	f.record(f.sale("2", func(s *processor.Sale) { s.IDs.Customer = "cus_ann" }))
	f.wantRows(2, `customers`)
	f.wantRows(2, `customer_payments where payments = 2`)
	f.mustReport(purchaseBy("ben", "order-3", f.NewClick(f.pat).ID))
	ben := privacy.BuyerKeys{keyB}.CustomerRefs(f.Scope.Workspace, "ben")[0]
	f.wantRows(1, `customers where ref = $1`, ben)
	ann := privacy.BuyerKeys{keyA}.CustomerRefs(f.Scope.Workspace, "ann")[0]
	f.wantRows(2, `conversions where customer_ref = $1`, ann)

	// A dry run of a report finds the customer too.
	simulated, _, err := f.service.Prepare(f.asKey(), f.Scope, renewal("ann", "order-4"))
	if err != nil || *simulated.CustomerRef != ann {
		t.Errorf("a dry run uses the reference %v, %v, want that of the key A", simulated.CustomerRef, err)
	}

	f.rotate(keyB)
	f.wantReason(f.mustReport(renewal("ben", "order-5")), "CUSTOMER_BOUND")
	if r := f.reportUnattributed(renewal("ann", "order-6")); r.GetAttribution().GetReasonCode() == "CUSTOMER_BOUND" {
		t.Error("the customer of the removed key A is bound")
	}
}

// If a customer has a reference under each key, the older one is used.
func TestCustomer_UsesTheOlderOfTwoReferences(t *testing.T) {
	f := newFixture(t)
	f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID))
	f.rotate(keyB)
	f.clock.Advance(time.Minute)
	f.mustReport(purchaseBy("ann", "order-2", f.NewClick(f.pat).ID))
	f.wantRows(2, `customers`)
	f.rotate(keyB, keyA)
	f.mustReport(purchaseBy("ann", "order-3", f.NewClick(f.pat).ID))
	ann := privacy.BuyerKeys{keyA}.CustomerRefs(f.Scope.Workspace, "ann")[0]
	f.wantRows(2, `conversions where customer_ref = $1`, ann)
}

func TestFraud_ComparesHashesOfEarlierKeys(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Observe))
	f.mustReport(withBuyer(purchase("order-1", f.olderClick(f.pat).ID), "ann@elsewhere.example", "", ""))
	f.useAccount(partnerNetwork, browser, 2*day)
	other := f.Join("Olga")
	order := func(external string, p pgtest.Participant, email, address, agent string, want ...string) {
		t.Helper()
		f.wantSignals(f.mustReport(withBuyer(purchase(external, f.olderClick(p).ID), email, address, agent)), want...)
	}

	f.rotate(keyB, keyA)
	order("order-2", other, "Ann+2@elsewhere.example", "", "", "duplicate_customer")
	order("order-3", f.pat, "", buyerAddress, browser, "same_device_as_partner")
	order("order-4", f.pat, "bob@elsewhere.example", "", "")
	f.wantRows(1, `conversions where external_transaction_id = 'order-3' and customer_ua_hash = $1`, fraud.AgentHash(affiliate.HashKeys{keyB}, browser, f.clock.Now()).First())

	f.rotate(keyB)
	order("order-5", f.pat, "", buyerAddress, browser)
	order("order-6", other, "bob@elsewhere.example", "", "", "duplicate_customer")
	third := f.Join("Pia")
	// The address of order-1 was stored again with order-2, under the key B.
	order("order-7", third, "ann@elsewhere.example", "", "", "duplicate_customer")
}

// The address in a stored conversion is compared with that of the partner under all keys.
func TestFraud_ComparesStoredAddressOfAnEarlierKey(t *testing.T) {
	for name, tc := range map[string]struct {
		keys [][]byte
		want []string
	}{
		"with the key A":    {[][]byte{keyB, keyA}, []string{"self_referral_email", "self_referral_domain"}},
		"without the key A": {[][]byte{keyB}, []string{"self_referral_domain"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, withPolicy(fraud.Observe))
			click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
			f.reportUnattributed(withBuyer(purchase("order-1", click.ID), partnerEmail, "", ""))
			f.rotate(tc.keys...)
			f.attribute(f.storeLate(click))
			got := f.Texts(`select s ->> 'rule' from conversions, jsonb_array_elements(fraud_signals) s`)
			if len(got) != len(tc.want) || got[0] != tc.want[0] {
				t.Errorf("the fraud signals are %q, want %q", got, tc.want)
			}
		})
	}
}

// A purchase with an address that the partner's account had before is a self-referral, as
// long as the key of the stored digest is in the list.
func TestFraud_ComparesBuyerWithFormerAddressOfThePartner(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Observe))
	f.Insert("former_emails", pgtest.Row{
		"user_id": f.pat.Partner, "created_at": f.Now(), "digest": fraud.FormerEmailDigests(affiliate.HashKeys{keyA}, "Old.Pat+x@gmail.com").First(),
	})
	other := f.Join("Olga")
	order := func(external string, p pgtest.Participant, email string, want ...string) {
		t.Helper()
		f.wantSignals(f.mustReport(withBuyer(purchase(external, f.olderClick(p).ID), email, "", "")), want...)
	}
	order("order-1", f.pat, "oldpat@googlemail.com", "self_referral_email")
	order("order-2", f.pat, "otherpat@gmail.com")
	order("order-3", other, "oldpat+me@gmail.com", "duplicate_customer")
	f.rotate(keyB, keyA)
	order("order-4", f.pat, "OldPat@gmail.com", "self_referral_email", "duplicate_customer")
	f.rotate(keyB)
	order("order-5", f.pat, "oldpat@gmail.com")
}

func TestIdempotencyKey_IsKnownAfterRotationOfTheHashKey(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	first := f.recordWithKey("k-1", purchase("order-1", click.ID))
	batch, _, err := f.reportBatchWithKey("k-2", purchase("order-2", click.ID), purchase("order-3", click.ID))
	if err != nil {
		t.Fatal(err)
	}

	f.rotate(keyB, keyA)
	f.wantReplay("k-1", purchase("order-1", click.ID), first)
	again, replayed, err := f.reportBatchWithKey("k-2", purchase("order-2", click.ID), purchase("order-3", click.ID))
	if err != nil || !replayed || !proto.Equal(again, batch) {
		t.Errorf("the repeated batch returns %v, %v, replayed %t, want %v", again, err, replayed, batch)
	}
	_, _, err = f.reportWithKey("k-1", purchase("order-4", click.ID))
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	f.recordWithKey("k-5", purchase("order-5", click.ID))

	f.rotate(keyB)
	if _, replayed, err := f.reportWithKey("k-5", purchase("order-5", click.ID)); err != nil || !replayed {
		t.Errorf("a key of the hash key B returns %v, replayed %t", err, replayed)
	}
	_, _, err = f.reportWithKey("k-1", purchase("order-1", click.ID))
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
}

// A batch of which no item is recorded releases its key, also if it was claimed under an earlier
// hash key.
func TestBatch_ReleasesAKeyOfAnEarlierHashKey(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.mustReport(purchase("order-1", click.ID))
	f.failRecording()
	_, _, err := f.reportBatchWithKey("k-1", purchase("order-1", click.ID))
	wantInternalError(t, "the batch", err)
	f.repair()
	f.wantRows(1, `idempotency_keys`)
	f.rotate(keyB, keyA)
	if _, _, err := f.reportBatchWithKey("k-1", purchase("order-1", click.ID)); err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
		t.Errorf("the repeated batch returned %v, want %s", err, affiliate.ReasonBulkAllFailed)
	}
	f.wantRows(0, `idempotency_keys`)
}
