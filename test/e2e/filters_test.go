package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// testFilters checks the filters of several lists.
func testFilters(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	other := sys.newFixtureFor(t, f.merchant, sys.newPartner(t).inMode("test"), rules(object{"holdPeriodDays": 0}))
	f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	click := f.click(t)
	for range 3 {
		f.reportSale(t, click, object{"customer_email": strings.Replace(f.partner.email, "@", "+shop@", 1)})
	}
	other.reportSale(t, other.click(t), nil)
	f.createBatch(t, object{}).wantStatus(http.StatusCreated)

	t.Run("commissions can be filtered by participant", func(t *testing.T) {
		for _, path := range []string{"/api/v1/commissions", f.programPath() + "/commissions"} {
			f.merchant.get(t, path+"?pageSize=2&page=2&participantId="+f.participant).wantStatus(http.StatusOK).
				wantFields(object{"total": 3, "data.0.participantId": f.participant})
			f.merchant.get(t, path+"/stats?participantId="+f.participant).wantStatus(http.StatusOK).wantFields(object{"totalCount": 3, "byStatus.approved.count": 3})
			f.merchant.get(t, path+"?status=rejected&participantId="+f.participant).wantStatus(http.StatusOK).wantFields(object{"total": 0})
			if got := f.merchant.get(t, path+"/export?participantId="+f.participant).wantStatus(http.StatusOK); strings.Count(got.body, "\n") != 4 {
				t.Errorf("the export does not have a header and three rows:\n%s", got.body)
			}
		}
		f.merchant.get(t, "/api/v1/commissions?participantId="+other.participant+"&search=pia").wantStatus(http.StatusOK).wantFields(object{"total": 1})
		f.merchant.get(t, "/api/v1/commissions?participantId="+other.participant+"&programId="+f.program).wantStatus(http.StatusOK).wantFields(object{"total": 0})
	})
	t.Run("payouts and fraud events can be filtered by date", func(t *testing.T) {
		today, tomorrow := sys.clock.now().UTC().Format(time.DateOnly), sys.clock.now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
		for path, total := range map[string]int{"/api/v1/payouts": 1, "/api/v1/fraud/events": 4} {
			f.merchant.get(t, path+"?dateFrom="+today+"&dateTo="+today+"&timezone=UTC").wantStatus(http.StatusOK).wantFields(object{"total": total})
			f.merchant.get(t, path+"?dateFrom="+tomorrow).wantStatus(http.StatusOK).wantFields(object{"total": 0})
			f.merchant.get(t, path+"?dateFrom="+tomorrow+"&dateTo="+today).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "dateTo")
			f.merchant.get(t, path+"?timezone=Nowhere").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "timezone")
		}
	})
	t.Run("programmes can be searched by name", func(t *testing.T) {
		id := f.merchant.createProgram(t, object{"name": "Årets 100% bästa"})
		for _, search := range []string{"årets", "ÅRETS%20100%25", "%20Årets%20"} {
			f.merchant.get(t, "/api/v1/programs?search="+search).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": id})
		}
		f.merchant.get(t, "/api/v1/programs?search=rets").wantStatus(http.StatusOK).wantFields(object{"total": 0})
		f.merchant.get(t, "/api/v1/programs?search=årets&status=paused").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	})
}

// testProgramCurrency checks that a programme's currency can change until the programme
// has a commission.
func testProgramCurrency(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(nil))
	f.merchant.patch(t, f.programPath(), object{"currency": "eur"}).wantStatus(http.StatusOK).wantFields(object{"currency": "EUR"})
	f.merchant.patch(t, f.programPath(), object{"currency": "XXX"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency")
	f.merchant.patch(t, f.programPath(), object{"currency": nil}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency")
	f.merchant.patch(t, f.programPath(), object{"currency": "USD"}).wantStatus(http.StatusOK).wantFields(object{"currency": "USD"})
	f.earnCommission(t)
	const fixed = "The programme has commissions, so its currency cannot change."
	f.merchant.patch(t, f.programPath(), object{"currency": "EUR"}).wantError(http.StatusConflict, "PROGRAM_STATE_INVALID").
		wantFields(object{"message": fixed})
	_, err := affiliatev1.NewProgramServiceClient(sys.dial(t)).UpdateProgram(
		metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+f.merchant.access, "x-mode", "test"),
		&affiliatev1.UpdateProgramRequest{ProgramId: f.program, Currency: proto.String("EUR"), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"currency"}}})
	want, _ := status.New(codes.FailedPrecondition, fixed).WithDetails(&errdetails.ErrorInfo{
		Reason: "PROGRAM_STATE_INVALID", Domain: "tributary", Metadata: map[string]string{"status": "active"},
	})
	if got := status.Convert(err); !proto.Equal(got.Proto(), want.Proto()) {
		t.Errorf("over gRPC: got %v, want %v", got.Proto(), want.Proto())
	}
	f.merchant.patch(t, f.programPath(), object{"currency": "USD", "name": "Renamed"}).wantStatus(http.StatusOK).wantFields(object{"name": "Renamed", "currency": "USD"})
}
