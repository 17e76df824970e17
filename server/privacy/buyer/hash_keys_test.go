package buyer_test

import (
	"encoding/hex"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// keyA is the hash key of a new fixture. keyB is the next key.
var keyA, keyB = hashKeys[0], []byte("the next key of the tests")

// rotate continues with other hash keys, as after a restart of the core.
func (f *fixture) rotate(keys ...[]byte) {
	f.Helper()
	var err error
	f.DB, err = postgres.Open(f.Context(), postgres.Config{URL: f.URL, ErasureKeys: privacy.NewErasureKeys(keys)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(f.DB.Close)
	f.useKeys(keys)
}

// hashesUnder returns the hashes of a person under some keys, in hexadecimal digits.
func (f *fixture) hashesUnder(p person, keys ...[]byte) []string {
	under := privacy.BuyerKeys(keys)
	emails, _, _ := under.Email(f.Scope.Workspace, p.email)
	var hashes []string
	for _, hash := range emails {
		hashes = append(hashes, hex.EncodeToString(hash))
	}
	hashes = append(hashes, under.CustomerRefs(f.Scope.Workspace, p.customer)...)
	return append(hashes, under.CustomerRefs(f.Scope.Workspace, p.processorCustomer)...)
}

// The sales of a buyer are stored under the key A and, after the rotation, under the key B.
func TestErase_FindsSalesOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	ada := newPerson("ada")
	for name, who := range map[string]*identity{
		"e-mail": byEmail(ada.email), "customer": byCustomer(ada.customer), "customer of the processor": byProcessor(ada.processorCustomer),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			bob := newPerson("bob")
			f.order(f.pat, bob.test, bob.describe)
			f.buys(ada)
			f.requirePresent(f.hashesUnder(ada, keyA)...)
			f.rotate(keyB, keyA)
			cat := newPerson("cat")
			f.order(f.livePa, cat.live, cat.describe)
			f.requirePresent(f.hashesUnder(cat, keyB)[:2]...)
			f.order(f.pat, "order-ada-next", ada.describe)
			f.requirePresent(f.hashesUnder(ada, keyB)[0])
			f.erase("k1", who)
			f.requireAbsent(append(ada.values(), "order-ada-next")...)
			f.requireAbsent(f.hashesUnder(ada, keyB, keyA)...)
			f.requirePresent(append(f.hashesUnder(bob, keyA)[:2], bob.test, cat.live)...)
		})
	}
}

// Without the key A, only the sales under the key B are found.
func TestErase_FindsNoSalesOfRemovedHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	f.rotate(keyB)
	f.order(f.livePa, ada.live, ada.describe)
	f.erase("k1", byEmail(ada.email))
	f.requireAbsent(ada.live)
	f.requirePresent(ada.test)
}

// The digests of erased values are searched under all keys. The ids that a payment processor
// reports later are replaced under the key of the erasure.
func TestErase_KnowsErasedSalesOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := newPerson("ada"), newPerson("bob")
	f.buys(ada)
	f.buys(bob)
	f.erase("k1", byCustomer(ada.customer))
	charges := f.Count(`select count(*) from processor_charges`)
	f.rotate(keyB, keyA)
	f.requireStillKnown(ada)
	sale := ada.sale(f, ada.charged, "1")
	sale.Aliases = append(sale.Aliases, "in_adalater")
	if recorded, err := f.conversions.RecordSale(f.Context(), f.Scope, sale, false); err != nil || !recorded.Erased {
		t.Errorf("the sale with another id: %+v, %v", recorded, err)
	}
	later := privacy.NewErasureKeys(affiliate.HashKeys{keyA}).First().ProcessorID(f.Scope, "in_adalater")
	f.WantCount(1, "aliases under the key of the erasure", `select count(*) from conversion_aliases where id = $1`, later)
	f.WantCount(charges, "charges", `select count(*) from processor_charges`)

	f.erase("k2", byCustomer(bob.customer))
	f.rotate(keyB)
	if _, err := f.report(f.pat, bob.test, ""); pgtest.ReasonOf(t, err) != affiliate.ReasonConversionDuplicate {
		t.Errorf("a sale that was erased under the key B: %v, want CONVERSION_DUPLICATE", err)
	}
	if _, err := f.report(f.pat, ada.test, ""); err != nil {
		t.Errorf("a sale that was erased under the removed key A: %v, want a new conversion", err)
	}
}

// A charge that is stored while its sale is being erased is erased under the key of the sale.
func TestErase_ErasesALateChargeUnderTheKeyOfItsSale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.apply("", ada.sale(f, ada.charged, "1"))
	f.erase("k1", byTransaction(ada.charged))
	// Without the key A, the charge looks like one of an unknown sale.
	f.rotate(keyB)
	if f.putCharge(ada.charge("1", 500)) != nil {
		t.Fatal("the charge has found the erased sale without its key")
	}
	f.requirePresent("ch_ada1")
	f.rotate(keyB, keyA)
	if f.applyCharge("ch_ada1") == nil {
		t.Fatal("the charge has not found its sale")
	}
	f.requireAbsent("ch_ada1", "cs_ada1")
	erased := privacy.NewErasureKeys(affiliate.HashKeys{keyA}).First().ProcessorID(f.Scope, "ch_ada1")
	f.WantCount(1, "charges under the key of the sale", `select count(*) from processor_charges where id = $1`, erased)
}

