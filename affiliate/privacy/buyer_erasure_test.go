package privacy_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/eventtest"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// Events with the external id of a conversion are found by the conversion, and lose the id
// and the evidence of fraud rules. All other bytes stay.
func TestRedactBuyer_ReplacesOnlyTextsOfTheBuyer(t *testing.T) {
	texts := strings.NewReplacer(
		`"order-1042"`, `"`+pseudonym+`"`,
		`"The conversion happened less than 5 seconds after the click."`, `"`+pseudonym+`"`,
		`"The customer has converted for another partner of the programme before."`, `"`+pseudonym+`"`,
	)
	for name, event := range eventtest.Examples(t) {
		body := eventtest.EncodedBody(t, event)
		got, err := privacy.RedactBuyer(body, pseudonym)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := texts.Replace(string(body)); string(got) != want {
			t.Errorf("redacted body of %s:\n%s\nwant\n%s", name, got, want)
		}
		if hasSale := event.Sale() != nil; hasSale == bytes.Equal(got, body) {
			t.Errorf("%s has a sale: %t, but the redacted body is\n%s", name, hasSale, got)
		}
		if err := eventtest.ValidationError(t, name, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if event.Sale() != nil && event.Subject() != nil {
			t.Errorf("%s has a sale and a subject", name)
		}
	}
	for _, body := range []string{"", "{", `{"data":`, "x"} {
		if got, err := privacy.RedactBuyer([]byte(body), pseudonym); err == nil {
			t.Errorf("RedactBuyer of %q returned %s, want an error", body, got)
		}
	}
}

func TestIdentity_IsTheHashOfConversions(t *testing.T) {
	key, workspace := privacy.BuyerKeys{[]byte("key")}, affiliatetest.Scope.Workspace
	identity := func(kind privacy.BuyerIdentityKind, value string) privacy.BuyerIdentity {
		t.Helper()
		i, ok := key.Identity(workspace, kind, value)
		if !ok {
			t.Fatalf("no identity of %s %q", kind, value)
		}
		return i
	}
	hash, _, _ := key.Email(workspace, "ada@shop.example")
	if got := identity(privacy.BuyerEmail, "ADA+news@shop.example"); !slices.EqualFunc(got.Digests, hash, bytes.Equal) {
		t.Error("the identity of an address is not the hash that conversions store")
	}
	for _, kind := range []privacy.BuyerIdentityKind{privacy.BuyerCustomerID, privacy.BuyerProcessorCustomer} {
		if refs := identity(kind, "cus_1").CustomerRefs(); len(refs) != 1 || !slices.Equal(refs, key.CustomerRefs(workspace, "cus_1")) {
			t.Errorf("%s: references %q", kind, refs)
		}
	}
	transaction := identity(privacy.BuyerTransactionID, "order-1")
	if refs := transaction.CustomerRefs(); refs != nil {
		t.Errorf("a transaction has the customer references %q", refs)
	}
	if !transaction.Is(key, workspace, privacy.BuyerTransactionID, "order-1") || transaction.Is(key, workspace, privacy.BuyerTransactionID, "order-2") ||
		transaction.Is(key, workspace, privacy.BuyerCustomerID, "order-1") || transaction.Is(key, affiliatetest.ID[affiliate.WorkspaceID](77), privacy.BuyerTransactionID, "order-1") {
		t.Error("Is compares kind, value and workspace wrongly")
	}
	for _, wrong := range []struct {
		kind  privacy.BuyerIdentityKind
		value string
	}{{privacy.BuyerEmail, "ada"}, {privacy.BuyerEmail, ""}, {privacy.BuyerCustomerID, ""}, {privacy.BuyerTransactionID, ""}, {"other", "x"}} {
		if _, ok := key.Identity(workspace, wrong.kind, wrong.value); ok {
			t.Errorf("%s %q is an identity", wrong.kind, wrong.value)
		}
	}
}

func TestJoin_RefusesWhileAWorkerRecovers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lease privacy.BuyerErasureWork
		want  affiliate.Reason
	}{
		{"no worker", privacy.BuyerErasureWork{}, ""},
		{"a first worker", privacy.BuyerErasureWork{Until: affiliatetest.Noon.Add(time.Minute)}, ""},
		{"a worker recovers", privacy.BuyerErasureWork{Until: affiliatetest.Noon.Add(time.Millisecond), Recovering: true}, affiliate.ReasonActiveOperationConflict},
		{"the lease of the recovering worker has expired", privacy.BuyerErasureWork{Until: affiliatetest.Noon, Recovering: true}, ""},
	} {
		_, err := privacy.BuyerErasure{Lease: tc.lease}.Join(privacy.BuyerIdentity{}, affiliatetest.Noon)
		if tc.want == "" && err != nil || tc.want != "" && reasonOf(err) != tc.want {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func reasonOf(err error) affiliate.Reason {
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return ""
}

// The same id always has the same replacement, different ids and scopes have different ones,
// and an erased id is not replaced again.
func TestErase_ReplacesEachIDOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := privacy.ErasureKey(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		ids := rapid.SliceOfDistinct(rapid.StringMatching(`(cs|pi|in|ch)_[A-Za-z0-9]{1,30}`), rapid.ID[string]).Draw(t, "ids")
		sale := privacy.BuyerSale{
			Conversion: affiliate.NewID[affiliate.ConversionID](affiliatetest.Noon), Scope: affiliatetest.Scope, ExternalTransactionID: "order-1", ProcessorIDs: ids,
			Refunds: []privacy.SaleRefund{{ID: affiliate.NewID[conversion.RefundID](affiliatetest.Noon), ExternalID: "r1"}, {ID: affiliate.NewID[conversion.RefundID](affiliatetest.Noon), ExternalID: "r2"}},
		}
		erased, err := key.Erase(sale, pseudonym)
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]bool{}
		for _, id := range ids {
			text := erased.ProcessorIDs[id]
			if texts[text] || !privacy.IsErasedProcessorID(text) || text != key.ProcessorID(affiliatetest.Scope, id) || strings.Contains(text, id) {
				t.Fatalf("%s is replaced by %q", id, text)
			}
			if text == key.ProcessorID(affiliate.Scope{Workspace: affiliatetest.Scope.Workspace, Mode: affiliate.ModeTest}, id) {
				t.Fatalf("%s has the same replacement in both modes", id)
			}
			texts[text] = true
		}
		if erased.Refunds[0].ExternalID == erased.Refunds[1].ExternalID || len(erased.Values) != 3 {
			t.Fatalf("refunds %v, %d digests", erased.Refunds, len(erased.Values))
		}
		for text := range texts {
			sale.ProcessorIDs = append(sale.ProcessorIDs, text)
		}
		again, err := key.Erase(sale, pseudonym)
		if err != nil || len(again.ProcessorIDs) != len(ids) {
			t.Fatalf("erased ids were replaced again: %v, %v", again.ProcessorIDs, err)
		}
	})
}
