package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestConsole uses the console as a team does, with the mouse, with the keyboard and on a phone. The
// results are checked through the API.
func TestConsole(t *testing.T) {
	t.Parallel()
	tasks{
		{"approve applications", testApproveApplications},
		{"review flagged commissions", testReviewCommissions},
		{"explain and reattribute a conversion", testReattribute},
		{"roll a key", testRollKey},
		{"replay deliveries", testReplayDeliveries},
		{"pay out", testPayOut},
		{"add a member who cannot pay", testAddMember},
		{"erase a buyer", testEraseBuyer},
		{"find a partner", testFindPartner},
	}.run(browsertest.Start(t), t, start(t, setup{}))
}

// openConsole opens a page of the console as a member.
func openConsole(ctx context.Context, t *testing.T, sys *system, u browsertest.User, member caller, page string) *tab {
	t.Helper()
	p := newLoggedInTab(ctx, t, sys, u, "/console/test", member)
	p.open("/console/test" + page)
	return p
}

func testApproveApplications(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f, _ := sys.newPublicProgram(t, nil)
	const applications = 30
	for range applications {
		answers := object{"site": "https://" + uniqueName("blog") + ".example", "adult": "true"}
		sys.newPartner(t).inMode("test").post(t, f.applyPath(), object{"answers": answers, "acceptTerms": true}).wantStatus(http.StatusCreated)
	}
	p := openConsole(ctx, t, sys, u, f.merchant, "/partners?show=applications")
	first := f.merchant.get(t, f.programPath()+"/partners?status=pending&sortOrder=asc").wantStatus(http.StatusOK)
	p.wantText(first.text("data.0.applicationAnswers.site"))
	p.wantAccessibleTask()
	p.Press("checkbox", "Select all on this page")
	p.wantText("30 selected")
	p.Press("button", "Approve")
	p.wantText("Approved: 30. Each partner gets a mail.")
	p.wantText("No applications")
	f.merchant.get(t, f.programPath()+"/partners?status=approved").wantStatus(http.StatusOK).wantFields(object{"total": applications})
}

func testReviewCommissions(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", object{"fraudPolicy": "flag", "commissionRules": object{"percentage": 20, "holdPeriodDays": 0}})
	const flagged = 100
	click, sales := f.click(t), make([]object, flagged)
	for i := range sales {
		sales[i] = purchase(click)
		sales[i]["customer_email"] = f.partner.email
	}
	f.sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions/batch", object{"conversions": sales}).wantStatus(http.StatusOK)
	p := openConsole(ctx, t, sys, u, f.merchant, "/commissions")
	p.wantText(fmt.Sprintf("Needs review (%d)", flagged))
	p.wantText("Fraud rules")
	p.wantAccessibleTask()
	p.Press("checkbox", "Select all on this page")
	p.wantText("50 selected: $1,000.00")
	p.Press("button", "Reject")
	p.Find("heading", "Reject 50 ($1,000.00)?")
	p.Fill("Note (Optional)", "The partner buys from the own link.")
	p.Press("button", "Reject")
	p.wantText("Rejected: 50.")
	p.wantText(fmt.Sprintf("Needs review (%d)", flagged-50))
	p.Press("checkbox", "Select all on this page")
	p.Press("button", "Approve")
	p.wantText("Approved: 50.")
	p.wantText("Needs review (0)")
	f.merchant.get(t, "/api/v1/commissions?status=rejected").wantStatus(http.StatusOK).wantFields(object{
		"total": 50, "data.0.rejectionCode": "other", "data.0.rejectionReason": "The partner buys from the own link.",
	})
	f.merchant.get(t, "/api/v1/commissions?status=approved&needsReview=false").wantStatus(http.StatusOK).wantFields(object{"total": 50})
}

func testReattribute(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	other := sys.newPartner(t).inMode("test")
	participant := other.post(t, f.applyPath(), object{"referralCode": uniqueName("other")}).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.programPath()+"/partners/"+participant+"/approve", nil).wantStatus(http.StatusOK)
	sale := f.reportSale(t, f.click(t), nil)
	p := openConsole(ctx, t, sys, u, f.merchant, "/conversions")
	p.Press("link", sale.text("external_transaction_id"))
	p.wantPath("/console/test/conversions/" + sale.text("id"))
	for _, text := range []string{
		"A click on the partner’s link brought the customer.", sale.text("attribution.explanation"), "The click is recent enough", "20% of it", "$20.00",
	} {
		p.wantText(text)
	}
	p.wantAccessibleTask()
	p.Press("button", "Credit to another partner")
	p.wantText("Pia Partner loses the commission of $20.00.")
	p.Choose("New partner", other.email)
	p.Fill("Reason", "The customer named the other partner.")
	p.Press("button", "Credit to another partner")
	p.wantText("The conversion is credited to the new partner.")
	p.wantText("A member of your team credited the sale to this partner.")
	p.wantText("Older decisions")
	f.merchant.get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK).wantFields(object{
		"participant_id": participant, "attribution.reason_code": "MANUALLY_REASSIGNED",
	})
	f.merchant.get(t, "/api/v1/commissions/"+sale.text("commission.id")).wantStatus(http.StatusOK).wantFields(object{"status": "rejected"})
}
