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

// TestFilters checks filters of lists.
func TestFilters(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", rules(object{"holdPeriodDays": 0}))
	other := sys.worldOf(t, w.merchant, sys.partner(t).in("test"), rules(object{"holdPeriodDays": 0}))
	w.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com"}).want(http.StatusOK)
	click := w.click(t)
	for range 3 {
		w.sell(t, click, object{"customer_email": strings.Replace(w.partner.email, "@", "+shop@", 1)})
	}
	other.sell(t, other.click(t), nil)
	w.batch(t, object{}).want(http.StatusCreated)

	t.Run("commissions of a participant", func(t *testing.T) {
		for _, path := range []string{"/api/v1/commissions", w.programPath() + "/commissions"} {
			w.merchant.get(t, path+"?pageSize=2&page=2&participantId="+w.participant).want(http.StatusOK).
				wantFields(object{"total": 3, "data.0.participantId": w.participant})
			w.merchant.get(t, path+"/stats?participantId="+w.participant).want(http.StatusOK).wantFields(object{"totalCount": 3, "byStatus.approved.count": 3})
			w.merchant.get(t, path+"?status=rejected&participantId="+w.participant).want(http.StatusOK).wantFields(object{"total": 0})
			if got := w.merchant.get(t, path+"/export?participantId="+w.participant).want(http.StatusOK); strings.Count(got.body, "\n") != 4 {
				t.Errorf("%s", got.body)
			}
		}
		w.merchant.get(t, "/api/v1/commissions?participantId="+other.participant+"&search=pia").want(http.StatusOK).wantFields(object{"total": 1})
		w.merchant.get(t, "/api/v1/commissions?participantId="+other.participant+"&programId="+w.program).want(http.StatusOK).wantFields(object{"total": 0})
	})
	t.Run("dates of payouts and fraud events", func(t *testing.T) {
		today, tomorrow := sys.clock.now().UTC().Format(time.DateOnly), sys.clock.now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
		for path, total := range map[string]int{"/api/v1/payouts": 1, "/api/v1/fraud/events": 4} {
			w.merchant.get(t, path+"?dateFrom="+today+"&dateTo="+today+"&timezone=UTC").want(http.StatusOK).wantFields(object{"total": total})
			w.merchant.get(t, path+"?dateFrom="+tomorrow).want(http.StatusOK).wantFields(object{"total": 0})
			w.merchant.get(t, path+"?dateFrom="+tomorrow+"&dateTo="+today).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "dateTo")
			w.merchant.get(t, path+"?timezone=Nowhere").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "timezone")
		}
	})
	t.Run("programmes by name", func(t *testing.T) {
		id := w.merchant.program(t, object{"name": "Årets 100% bästa"})
		for _, search := range []string{"årets", "ÅRETS%20100%25", "%20Årets%20"} {
			w.merchant.get(t, "/api/v1/programs?search="+search).want(http.StatusOK).wantFields(object{"total": 1, "data.0.id": id})
		}
		w.merchant.get(t, "/api/v1/programs?search=rets").want(http.StatusOK).wantFields(object{"total": 0})
		w.merchant.get(t, "/api/v1/programs?search=årets&status=paused").want(http.StatusOK).wantFields(object{"total": 0})
	})
}

// TestProgramCurrency checks that a programme's currency can change until the programme
// has a commission.
func TestProgramCurrency(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", rules(nil))
	w.merchant.patch(t, w.programPath(), object{"currency": "eur"}).want(http.StatusOK).wantFields(object{"currency": "EUR"})
	w.merchant.patch(t, w.programPath(), object{"currency": "XXX"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency")
	w.merchant.patch(t, w.programPath(), object{"currency": nil}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency")
	w.merchant.patch(t, w.programPath(), object{"currency": "USD"}).want(http.StatusOK).wantFields(object{"currency": "USD"})
	w.earn(t)
	const fixed = "The programme has commissions, so its currency cannot change."
	w.merchant.patch(t, w.programPath(), object{"currency": "EUR"}).wantError(http.StatusConflict, "PROGRAM_STATE_INVALID").
		wantFields(object{"message": fixed})
	_, err := affiliatev1.NewProgramServiceClient(sys.dial(t)).UpdateProgram(
		metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+w.merchant.access, "x-mode", "test"),
		&affiliatev1.UpdateProgramRequest{ProgramId: w.program, Currency: proto.String("EUR"), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"currency"}}})
	want, _ := status.New(codes.FailedPrecondition, fixed).WithDetails(&errdetails.ErrorInfo{
		Reason: "PROGRAM_STATE_INVALID", Domain: "tributary", Metadata: map[string]string{"status": "active"},
	})
	if got := status.Convert(err); !proto.Equal(got.Proto(), want.Proto()) {
		t.Errorf("over gRPC: got %v, want %v", got.Proto(), want.Proto())
	}
	w.merchant.patch(t, w.programPath(), object{"currency": "USD", "name": "Renamed"}).want(http.StatusOK).wantFields(object{"name": "Renamed", "currency": "USD"})
}
