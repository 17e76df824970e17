package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/privacy/inventory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const buyerErasurePath = "/api/v1/merchant/gdpr/buyer-erasure"

// requestErasure requests the erasure of a buyer with a new Idempotency-Key.
func (f fixture) requestErasure(t testing.TB, buyer object) response {
	t.Helper()
	return f.merchant.withHeader("Idempotency-Key", uniqueName("erasure")).post(t, buyerErasurePath, object{"confirmation": "DELETE", "buyer": buyer})
}

// eraseBuyer requests the erasure of a buyer and waits for its end. It returns the id of the
// operation.
func (f fixture) eraseBuyer(t *testing.T, buyer object) string {
	t.Helper()
	requested := f.requestErasure(t, buyer).wantStatus(http.StatusAccepted).wantFields(object{"state": "processing"})
	operation := requested.text("operationId")
	eventually(t, waitTimeout, "the erasure is done", func() error {
		got := f.merchant.get(t, buyerErasurePath+"/"+operation).wantStatus(http.StatusOK)
		if status := got.text("status"); status != "done" {
			return errors.New(status)
		}
		if want := fmt.Sprintf(`{"operationId":%q,"status":"done"}`, operation); strings.TrimSpace(got.body) != want {
			t.Errorf("the status is %s, want %s", got.body, want)
		}
		return nil
	})
	return operation
}

// testBuyerErasure erases the buyer of a sale and checks that the sale is still known.
func testBuyerErasure(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	customer, external := uniqueName("customer"), uniqueName("order")
	sale := f.reportSale(t, f.click(t), object{"external_transaction_id": external, "customer_id": customer, "amount_cents": 10_000, "metadata": object{"note": "for " + customer}})
	f.refund(t, external, object{"external_refund_id": external + "-r1", "amount_cents": 1_000}).wantStatus(http.StatusCreated)
	conversionPath := "/api/v1/conversions/" + sale.text("id")
	before := f.merchant.get(t, conversionPath).wantStatus(http.StatusOK)
	commission := f.merchant.get(t, f.commissionPath(sale.text("commission.id"))).wantStatus(http.StatusOK)

	f.eraseBuyer(t, object{"customerId": customer})

	after := f.merchant.get(t, conversionPath).wantStatus(http.StatusOK)
	for _, field := range []string{"amount_cents", "refunded_amount_cents", "status", "attributed", "commission.amount_cents"} {
		if before.value(field) != after.value(field) {
			t.Errorf("%s was %v and is %v", field, before.value(field), after.value(field))
		}
	}
	after.wantFields(object{"metadata": nil, "customer_ref": nil})
	pseudonym := after.text("external_transaction_id")
	if !strings.HasPrefix(pseudonym, "erased-") || len(pseudonym) != len("erased-")+8 {
		t.Errorf("external_transaction_id is %q", pseudonym)
	}
	f.merchant.get(t, f.commissionPath(sale.text("commission.id"))).wantFields(object{"amountCents": commission.number("amountCents"), "externalTransactionId": pseudonym})
	body := purchase(f.click(t))
	body["external_transaction_id"] = external
	f.report(t, body).wantError(http.StatusConflict, "CONVERSION_DUPLICATE").wantNoContext()
	f.refund(t, external, object{"external_refund_id": external + "-r1"}).wantError(http.StatusConflict, "REFUND_DUPLICATE")
	f.refund(t, external, object{"external_refund_id": external + "-r2", "amount_cents": 9_000}).wantStatus(http.StatusCreated).wantFields(object{
		"status": "applied", "external_transaction_id": external, "refunded_amount_cents": 10_000, "commission.status": "refunded", "commission.amount_cents": 0,
	})
	f.merchant.get(t, "/api/v1/notifications?category=gdpr").wantFields(object{"data.0.type": "gdpr.buyer_erasure_completed", "data.0.title": "Erasure of a buyer"})
}

