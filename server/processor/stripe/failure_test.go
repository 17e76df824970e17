package stripe_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// failOnce is a handler that rejects one request because of the rate limit.
type failOnce struct {
	server *stripeserver.Server
	next   atomic.Int64
	failed atomic.Int64 // number of the request that fails
	path   atomic.Value // path of the request that failed
}

func (h *failOnce) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.next.Add(1) == h.failed.Load() {
		h.path.Store(r.URL.Path)
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error": {"code": "rate_limit", "type": "invalid_request_error", "message": "Request rate limit exceeded."}}`))
		return
	}
	h.server.ServeHTTP(w, r)
}

// If one of the requests fails, Read must return an error and no incomplete facts.
func TestRead_FailsIfAnyRequestFails(t *testing.T) {
	objects := []object{
		stripeserver.NewSession("cs_1", object{
			"created": monday, "customer": "cus_1", "payment_status": "paid", "discounts": []any{object{"coupon": nil, "promotion_code": "promo_a"}},
		}),
		stripeserver.NewSession("cs_2", object{
			"created": monday - 1, "customer": "cus_1", "discounts": []any{object{"coupon": nil, "promotion_code": "promo_b"}},
		}),
		stripeserver.NewPromotionCode("promo_a", nil), stripeserver.NewPromotionCode("promo_b", nil),
		stripeserver.NewPaymentIntent("pi_1", nil), stripeserver.NewCharge("ch_1", nil), stripeserver.NewBalanceTransaction("txn_1", nil),
		stripeserver.NewInvoice("in_1", object{"created": monday, "customer": "cus_1"}), stripeserver.NewInvoicePayment("inpay_1", nil),
		stripeserver.NewInvoice("in_unpaid", object{"created": monday, "customer": "cus_1"}),
		stripeserver.NewRefund("re_1", object{"charge": nil}), stripeserver.NewDispute("dp_1", nil),
	}
	for name, test := range map[string]struct {
		eventType, id string
		requests      int64 // the least number of requests
	}{
		"session":     {completed, "cs_1", 5},
		"invoice":     {paid, "in_1", 4},
		"out of band": {paid, "in_unpaid", 2},
		"charge":      {"charge.refunded", "ch_1", 4},
		"refund":      {"refund.created", "re_1", 6},
		"dispute":     {"charge.dispute.created", "dp_1", 5},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := stripeserver.New()
			if err != nil {
				t.Fatal(err)
			}
			handler := &failOnce{server: server}
			f := fixtureWith(t, server, handler)
			f.put(objects...)
			r := processor.ReadRequest{Body: f.Event(test.eventType, test.id), ReadAgain: name != "out of band"}
			if _, err := f.client.Read(t.Context(), key, r); err != nil {
				t.Fatal(err)
			}
			total := handler.next.Load()
			if total < test.requests {
				t.Errorf("Read sent %d requests, want at least %d", total, test.requests)
			}
			for i := int64(1); i <= total; i++ {
				handler.next.Store(0)
				handler.failed.Store(i)
				facts, err := f.client.Read(t.Context(), key, r)
				if !errors.Is(err, processor.ErrUnavailable) || facts.Sales != nil || facts.Charge != nil {
					t.Errorf("after %s failed, Read returned %+v, %v, want ErrUnavailable", handler.path.Load(), facts, err)
				}
			}
		})
	}
}

func TestRead_PermissionErrors(t *testing.T) {
	for permission, eventType := range map[string]string{
		"checkout_session_read": completed, "invoice_read": paid, "charge_read": "charge.dispute.created",
		"dispute_read": "charge.dispute.created", "payment_intent_read": "refund.created",
	} {
		f := newFixture(t)
		f.put(stripeserver.NewSession("cs_1", nil), stripeserver.NewInvoice("in_1", nil), stripeserver.NewCharge("ch_1", nil),
			stripeserver.NewDispute("dp_1", nil), stripeserver.NewRefund("re_1", object{"charge": nil}))
		id := map[string]string{completed: "cs_1", paid: "in_1", "charge.dispute.created": "dp_1", "refund.created": "re_1"}[eventType]
		body := f.Event(eventType, id)
		f.Deny(key, "rak_"+permission)
		_, err := f.client.Read(t.Context(), key, processor.ReadRequest{Body: body, ReadAgain: true})
		var missing *processor.PermissionError
		if !errors.As(err, &missing) || missing.Permission != permission {
			t.Errorf("Read of %s returned the error %v, want the permission %s", eventType, err, permission)
		}
	}
}

func TestRead_CanceledContext(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewCharge("ch_1", nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.client.Read(ctx, key, processor.ReadRequest{Body: f.Event("charge.refunded", "ch_1")})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, processor.ErrUnavailable) {
		t.Errorf("Read returned the error %v, want ErrUnavailable and context.Canceled", err)
	}
}

func TestCreatePromotionCode_CodeExists(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewPromotionCode("promo_a", nil))
	_, err := f.client.CreatePromotionCode(t.Context(), key, "1", promocode.PromoCode{
		Code: "a", DiscountType: promocode.DiscountPercentage, DiscountValue: 1_000,
	})
	if err == nil || errors.Is(err, processor.ErrUnavailable) {
		t.Fatalf("the error is %v, want an error that is not temporary", err)
	}
	checkError(t, "CreatePromotionCode", err)
}