func TestEraseBuyer_JoinsErasuresOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	who := byEmail(ada.email)
	first := f.mustRequest("k1", who)
	f.rotate(keyB, keyA)
	f.order(f.pat, ada.test, ada.describe) // only the request that joins knows its digest
	for _, key := range []string{"k1", "k2"} {
		if got := f.mustRequest(key, who); got != first {
			t.Errorf("key %s got the operation %s, want %s", key, got, first)
		}
	}
	if _, err := f.request("k1", byEmail("bob@shop.example")); pgtest.ReasonOf(t, err) != affiliate.ReasonIdempotencyKeyReused {
		t.Errorf("the key of another buyer: %v, want IDEMPOTENCY_KEY_REUSED", err)
	}
	f.rotate(keyB)
	if got := f.mustRequest("k3", who); got != first {
		t.Error("the erasure was not joined by the digest of the key B, which a request has added")
	}
	if got := f.mustRequest("k2", who); got != first {
		t.Error("the Idempotency-Key of the key B is unknown")
	}
	if _, err := f.request("k1", who); pgtest.ReasonOf(t, err) != affiliate.ReasonIdempotencyKeyReused {
		t.Errorf("an Idempotency-Key of the removed key A: %v, want IDEMPOTENCY_KEY_REUSED", err)
	}
	f.work(first)
	if got := f.status(first); got != done {
		t.Errorf("status %s, want done", got)
	}
	f.requireAbsent(ada.values()...)
}

// The lists of a failed erasure are found by its fingerprint under the key A.
func TestErase_TakesOverFailedErasuresOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	first := f.mustRequest("k1", byEmail(ada.email))
	f.Exec(`insert into buyer_erasure_customers (workspace_id, operation_id, ref) values ($1, $2, 'listed')`, f.Scope.Workspace, first)
	f.Exec(`update buyer_erasures set status = 'failed', identity = null, finished_at = $2 where id = $1`, first, f.clock.Now())
	f.rotate(keyB, keyA)
	second := f.mustRequest("k2", byEmail(ada.email))
	f.WantCount(1, "customers in the list of the new erasure", `select count(*) from buyer_erasure_customers where operation_id = $1 and ref = 'listed'`, second)
}

// While an erasure waits for an event, the key B moves to the beginning of the list. The sale of the
// event is stored under the key B.
func TestErase_CoversSalesUnderTheNextHashKey(t *testing.T) {
	t.Parallel()
	ada := newPerson("ada")
	for name, who := range map[string]*identity{"e-mail": byEmail(ada.email), "customer of the processor": byProcessor(ada.processorCustomer)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.rotate(keyA, keyB)
			f.putEvent("evt_new", processor.EventReceived, `{"customer":"`+ada.processorCustomer+`","email":"`+ada.email+`"}`)
			operation := f.mustRequest("k1", who)
			f.waitForEvents(operation)
			f.rotate(keyB, keyA)
			f.apply("evt_new", ada.sale(f, ada.charged, "1"))
			f.requirePresent(f.hashesUnder(ada, keyB)[0])
			f.work(operation)
			f.requireAbsent(ada.values()...)
			f.requireAbsent(f.hashesUnder(ada, keyB, keyA)...)
		})
	}
}

// A backup has hashes under both keys. The erasure log has an entry for each of them.
func TestReplay_FindsSalesOfAllHashKeys(t *testing.T) {
	t.Parallel()
	ada := newPerson("ada")
	for name, who := range map[string]*identity{
		"e-mail": byEmail(ada.email), "customer": byCustomer(ada.customer), "transaction": byTransaction(ada.charged),
		"customer of the processor": byProcessor(ada.processorCustomer),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.rotate(keyB, keyA)
			f.erase("k1", who) // the buyer is not known yet: only the log has the erasure
			if len(f.log.entries) != 2 {
				t.Fatalf("%d entries in the log, want 2", len(f.log.entries))
			}
			f.rotate(keyA)
			f.buys(ada)
			f.rotate(keyB, keyA)
			f.order(f.pat, "order-ada-next", ada.describe)
			for _, entry := range f.log.entries {
				f.replay(entry)
			}
			for _, operation := range f.Texts(`select id::text from buyer_erasures where status = 'processing'`) {
				f.work(operation)
			}
			f.requireAbsent(append(ada.values(), "order-ada-next")...)
			f.requireAbsent(f.hashesUnder(ada, keyB, keyA)...)
		})
	}
}