// testBuyerErasureRequests checks the order of the checks, the Idempotency-Key, and gRPC.
func testBuyerErasureRequests(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	owner := f.merchant
	email := uniqueName("ada") + "@example.com"
	confirmed := func(buyer object) object { return object{"confirmation": "DELETE", "buyer": buyer} }
	post := func(key string, body any) response {
		return owner.withHeader("Idempotency-Key", key).post(t, buyerErasurePath, body)
	}
	// The header comes before the confirmation, and the confirmation before the buyer.
	owner.post(t, buyerErasurePath, object{}).wantOutcome(noKey)
	post("a b", confirmed(object{"email": email})).wantOutcome(noKey)
	unconfirmed := outcome{http.StatusBadRequest, "CONFIRMATION_INVALID"}
	for _, body := range []object{
		{},
		{"buyer": object{}},
		{"confirmation": "delete", "buyer": object{}},
		{"confirmation": true},
		{"confirmation": nil},
		{"confirmation": "DELETE "},
		{"confirmation": "DELETE", "confirm": "no", "buyer": object{"email": email}},
	} {
		post("k", body).wantOutcome(unconfirmed)
	}
	post("k", confirmed(object{})).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "buyer")
	post("k", confirmed(object{"email": email, "customerId": "x"})).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "buyer")
	post("k", confirmed(object{"email": "ada"})).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "buyer.email")
	post("k", object{"confirm": "DELETE", "confirmationPhrase": "DELETE"}).wantOutcome(invalid)

	key := uniqueName("key")
	first := post(key, object{"confirmationPhrase": "DELETE", "buyer": object{"email": email}}).wantStatus(http.StatusAccepted)
	again := owner.inMode("live").withHeader("Idempotency-Key", key).post(t, buyerErasurePath, object{"confirm": "DELETE", "buyer": object{"email": strings.ToUpper(email)}})
	again.wantStatus(http.StatusAccepted).wantFields(object{"operationId": first.text("operationId"), "state": "processing"})
	post(key, confirmed(object{"customerId": email})).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")

	list := owner.get(t, buyerErasurePath).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.operationId": first.text("operationId")})
	if strings.Contains(strings.ToLower(list.body), email) {
		t.Errorf("the list names the buyer: %s", list.body)
	}
	other := sys.newMerchant(t)
	other.get(t, buyerErasurePath).wantStatus(http.StatusOK).wantFields(object{"total": 0})
	other.get(t, buyerErasurePath+"/"+first.text("operationId")).wantOutcome(noOperation)
	owner.get(t, buyerErasurePath+"/x").wantOutcome(noOperation)

	erasures := affiliatev1.NewBuyerErasureServiceClient(sys.dial(t))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+owner.access)
	request := &affiliatev1.EraseBuyerRequest{Confirmation: new("DELETE"), Buyer: &affiliatev1.BuyerIdentity{Email: &email}}
	if _, err := erasures.EraseBuyer(ctx, request); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a key: %v", err)
	}
	joined, err := erasures.EraseBuyer(metadata.AppendToOutgoingContext(ctx, "idempotency-key", key), request)
	if err != nil || joined.GetOperationId() != first.text("operationId") {
		t.Errorf("over gRPC: %v, %v", joined, err)
	}
}

