package conversion_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// asViewer returns the context of a call by a member with the role viewer.
func asViewer(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(context.Background(), server.Principal{
		Kind: server.MerchantToken, Workspace: scope.Workspace, Mode: scope.Mode, Role: affiliate.RoleViewer,
	})
}

func (w *world) list(req *affiliatev1.ListConversionsRequest) *affiliatev1.ListConversionsResponse {
	w.Helper()
	r, err := w.service.ListConversions(as(w.scope), req)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) get(ctx context.Context, id string) (*affiliatev1.Conversion, error) {
	return w.service.GetConversion(ctx, &affiliatev1.GetConversionRequest{ConversionId: id})
}

func TestGetConversion_ReturnsAllReportedFields(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	metadata, err := structpb.NewStruct(map[string]any{"plan": "pro", "seats": 3.0, "tags": []any{"a", nil}, "nested": map[string]any{"x": true}})
	if err != nil {
		t.Fatal(err)
	}
	req := purchase("order-1", click.ID)
	req.PromoCode, req.CustomerId, req.SubscriptionId, req.SubId = ptr("SPRING"), ptr("c-1"), ptr("sub-1"), ptr("s-1")
	req.TaxCents, req.ShippingCents, req.FeeCents, req.DiscountCents = ptr(int64(1)), ptr(int64(2)), ptr(int64(3)), ptr(int64(4))
	req.ProductIds, req.IsRecurring, req.Metadata = []string{"p-1", "p-2"}, ptr(true), metadata
	req.LineItems = []*affiliatev1.LineItem{{ProductId: "p-1", Quantity: ptr(int64(2)), AmountCents: 9_000}, {ProductId: "p-2", AmountCents: 1_000}}
	reported := w.mustReport(req)
	for i, refund := range []struct {
		id      string
		cents   int64
		applied bool
	}{{"r-late", 700, true}, {"r-early", 300, true}, {"r-parked", 0, false}} {
		row := pgtest.Row{
			"workspace_id": w.scope.Workspace, "id": affiliate.NewID[affiliate.Refund](w.now()), "mode": w.scope.Mode,
			"external_refund_id": refund.id, "external_transaction_id": "order-1", "created_at": w.now().Add(-time.Duration(i) * time.Minute),
			"expires_at": w.now(), "reason": "damaged",
		}
		if refund.applied {
			row["conversion_id"], row["amount_cents"], row["applied_at"] = reported.GetId(), refund.cents, w.now()
		}
		w.Insert("refunds", row)
	}
	w.Exec(`update conversions set refunded_amount_cents = 1000, status = 'partially_refunded'`)

	got, err := w.get(as(w.scope), reported.GetId())
	if err != nil {
		t.Fatal(err)
	}
	if got.GetWorkspaceId() != w.scope.Workspace.String() || got.GetMode() != affiliatev1.Mode_MODE_TEST || got.GetCurrency() != "EUR" ||
		got.GetEventType() != affiliatev1.EventType_EVENT_TYPE_PURCHASE || got.GetAmountCents() != 10_000 ||
		got.GetTaxCents() != 1 || got.GetShippingCents() != 2 || got.GetFeeCents() != 3 || got.GetDiscountCents() != 4 ||
		got.GetRefundedAmountCents() != 1_000 || got.GetStatus() != affiliatev1.ConversionStatus_CONVERSION_STATUS_PARTIALLY_REFUNDED ||
		got.GetSource() != affiliatev1.ConversionSource_CONVERSION_SOURCE_API || got.GetClickId() != click.ID.String() ||
		got.GetPromoCode() != "spring" || len(got.GetCustomerRef()) != 64 || got.GetSubscriptionId() != "sub-1" || got.GetSubId() != "s-1" ||
		!got.GetIsRecurring() || got.GetRecurringIndex() != 1 || got.GetProgramId() != w.program.String() || got.GetParticipantId() != w.participant.String() ||
		got.GetLinkId() == "" || int(got.GetFraudScore()) != w.Count(`select fraud_score from conversions`) {
		t.Errorf("%v", got)
	}
	if !proto.Equal(got.GetAttribution(), reported.GetAttribution()) || !proto.Equal(got.GetCommission(), reported.GetCommission()) ||
		!proto.Equal(got.GetFraud(), reported.GetFraud()) || !proto.Equal(got.GetCreatedAt(), reported.GetCreatedAt()) || !got.GetAttributed() {
		t.Errorf("%v\nwas reported as\n%v", got, reported)
	}
	if !proto.Equal(got.GetMetadata(), metadata) {
		t.Errorf("%v", got.GetMetadata())
	}
	if lines := got.GetLineItems(); !slices.Equal(got.GetProductIds(), req.GetProductIds()) || len(lines) != 2 ||
		!proto.Equal(lines[0], req.GetLineItems()[0]) || lines[1].GetQuantity() != 1 {
		t.Errorf("%v, %v", got.GetProductIds(), lines)
	}
	if r := got.GetRefunds(); len(r) != 2 || r[0].GetExternalRefundId() != "r-early" || r[0].GetAmountCents() != 300 || r[0].GetReason() != "damaged" ||
		r[0].GetCreatedAt() == nil || r[0].GetId() == "" || r[1].GetExternalRefundId() != "r-late" {
		t.Errorf("%v", r)
	}
	listed := w.list(&affiliatev1.ListConversionsRequest{}).GetData()
	if len(listed) != 1 || !proto.Equal(listed[0].GetAttribution(), got.GetAttribution()) || listed[0].GetRecurringIndex() != 1 || listed[0].GetRefundedAmountCents() != 1_000 {
		t.Errorf("%v", listed)
	}
}

