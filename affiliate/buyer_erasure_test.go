package affiliate_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
)

// Events with the external id of a conversion are found by the conversion, and lose the id
// and the evidence of fraud rules. All other bytes stay.
func TestRedactBuyer_ReplacesOnlyTextsOfTheBuyer(t *testing.T) {
	texts := strings.NewReplacer(
		`"order-1042"`, `"`+pseudonym+`"`,
		`"The conversion happened less than 5 seconds after the click."`, `"`+pseudonym+`"`,
		`"The customer has converted for another partner of the programme before."`, `"`+pseudonym+`"`,
	)
	for name, event := range examples(t) {
		body := encodedBody(t, event)
		got, err := affiliate.RedactBuyer(body, pseudonym)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := texts.Replace(string(body)); string(got) != want {
			t.Errorf("redacted body of %s:\n%s\nwant\n%s", name, got, want)
		}
		if hasSale := event.Sale() != nil; hasSale == bytes.Equal(got, body) {
			t.Errorf("%s has a sale: %t, but the redacted body is\n%s", name, hasSale, got)
		}
		if err := validationError(t, name, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if event.Sale() != nil && event.Subject() != nil {
			t.Errorf("%s has a sale and a subject", name)
		}
	}
	for _, body := range []string{"", "{", `{"data":`, "x"} {
		if got, err := affiliate.RedactBuyer([]byte(body), pseudonym); err == nil {
			t.Errorf("RedactBuyer of %q returned %s, want an error", body, got)
		}
	}
}

func TestIdentity_IsTheHashOfConversions(t *testing.T) {
	key, workspace := affiliate.BuyerKeys{[]byte("key")}, exampleScope.Workspace
	identity := func(kind affiliate.BuyerIdentityKind, value string) affiliate.BuyerIdentity {
		t.Helper()
		i, ok := key.Identity(workspace, kind, value)
		if !ok {
			t.Fatalf("no identity of %s %q", kind, value)
		}
		return i
	}
	hash, _, _ := key.Email(workspace, "ada@shop.example")
	if got := identity(affiliate.BuyerEmail, "ADA+news@shop.example"); !slices.EqualFunc(got.Digests, hash, bytes.Equal) {
		t.Error("the identity of an address is not the hash that conversions store")
	}
	for _, kind := range []affiliate.BuyerIdentityKind{affiliate.BuyerCustomerID, affiliate.BuyerProcessorCustomer} {
		if refs := identity(kind, "cus_1").CustomerRefs(); len(refs) != 1 || !slices.Equal(refs, key.CustomerRefs(workspace, "cus_1")) {
			t.Errorf("%s: references %q", kind, refs)
		}
	}
	transaction := identity(affiliate.BuyerTransactionID, "order-1")
	if refs := transaction.CustomerRefs(); refs != nil {
		t.Errorf("a transaction has the customer references %q", refs)
	}
	if !transaction.Is(key, workspace, affiliate.BuyerTransactionID, "order-1") || transaction.Is(key, workspace, affiliate.BuyerTransactionID, "order-2") ||
		transaction.Is(key, workspace, affiliate.BuyerCustomerID, "order-1") || transaction.Is(key, exampleID[affiliate.WorkspaceID](77), affiliate.BuyerTransactionID, "order-1") {
		t.Error("Is compares kind, value and workspace wrongly")
	}
	for _, wrong := range []struct {
		kind  affiliate.BuyerIdentityKind
		value string
	}{{affiliate.BuyerEmail, "ada"}, {affiliate.BuyerEmail, ""}, {affiliate.BuyerCustomerID, ""}, {affiliate.BuyerTransactionID, ""}, {"other", "x"}} {
		if _, ok := key.Identity(workspace, wrong.kind, wrong.value); ok {
			t.Errorf("%s %q is an identity", wrong.kind, wrong.value)
		}
	}
}

func TestJoin_RefusesWhileAWorkerRecovers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lease affiliate.BuyerErasureWork
		want  affiliate.Reason
	}{
		{"no worker", affiliate.BuyerErasureWork{}, ""},
		{"a first worker", affiliate.BuyerErasureWork{Until: noon.Add(time.Minute)}, ""},
		{"a worker recovers", affiliate.BuyerErasureWork{Until: noon.Add(time.Millisecond), Recovering: true}, affiliate.ReasonActiveOperationConflict},
		{"the lease of the recovering worker has expired", affiliate.BuyerErasureWork{Until: noon, Recovering: true}, ""},
	} {
		_, err := affiliate.BuyerErasure{Lease: tc.lease}.Join(affiliate.BuyerIdentity{}, noon)
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
		key := affiliate.ErasureKey(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		ids := rapid.SliceOfDistinct(rapid.StringMatching(`(cs|pi|in|ch)_[A-Za-z0-9]{1,30}`), rapid.ID[string]).Draw(t, "ids")
		sale := affiliate.BuyerSale{
			Conversion: affiliate.NewID[affiliate.ConversionID](noon), Scope: exampleScope, ExternalTransactionID: "order-1", ProcessorIDs: ids,
			Refunds: []affiliate.SaleRefund{{ID: affiliate.NewID[affiliate.RefundID](noon), ExternalID: "r1"}, {ID: affiliate.NewID[affiliate.RefundID](noon), ExternalID: "r2"}},
		}
		erased, err := key.Erase(sale, pseudonym)
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]bool{}
		for _, id := range ids {
			text := erased.ProcessorIDs[id]
			if texts[text] || !affiliate.IsErasedProcessorID(text) || text != key.ProcessorID(exampleScope, id) || strings.Contains(text, id) {
				t.Fatalf("%s is replaced by %q", id, text)
			}
			if text == key.ProcessorID(affiliate.Scope{Workspace: exampleScope.Workspace, Mode: affiliate.ModeTest}, id) {
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
