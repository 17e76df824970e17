package customer_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/customer"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// A customer who was first stored under an earlier hash key is found. If reports made two
// references at the moment of the rotation, both get the label.
func TestUpdateCustomer_FindsReferencesOfAllHashKeys(t *testing.T) {
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive)
	older, newer := []byte("the older key of the tests"), []byte("the newer key of the tests")
	service := customer.New(shop.DB, affiliate.HashKeys{newer, older})
	refs := privacy.BuyerKeys{newer, older}.CustomerRefs(shop.Scope.Workspace, "ann")
	update := func() (*affiliatev1.Customer, error) {
		return service.UpdateCustomer(servertest.AsSecretKey(t, shop.Scope), &affiliatev1.UpdateCustomerRequest{
			CustomerId: "ann", Label: new("Ann"), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"label"}},
		})
	}
	if _, err := update(); !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		t.Fatalf("an unknown customer: %v, want NOT_FOUND", err)
	}
	for i, ref := range []string{refs[1], refs[0]} {
		shop.Exec(`insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, $3, $4)`,
			shop.Scope.Workspace, shop.Scope.Mode, ref, clock.Now().Add(time.Duration(i)*time.Second))
		got, err := update()
		if err != nil {
			t.Fatal(err)
		}
		servertest.WantFields(t, "customer", got, &affiliatev1.Customer{CustomerId: "ann", CustomerRef: "Ann", Label: new("Ann")})
		if !got.GetCreatedAt().AsTime().Equal(clock.Now()) {
			t.Errorf("created_at is %v, want that of the older reference, %v", got.GetCreatedAt().AsTime(), clock.Now())
		}
	}
	if n := shop.Count(`select count(*) from customers where label = 'Ann'`); n != 2 {
		t.Errorf("%d references have the label, want 2", n)
	}
}
