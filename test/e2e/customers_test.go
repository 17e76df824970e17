package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// testCustomerLabels sets, changes and erases the label of a customer. Only the merchant may
// read it.
func testCustomerLabels(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", manualApprovalRules())
	server, other := sys.client().withCredential(f.secretKey), sys.newFixture(t, "test", nil)
	customer := uniqueName("auth0|customer") // | must be percent-encoded
	path := "/api/v1/customers/" + url.PathEscape(customer)
	server.patch(t, path, object{"label": "Too early"}).wantOutcome(notFound)

	sale := f.reportSale(t, f.click(t), object{"customer_id": customer})
	conversion, commission := "/api/v1/conversions/"+sale.text("id"), f.commissionPath(sale.text("commission.id"))
	reads := func(t *testing.T, want string) {
		t.Helper()
		for path, field := range map[string]string{
			conversion: "customer_ref", "/api/v1/conversions": "data.0.customer_ref",
			commission: "customerRef", "/api/v1/commissions": "data.0.customerRef", f.programPath() + "/commissions?search=" + f.partner.email: "data.0.customerRef",
		} {
			f.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{field: want})
		}
	}
	short := f.merchant.get(t, conversion).text("customer_ref")
	if len(short) != 8 {
		t.Errorf("a customer without a label has the reference %q, want 8 characters", short)
	}
	reads(t, short)

	t.Run("a report sets the label, and one without a label keeps it", func(t *testing.T) {
		f.reportSale(t, f.click(t), object{"customer_id": customer, "customer_label": "  Ada's Books "})
		reads(t, "Ada's Books")
		f.reportSale(t, f.click(t), object{"customer_id": customer, "customer_label": ""})
		reads(t, "Ada's Books")
		batch := object{"conversions": []object{purchase(f.click(t))}}
		batch["conversions"].([]object)[0]["customer_id"], batch["conversions"].([]object)[0]["customerLabel"] = customer, "Ada & Co"
		server.post(t, "/api/v1/conversions/batch", batch).wantStatus(http.StatusOK)
		reads(t, "Ada & Co")
		simulated := purchase(f.click(t))
		simulated["customer_id"], simulated["customer_label"] = customer, "Not stored"
		server.post(t, "/api/v1/attribution/simulate", simulated).wantStatus(http.StatusOK)
		reads(t, "Ada & Co")
	})
	t.Run("wrong labels and refused reports change nothing", func(t *testing.T) {
		for want, fields := range map[string]object{
			"customer_label needs customer_id.":                {"customer_label": "Ada"},
			"customer_label must have at most 100 characters.": {"customer_id": customer, "customer_label": strings.Repeat("ü", 101)},
		} {
			sale := purchase(f.click(t))
			for name, value := range fields {
				sale[name] = value
			}
			f.report(t, sale).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "customer_label").wantFields(object{"details.0.message": want})
		}
		duplicate := purchase(f.click(t))
		duplicate["external_transaction_id"], duplicate["customer_id"], duplicate["customer_label"] = sale.text("external_transaction_id"), customer, "Duplicate"
		f.report(t, duplicate).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
		f.merchant.patch(t, path, object{"label": strings.Repeat("ü", 101)}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "label")
		f.merchant.patch(t, path, object{"label": 7}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "label")
		f.merchant.patch(t, path, object{"name": "Ada"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
		reads(t, "Ada & Co")
	})
	t.Run("members and servers of the merchant change the label", func(t *testing.T) {
		f.merchant.patch(t, path, object{"label": " Ada's Library "}).wantStatus(http.StatusOK).wantFields(object{
			"customer_id": customer, "customer_ref": "Ada's Library", "label": "Ada's Library",
		}).instant("created_at")
		reads(t, "Ada's Library")
		server.patch(t, path, object{}).wantStatus(http.StatusOK).wantFields(object{"label": "Ada's Library"})
		server.patch(t, path, object{"label": nil}).wantStatus(http.StatusOK).wantFields(object{"customer_ref": short, "label": nil})
		reads(t, short)
		server.patch(t, path, object{"label": "Ada"}).wantStatus(http.StatusOK)
	})
	t.Run("the answer to an approval shows the label", func(t *testing.T) {
		f.merchant.patch(t, commission+"/approve", nil).wantStatus(http.StatusOK).wantFields(object{"customerRef": "Ada"})
	})
	t.Run("other workspaces, the other mode and partners do not know the customer", func(t *testing.T) {
		sys.client().withCredential(other.secretKey).patch(t, path, object{"label": "Mine"}).wantOutcome(notFound)
		f.merchant.inMode("live").patch(t, path, object{"label": "Mine"}).wantOutcome(notFound)
		f.partner.patch(t, path, object{"label": "Mine"}).wantStatus(http.StatusForbidden)
		reads(t, "Ada")
		for _, path := range []string{"/api/v1/partner/commissions", "/api/v1/partner/ledger", "/api/v1/partner/notifications"} {
			if got := f.partner.get(t, path).wantStatus(http.StatusOK); strings.Contains(got.body, "Ada") {
				t.Errorf("%s shows the label: %s", path, got.body)
			}
		}
	})
	t.Run("the erasure of the buyer deletes the label", func(t *testing.T) {
		f.eraseBuyer(t, object{"customerId": customer})
		f.merchant.get(t, conversion).wantFields(object{"customer_ref": nil})
		f.merchant.get(t, commission).wantFields(object{"customerRef": nil})
		server.patch(t, path, object{"label": "Ada"}).wantOutcome(notFound)
		if n := sys.count(t, `select count(*) from customers where label like 'Ada%'`); n != 0 {
			t.Errorf("%d labels are stored after the erasure", n)
		}
	})
}
