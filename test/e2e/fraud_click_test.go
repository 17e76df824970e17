package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// countryFile writes a file in MaxMind's format that maps a network to a country.
func countryFile(t *testing.T, network, country string) string {
	t.Helper()
	_, of, err := net.ParseCIDR(network)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-Country", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Insert(of, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country)}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "countries.mmdb")
	file, err := os.Create(path) // #nosec G304 -- the test chose the name
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.WriteTo(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClickDetails_ReachAuditAndFraudRules checks that the country, the browser and the
// ad click id of a click are available in the attribution audit and to the fraud rules.
// The IP address is not.
func TestClickDetails_ReachAuditAndFraudRules(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{separateProcesses: true, env: map[string]string{"TRIBUTARY_COUNTRY_DB": countryFile(t, "203.0.113.0/24", "AQ")}})
	w := sys.world(t, "test", rules(object{"holdPeriodDays": 0}))
	w.merchant.do(t, http.MethodPut, w.programPath()+"/fraud-policy", object{
		"policy": "flag", "disabledRules": []string{"click_to_convert"}, "blockedCountries": []string{"AQ"},
	}).want(http.StatusOK)
	w.click(t) // waits until the collector accepts the code
	key := sys.caller().as(w.secretKey)
	click := func(t *testing.T, from string, changes object) string {
		t.Helper()
		body := object{"referral_code": w.code, "url": "https://shop.example/"}
		for field, value := range changes {
			body[field] = value
		}
		return sys.caller().as(w.publicKey).with("X-Forwarded-For", from).with("X-Forwarded-Proto", "https").
			with("User-Agent", browserUserAgent).
			send(t, http.MethodPost, sys.edge+"/v1/clicks", body).want(http.StatusCreated).text("click_id")
	}

	t.Run("a blocked country", func(t *testing.T) {
		// The sale is reported right after the click, which may not be stored yet.
		id := click(t, "203.0.113.7", nil)
		w.sell(t, id, nil).wantFields(object{"fraud.flagged": true, "fraud.signals.0.rule": "blocked_country", "fraud.signals.0.score": 50, "commission.needs_review": true})
	})
	t.Run("another country", func(t *testing.T) {
		w.sell(t, click(t, "198.51.100.7", nil), nil).wantFields(object{"fraud.flagged": false, "fraud.signals": []any{}})
	})
	t.Run("a blocked country without consent", func(t *testing.T) {
		w.sell(t, click(t, "203.0.113.7", object{"consent": "denied"}), nil).wantFields(object{"fraud.flagged": false, "fraud.signals": []any{}})
	})
	t.Run("an ad's click id", func(t *testing.T) {
		id := click(t, "198.51.100.7", object{"url": "https://shop.example/?msclkid=secret-id"})
		w.sell(t, id, nil).wantFields(object{"fraud.flagged": true, "fraud.signals.0.rule": "paid_search"})
	})
	t.Run("the attribution audit", func(t *testing.T) {
		id := click(t, "203.0.113.8", object{"url": "https://shop.example/a?gclid=secret-id"})
		path := "/api/v1/attribution/clicks/" + id
		var seen response
		eventually(t, waitTimeout, "the click is stored", func() error {
			if seen = key.get(t, path); seen.status != http.StatusOK {
				return fmt.Errorf("the audit returns %d", seen.status)
			}
			return nil
		})
		seen.wantFields(object{
			"id": id, "country": "AQ", "region": nil, "device": "desktop", "browser": "Firefox", "os": "Windows",
			"is_unique": true, "is_bot": false, "paid_platform": "google", "converted_at": nil,
		})
		if strings.Contains(seen.body, "203.0.113") || strings.Contains(seen.body, "secret-id") || strings.Contains(seen.body, "hash") {
			t.Errorf("the audit shows %s", seen.body)
		}
		sale := w.sell(t, id, nil)
		key.get(t, path).want(http.StatusOK).wantFields(object{"converted_at": sale.text("created_at"), "conversions.0.id": sale.text("id")})
	})
}