func TestGetConversion_OfMinimalEvent(t *testing.T) {
	w := newWorld(t)
	reported := w.mustReport(&affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_LEAD, ExternalTransactionId: "lead-1",
		ClickId: ptr(affiliate.NewID[affiliate.Click](time.Now().Add(-time.Hour)).String()),
	})
	got, err := w.get(asViewer(w.scope), reported.GetId())
	if err != nil {
		t.Fatal(err)
	}
	if got.Currency != nil || got.GetAttributed() || got.GetAttribution().GetReasonCode() != "CLICK_UNKNOWN" || got.GetCommission() != nil ||
		got.ProgramId != nil || got.ParticipantId != nil || got.Metadata != nil || got.RecurringIndex != nil || len(got.GetRefunds()) != 0 {
		t.Errorf("%v", got)
	}
}

// After a reattribution, the detail shows the new participant and the new commission.
func TestGetConversion_ReturnsDecisionInForce(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	reported := w.mustReport(purchase("order-1", click.ID))
	to, _ := w.newParticipant(w.scope, w.program)
	moved, err := w.service.ReattributeConversion(as(w.scope), &affiliatev1.ReattributeConversionRequest{
		ConversionId: reported.GetId(), ParticipantId: to.String(), Reason: "theirs",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.get(as(w.scope), reported.GetId())
	if err != nil {
		t.Fatal(err)
	}
	if got.GetParticipantId() != to.String() || !proto.Equal(got.GetAttribution(), moved.GetAttribution()) || got.GetCommission().GetId() != moved.GetCommission().GetId() {
		t.Errorf("%v, want %v", got, moved)
	}
	if listed := w.list(&affiliatev1.ListConversionsRequest{}).GetData(); len(listed) != 1 || listed[0].GetCommission().GetId() != moved.GetCommission().GetId() {
		t.Errorf("%v", listed)
	}
}

func TestReads_AreLimitedToScope(t *testing.T) {
	w := newWorld(t)
	id := w.mustReport(purchase("order-1", w.storeClick(w.click()).ID)).GetId()
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	elsewhere := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: w.scope.Mode}
	for name, scope := range map[string]affiliate.Scope{"mode": live, "workspace": elsewhere} {
		for _, ctx := range []context.Context{as(scope), asViewer(scope)} {
			_, err := w.get(ctx, id)
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			r, err := w.service.ListConversions(ctx, &affiliatev1.ListConversionsRequest{})
			if err != nil || len(r.GetData()) != 0 || r.GetTotal() != 0 {
				t.Error(name, r, err)
			}
			for _, req := range []*affiliatev1.ListConversionsRequest{{ProgramId: ptr(w.program.String())}, {ParticipantId: ptr(w.participant.String())}} {
				_, err = w.service.ListConversions(ctx, req)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
		}
	}
	for _, unknown := range []string{"", "order-1", affiliate.NewID[affiliate.Conversion](w.now()).String()} {
		_, err := w.get(as(w.scope), unknown)
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

func TestListConversions_Filters(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	other := w.newProgram(w.scope)
	otherParticipant, _ := w.newParticipant(w.scope, other)
	foreign := w.click()
	foreign.Program, foreign.Participant = other, otherParticipant
	w.storeClick(foreign)

	w.mustReport(purchase("order-1", click.ID))
	w.mustReport(purchase("order-2", foreign.ID))
	w.mustReport(purchase("order-3", affiliate.NewID[affiliate.Click](w.now().Add(-time.Hour))))
	lead := purchase("lead-4", click.ID)
	lead.EventType = affiliatev1.EventType_EVENT_TYPE_LEAD
	w.mustReport(lead)
	for i, external := range []string{"order-1", "order-2", "order-3", "lead-4"} {
		w.Exec(`update conversions set created_at = $2 where external_transaction_id = $1`, external, time.Date(2026, 3, 1+i, 23, 30, 0, 0, time.UTC))
	}
	type request = affiliatev1.ListConversionsRequest
	for name, tc := range map[string]struct {
		req  *request
		want string
	}{
		"none":              {&request{}, "[lead-4 order-3 order-2 order-1]"},
		"attributed":        {&request{Attributed: ptr(true)}, "[lead-4 order-2 order-1]"},
		"not attributed":    {&request{Attributed: ptr(false)}, "[order-3]"},
		"event":             {&request{EventType: affiliatev1.EventType_EVENT_TYPE_LEAD}, "[lead-4]"},
		"external id":       {&request{ExternalTransactionId: ptr("order-2")}, "[order-2]"},
		"external id, case": {&request{ExternalTransactionId: ptr("Order-2")}, "[]"},
		"programme":         {&request{ProgramId: ptr(other.String())}, "[order-2]"},
		"participant":       {&request{ParticipantId: ptr(w.participant.String())}, "[lead-4 order-1]"},
		"all at once": {&request{
			ParticipantId: ptr(w.participant.String()), ProgramId: ptr(w.program.String()), Attributed: ptr(true),
			EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, DateFrom: ptr("2026-03-01"),
		}, "[order-1]"},
		"one day":           {&request{DateFrom: ptr("2026-03-02"), DateTo: ptr("2026-03-02")}, "[order-2]"},
		"one day in Berlin": {&request{DateFrom: ptr("2026-03-02"), DateTo: ptr("2026-03-02"), Timezone: ptr("Europe/Berlin")}, "[order-1]"},
		"an instant":        {&request{DateFrom: ptr("2026-03-03T23:30:00Z"), DateTo: ptr("2026-03-03T23:30:00Z")}, "[order-3]"},
		"second page":       {&request{Page: ptr(int32(2)), PageSize: ptr(int32(3))}, "[order-1]"},
		"beyond the end":    {&request{Page: ptr(int32(9)), PageSize: ptr(int32(3))}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.list(tc.req)
			got := []string{}
			for _, item := range r.GetData() {
				got = append(got, item.GetExternalTransactionId())
			}
			if fmt.Sprint(got) != tc.want {
				t.Errorf("%v, want %s", got, tc.want)
			}
			if want := int64(len(got)); tc.req.Page == nil && (r.GetTotal() != want || r.GetPage() != 1 || r.GetLimit() != 20) ||
				tc.req.Page != nil && (r.GetTotal() != 4 || r.GetLimit() != 3) {
				t.Errorf("total %d, page %d of %d", r.GetTotal(), r.GetPage(), r.GetLimit())
			}
		})
	}
	backwards := &request{DateFrom: ptr("2026-03-02"), DateTo: ptr("2026-03-01")}
	if found := w.service.Check(backwards); len(found) != 1 || found[0].Field != "date_to" {
		t.Errorf("%v", found)
	}
	_, err := w.service.ListConversions(as(w.scope), backwards)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "date_to")
}

func TestListItem_HasFieldsOfDetail(t *testing.T) {
	item := (&affiliatev1.ConversionListItem{}).ProtoReflect().Descriptor().Fields()
	full := (&affiliatev1.Conversion{}).ProtoReflect().Descriptor().Fields()
	for i := range item.Len() {
		a := item.Get(i)
		b := full.ByNumber(a.Number())
		if b == nil || a.Name() != b.Name() || a.JSONName() != b.JSONName() || a.Kind() != b.Kind() || a.Cardinality() != b.Cardinality() ||
			a.HasPresence() != b.HasPresence() || a.Enum() != b.Enum() || a.Message() != b.Message() {
			t.Errorf("field %d: %v in the list, %v in the detail", a.Number(), a, b)
		}
	}
}
