package e2e_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// TestHashKey_CanBeRotated restarts the service with another first hash key. Customers, erased
// sales and unsubscribe links of the earlier key are still known. The collector and the core hash
// new data with the new key.
func TestHashKey_CanBeRotated(t *testing.T) {
	t.Parallel()
	shared := setup{database: pgtest.New(t), redis: redistest.New(t)}
	before := start(t, shared)
	next, strange := bytes.Repeat([]byte{10}, 32), bytes.Repeat([]byte{11}, 32)
	wantCollectors := func(started, refused [][]byte) {
		t.Helper()
		eventually(t, waitTimeout, "the core has written the fingerprints of its hash keys", func() error {
			for _, key := range started {
				if err := compareHashKey(t, shared.redis, key); err != nil {
					return err
				}
			}
			for _, key := range refused {
				if compareHashKey(t, shared.redis, key) == nil {
					return errors.New("a collector with a wrong hash key starts")
				}
			}
			return nil
		})
	}
	wantCollectors([][]byte{hashKey}, [][]byte{next, strange})
	f := before.newFixture(t, "test", object{"attributionWindowDays": 7})
	first := f.click(t)
	sale := purchase(first)
	sale["customer_id"] = "c-1"
	f.report(t, sale).wantStatus(http.StatusCreated).wantFields(object{"attribution.method": "click"})
	erased := purchase(f.click(t))
	f.report(t, erased).wantStatus(http.StatusCreated)
	f.eraseBuyer(t, object{"externalTransactionId": erased["external_transaction_id"]})
	link := unsubscribePath + unsubscribeToken(f.partner, notification.CategoryCommissions)
	before.stop()

	shared.env = map[string]string{"TRIBUTARY_HASH_KEY": base64.StdEncoding.EncodeToString(next) + "," + base64.StdEncoding.EncodeToString(hashKey)}
	after := start(t, shared)
	f.sys = after
	wantCollectors([][]byte{hashKey, next}, [][]byte{strange})
	after.clock.advance(30 * 24 * time.Hour)
	renewal := purchase(first)
	renewal["customer_id"], renewal["event_type"] = "c-1", "renewal"
	f.report(t, renewal).wantStatus(http.StatusCreated).wantFields(object{"attribution.reason_code": "CUSTOMER_BOUND"})
	f.report(t, erased).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
	after.client().withHeader("Content-Type", "application/x-www-form-urlencoded").post(t, link, oneClickForm).wantStatus(http.StatusOK)

	click := f.click(t)
	eventually(t, waitTimeout, "the click is stored", func() error {
		if after.count(t, "select count(*) from clicks where id = $1", click) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	agent := fraud.AgentHash(affiliate.HashKeys{next}, browserUserAgent, after.clock.now())
	if after.count(t, "select count(*) from clicks where id = $1 and ua_hash = $2", click, agent.First()) != 1 {
		t.Error("the collector has not hashed the user agent with the first key")
	}
	sale = purchase(click)
	sale["customer_id"] = "c-2"
	f.report(t, sale).wantStatus(http.StatusCreated)
	workspace, _ := affiliate.ParseID[affiliate.WorkspaceID](f.merchant.workspace)
	ref := privacy.BuyerKeys{next}.CustomerRefs(workspace, "c-2")[0]
	if after.count(t, "select count(*) from customers where ref = $1", ref) != 1 {
		t.Error("the core has not hashed a new customer id with the first key")
	}
}

// compareHashKey returns the error with which a collector with this hash key starts.
func compareHashKey(t *testing.T, redisURL string, key []byte) error {
	t.Helper()
	compared, err := edge.CompareHashKey(t.Context(), settings.HashKeys{key}, clickstream.Endpoint{URL: redisURL}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	return compared.Close()
}
