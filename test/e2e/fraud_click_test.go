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

// countryFile writes a country database in MaxMind's format and returns the path of the
// file. The database maps one network to a country.
func countryFile(t *testing.T, network, country string) string {
	t.Helper()
	_, ipNet, err := net.ParseCIDR(network)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-Country", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Insert(ipNet, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country)}}); err != nil {
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

// TestClickDetails_ReachAuditAndFraudRules checks that the fraud rules use the country
// and the ad click id of a click, and that the attribution audit shows the country, the
// browser and the ad platform. The audit must not contain the IP address or the ad click
// id.
func TestClickDetails_ReachAuditAndFraudRules(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{separateProcesses: true, env: map[string]string{"TRIBUTARY_COUNTRY_DB": countryFile(t, "203.0.113.0/24", "AQ")}})
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	f.merchant.do(t, http.MethodPut, f.programPath()+"/fraud-policy", object{
		"policy": "flag", "disabledRules": []string{"click_to_convert"}, "blockedCountries": []string{"AQ"},
	}).wantStatus(http.StatusOK)
	f.click(t) // wait until the collector accepts the code
	key := sys.client().withCredential(f.secretKey)
	click := func(t *testing.T, address string, changes object) string {
		t.Helper()
		body := object{"referral_code": f.code, "url": "https://shop.example/"}
		for field, value := range changes {
			body[field] = value
		}
		return sys.client().withCredential(f.publicKey).withHeader("X-Forwarded-For", address).withHeader("X-Forwarded-Proto", "https").
			withHeader("User-Agent", browserUserAgent).
			send(t, http.MethodPost, sys.edge+"/v1/clicks", body).wantStatus(http.StatusCreated).text("click_id")
	}

	t.Run("a blocked country", func(t *testing.T) {
		// The sale is reported immediately, so the click may not be in the database yet.
		id := click(t, "203.0.113.7", nil)
		f.reportSale(t, id, nil).wantFields(object{"fraud.flagged": true, "fraud.signals.0.rule": "blocked_country", "fraud.signals.0.score": 50, "commission.needs_review": true})
	})
	t.Run("a country that is not blocked", func(t *testing.T) {
		f.reportSale(t, click(t, "198.51.100.7", nil), nil).wantFields(object{"fraud.flagged": false, "fraud.signals": []any{}})
	})
	t.Run("a blocked country without consent", func(t *testing.T) {
		f.reportSale(t, click(t, "203.0.113.7", object{"consent": "denied"}), nil).wantFields(object{"fraud.flagged": false, "fraud.signals": []any{}})
	})
	t.Run("the id of a click on an ad", func(t *testing.T) {
		id := click(t, "198.51.100.7", object{"url": "https://shop.example/?msclkid=secret-id"})
		f.reportSale(t, id, nil).wantFields(object{"fraud.flagged": true, "fraud.signals.0.rule": "paid_search"})
	})
	t.Run("the click in the attribution audit", func(t *testing.T) {
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
			t.Errorf("the audit contains the IP address, the ad click id or a hash: %s", seen.body)
		}
		sale := f.reportSale(t, id, nil)
		key.get(t, path).wantStatus(http.StatusOK).wantFields(object{"converted_at": sale.text("created_at"), "conversions.0.id": sale.text("id")})
	})
}