// The test also reaches the limit of erasures in an hour, and lets a worker recover an erasure.
func TestBuyerErasure_LeavesNoTraces(t *testing.T) {
	t.Parallel()
	address, folder := redistest.New(t), t.TempDir()
	sys := start(t, setup{redis: address, env: map[string]string{
		"TRIBUTARY_LIMIT_BUYER_ERASURE": "3", "TRIBUTARY_ERASURE_LOG": filepath.Join(folder, "erasures"), "TRIBUTARY_JOURNAL_DIR": filepath.Join(folder, "journal"),
	}})
	f := sys.newFixture(t, "test", nil)
	sale := f.reportSale(t, f.click(t), object{
		"external_transaction_id": "order-of-ada", "customer_id": "customer-ada", "customer_email": "ada@ada-mail.example", "subscription_id": "subscription-ada",
		"customer_ip": "198.51.100.77", "customer_user_agent": "agent-of-ada", "metadata": object{"name": "name-of-ada"}, "sub_id": "sub-id-ada",
		"product_ids": []string{"product-of-ada"}, "line_items": []object{{"product_id": "item-of-ada", "quantity": 1, "amount_cents": 1}},
	})
	values := map[string]string{
		"transaction": "order-of-ada", "customer": "customer-ada", "address": "ada-mail.example", "subscription": "subscription-ada", "ip": "198.51.100.77",
		"user agent": "agent-of-ada", "metadata": "name-of-ada", "label": "sub-id-ada", "product": "product-of-ada", "item": "item-of-ada",
	}
	if found := traces(sys.dump(t), values); len(found) < 6 {
		t.Fatalf("before the erasure, the database has only %q", found)
	}
	f.eraseBuyer(t, object{"email": "ada@ada-mail.example"})
	sys.wantNoTraces(t, address, folder, values)
	sys.wantInventory(t, inventory.BuyerErasure, []string{"conversion_id"}, map[string]string{"conversion_id": sale.text("id")})
	f.requestErasure(t, object{"email": "a@example.com"}).wantStatus(http.StatusAccepted)
	f.requestErasure(t, object{"email": "b@example.com"}).wantStatus(http.StatusAccepted)
	rejected := f.requestErasure(t, object{"email": "c@example.com"}).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if got, want := rejected.header.Get("RateLimit-Policy"), `"buyer_erasure";q=3;w=3600`; got != want {
		t.Errorf("RateLimit-Policy is %q, want %q", got, want)
	}
	sys.clock.advance(61 * time.Minute)
	f.merchant = f.merchant.login(t).inMode("test")
	f.requestErasure(t, object{"email": "c@example.com"}).wantStatus(http.StatusAccepted)
	checkJoinDuringRecovery(t, sys, f)
}

func TestBuyerErasure_CanBeDisabled(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_BUYER_ERASURE": "false"}})
	merchant := sys.newMerchant(t)
	disabled := outcome{http.StatusServiceUnavailable, "FEATURE_DISABLED"}
	merchant.post(t, buyerErasurePath, object{}).wantOutcome(disabled)
	merchant.get(t, buyerErasurePath+"/"+unknownID).wantOutcome(disabled)
	sys.client().post(t, buyerErasurePath, object{}).wantOutcome(unauthorized)
	sys.newPartner(t).post(t, buyerErasurePath, object{}).wantOutcome(forbidden)
}

// checkJoinDuringRecovery requests the erasure of a buyer while a worker recovers the erasure. A
// locked conversion keeps the first worker from going on, until its lease has expired and a
// second worker takes the erasure over.
func checkJoinDuringRecovery(t *testing.T, sys *system, f fixture) {
	t.Helper()
	sale := f.reportSale(t, f.click(t), object{"customer_id": "customer-of-two-workers"})
	buyer := object{"customerId": "customer-of-two-workers"}
	var operation string
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if _, err := tx.Exec(t.Context(), `select from conversions where id = $1 for update`, sale.text("id")); err != nil {
			return err
		}
		operation = f.requestErasure(t, buyer).wantStatus(http.StatusAccepted).text("operationId")
		awaitWorker := func(description string, recovering bool) {
			eventually(t, waitTimeout, description, func() error {
				if sys.count(t, `select count(*) from buyer_erasures where id = $1 and step = 'sales' and recovering = $2`, operation, recovering) == 0 {
					return errors.New("no worker erases the conversions")
				}
				return nil
			})
		}
		awaitWorker("the first worker waits for the lock", false)
		sys.clock.advance(6 * time.Minute)
		sys.exec(t, `
			insert into river.river_job (args, kind, max_attempts, priority, queue, state)
			select args, kind, max_attempts, priority, queue, 'available' from river.river_job where args ->> 'operation' = $1`, operation)
		awaitWorker("the second worker recovers the erasure", true)
		f.requestErasure(t, buyer).wantError(http.StatusConflict, "ACTIVE_OPERATION_CONFLICT")
		return nil
	})
	eventually(t, waitTimeout, "the erasure is done", func() error {
		if status := f.merchant.get(t, buyerErasurePath+"/"+operation).text("status"); status != "done" {
			return errors.New(status)
		}
		return nil
	})
}
