package conversion_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) list(req *affiliatev1.ListConversionsRequest) *affiliatev1.ListConversionsResponse {
	f.Helper()
	r, err := f.service.ListConversions(f.asKey(), req)
	if err != nil {
		f.Fatalf("ListConversions(%v): %v", req, err)
	}
	return r
}

// onlyListed returns the only conversion of the shop from the list.
func (f *fixture) onlyListed() *affiliatev1.ConversionListItem {
	f.Helper()
	items := f.list(&affiliatev1.ListConversionsRequest{}).GetData()
	if len(items) != 1 {
		f.Fatalf("ListConversions returned %v, want one conversion", items)
	}
	return items[0]
}

func (f *fixture) get(ctx context.Context, id string) (*affiliatev1.Conversion, error) {
	return f.service.GetConversion(ctx, &affiliatev1.GetConversionRequest{ConversionId: id})
}

func (f *fixture) mustGet(id string) *affiliatev1.Conversion {
	f.Helper()
	conversion, err := f.get(f.asKey(), id)
	if err != nil {
		f.Fatalf("GetConversion(%s): %v", id, err)
	}
	return conversion
}

func TestGetConversion_ReturnsAllReportedFields(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	metadata, err := structpb.NewStruct(map[string]any{"plan": "pro", "seats": 3.0, "tags": []any{"a", nil}, "nested": map[string]any{"x": true}})
	if err != nil {
		t.Fatal(err)
	}
	req := purchaseBy("c-1", "order-1", click.ID)
	req.PromoCode, req.SubscriptionId, req.SubId = new("SPRING"), new("sub-1"), new("s-1")
	req.TaxCents, req.ShippingCents, req.FeeCents, req.DiscountCents = new(int64(1)), new(int64(2)), new(int64(3)), new(int64(4))
	req.ProductIds, req.IsRecurring, req.Metadata = []string{"p-1", "p-2"}, new(true), metadata
	req.LineItems = []*affiliatev1.LineItem{
		{ProductId: "p-1", Quantity: new(int64(2)), AmountCents: 9_000}, {ProductId: "p-2", AmountCents: 1_000},
	}
	reported := f.mustReport(req)

	want := &affiliatev1.Conversion{
		Id: reported.GetId(), WorkspaceId: f.Scope.Workspace.String(), Mode: affiliatev1.Mode_MODE_TEST,
		ExternalTransactionId: "order-1", EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, AmountCents: 10_000, Currency: new("EUR"),
		TaxCents: 1, ShippingCents: 2, FeeCents: 3, DiscountCents: 4,
		Status: affiliatev1.ConversionStatus_CONVERSION_STATUS_RECORDED, Source: affiliatev1.ConversionSource_CONVERSION_SOURCE_API,
		OccurredAt: reported.GetOccurredAt(), CreatedAt: reported.GetCreatedAt(),
		Attributed: true, Attribution: reported.GetAttribution(), Commission: reported.GetCommission(), Fraud: reported.GetFraud(),
		FraudScore: int32(f.Count(`select fraud_score from conversions`)),
		ProgramId:  new(f.Program.String()), ParticipantId: new(f.pat.ID.String()), LinkId: new(f.pat.Link.String()),
		ProgramName: new("P"), PartnerName: new("Pat"),
		ClickId: new(click.ID.String()), PromoCode: new("spring"), SubscriptionId: new("sub-1"), SubId: new("s-1"),
		CustomerRef: new(f.Texts(`select left(customer_ref, 8) from conversions`)[0]),
		IsRecurring: true, RecurringIndex: new(int32(1)),
		ProductIds: req.GetProductIds(), Metadata: metadata,
		LineItems: []*affiliatev1.LineItem{
			{ProductId: "p-1", Quantity: new(int64(2)), AmountCents: 9_000}, {ProductId: "p-2", Quantity: new(int64(1)), AmountCents: 1_000},
		},
	}
	if got := f.mustGet(reported.GetId()); !proto.Equal(got, want) {
		t.Errorf("GetConversion returned\n%v, want\n%v", got, want)
	}
	servertest.WantFields(t, "list item", f.onlyListed(), &affiliatev1.ConversionListItem{
		Id: want.GetId(), Attribution: want.GetAttribution(), RecurringIndex: want.RecurringIndex,
	})
}

func TestGetConversion_ReturnsRefundsOldestFirst(t *testing.T) {
	f := newFixture(t)
	reported := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	newer := f.mustRefund("order-1", "refund-1", 700)
	f.clock.Advance(-time.Minute)
	older, err := f.service.RefundConversion(f.asKey(), &affiliatev1.RefundConversionRequest{
		ExternalTransactionId: "order-1", ExternalRefundId: "refund-2", AmountCents: new(int64(300)), Reason: new("damaged"),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.mustRefund("order-2", "parked", 0)
	// A refund that arrives before its conversion is parked. It belongs to no conversion
	// until it is applied, so GetConversion must not return it.
	f.Exec(`update refunds set external_transaction_id = 'order-1' where external_refund_id = 'parked'`)

	got := f.mustGet(reported.GetId())
	servertest.WantFields(t, "conversion", got, &affiliatev1.Conversion{
		RefundedAmountCents: 1_000, Status: affiliatev1.ConversionStatus_CONVERSION_STATUS_PARTIALLY_REFUNDED,
	})
	want := []*affiliatev1.ConversionRefund{
		{Id: older.GetId(), ExternalRefundId: "refund-2", AmountCents: 300, CreatedAt: older.GetCreatedAt(), Reason: new("damaged")},
		{Id: newer.GetId(), ExternalRefundId: "refund-1", AmountCents: 700, CreatedAt: newer.GetCreatedAt()},
	}
	if !slices.EqualFunc(got.GetRefunds(), want, func(a, b *affiliatev1.ConversionRefund) bool { return proto.Equal(a, b) }) {
		t.Errorf("GetConversion returned the refunds %v, want %v", got.GetRefunds(), want)
	}
	if got := f.onlyListed().GetRefundedAmountCents(); got != 1_000 {
		t.Errorf("the list item has the refunded amount %d, want 1000", got)
	}
}

func TestGetConversion_OfUnattributedLead(t *testing.T) {
	f := newFixture(t)
	reported := f.mustReport(lead("lead-1", f.unknownClick()))
	got, err := f.get(servertest.AsMember(t, f.Scope, f.Owner, affiliate.RoleViewer), reported.GetId())
	if err != nil {
		t.Fatal(err)
	}
	if got.GetAttribution().GetReasonCode() != "CLICK_UNKNOWN" || got.GetAttributed() {
		t.Errorf("the lead has the attribution %v, want CLICK_UNKNOWN", got.GetAttribution())
	}
	for _, name := range []string{"currency", "commission", "program_id", "participant_id", "metadata", "recurring_index", "refunds"} {
		fields := got.ProtoReflect()
		field := fields.Descriptor().Fields().ByTextName(name)
		if field == nil {
			t.Fatalf("a conversion has no field %s", name)
		}
		if fields.Has(field) {
			t.Errorf("%s of the lead is %v, want no value", name, fields.Get(field))
		}
	}
}

// After a reattribution, the detail and the list show the new participant and the new
// commission.
func TestGetConversion_ReturnsDecisionInForce(t *testing.T) {
	f := newFixture(t)
	reported := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	other := f.Join("Olga")
	moved := f.mustReattribute(reported.GetId(), other)
	servertest.WantFields(t, "conversion", f.mustGet(reported.GetId()), &affiliatev1.Conversion{
		ParticipantId: new(other.ID.String()), Attribution: moved.GetAttribution(),
		Commission: &affiliatev1.ConversionCommission{Id: moved.GetCommission().GetId()},
	})
	servertest.WantFields(t, "list item", f.onlyListed(), &affiliatev1.ConversionListItem{
		Commission: &affiliatev1.ConversionCommission{Id: moved.GetCommission().GetId()},
	})
}

func TestReads_AreLimitedToScope(t *testing.T) {
	f := newFixture(t)
	id := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID)).GetId()
	elsewhere := f.NewShop(affiliate.ModeTest)
	for name, shop := range map[string]*pgtest.Shop{"the other mode": f.InOtherMode(), "another workspace": elsewhere} {
		for caller, ctx := range map[string]context.Context{
			"a key":    servertest.AsSecretKey(t, shop.Scope),
			"a viewer": servertest.AsMember(t, shop.Scope, shop.Owner, affiliate.RoleViewer),
		} {
			t.Run(caller+" of "+name, func(t *testing.T) {
				_, err := f.get(ctx, id)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
				r, err := f.service.ListConversions(ctx, &affiliatev1.ListConversionsRequest{})
				if err != nil || len(r.GetData()) != 0 || r.GetTotal() != 0 {
					t.Errorf("ListConversions returned %v, %v; want an empty list", r, err)
				}
				for _, req := range []*affiliatev1.ListConversionsRequest{
					{ProgramId: new(f.Program.String())}, {ParticipantId: new(f.pat.ID.String())}, {LinkId: new(f.pat.Link.String())}, {PartnerAccountId: new(f.pat.Partner.String())},
				} {
					_, err = f.service.ListConversions(ctx, req)
					pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
				}
			})
		}
	}
	for _, unknown := range []string{"", "order-1", affiliate.NewID[affiliate.ConversionID](f.clock.Now()).String()} {
		_, err := f.get(f.asKey(), unknown)
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

func TestListConversions_Filters(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag))
	click := f.NewClick(f.pat)
	other := f.NewParticipant(f.Scope, f.NewProgram(f.Scope, pgtest.Rules()), f.NewPartner("Olga"))
	suspicious := purchase("order-1", click.ID)
	suspicious.CustomerEmail = new(partnerEmail)
	f.mustReport(suspicious)
	f.mustReport(purchaseBy("c-2", "order-2", f.NewClick(other).ID))
	unattributed := purchase("order-3", f.unknownClick())
	unattributed.PromoCode = new("SPRING")
	f.mustReport(unattributed)
	f.mustReport(lead("lead-4", click.ID))
	f.mustRefund("order-2", "refund-1", 1)
	for i, external := range []string{"order-1", "order-2", "order-3", "lead-4"} {
		f.Exec(`update conversions set created_at = $2 where external_transaction_id = $1`, external, time.Date(2026, 3, 1+i, 23, 30, 0, 0, time.UTC))
	}
	type request = affiliatev1.ListConversionsRequest
	all := []string{"lead-4", "order-3", "order-2", "order-1"}
	for name, tc := range map[string]struct {
		req  *request
		want []string
	}{
		"no filter":                 {&request{}, all},
		"attributed":                {&request{Attributed: new(true)}, []string{"lead-4", "order-2", "order-1"}},
		"not attributed":            {&request{Attributed: new(false)}, []string{"order-3"}},
		"event type":                {&request{EventType: affiliatev1.EventType_EVENT_TYPE_LEAD}, []string{"lead-4"}},
		"external id":               {&request{ExternalTransactionId: new("order-2")}, []string{"order-2"}},
		"external id in other case": {&request{ExternalTransactionId: new("Order-2")}, nil},
		"programme":                 {&request{ProgramId: new(other.Program.String())}, []string{"order-2"}},
		"status":                    {&request{Status: affiliatev1.ConversionStatus_CONVERSION_STATUS_PARTIALLY_REFUNDED}, []string{"order-2"}},
		"flagged":                   {&request{Flagged: new(true)}, []string{"order-1"}},
		"not flagged":               {&request{Flagged: new(false)}, []string{"lead-4", "order-3", "order-2"}},
		"link":                      {&request{LinkId: new(f.pat.Link.String())}, []string{"lead-4", "order-1"}},
		"promo code":                {&request{PromoCode: new("Spring")}, []string{"order-3"}},
		"partner":                   {&request{PartnerAccountId: new(f.pat.Partner.String())}, []string{"lead-4", "order-1"}},
		"customer":                  {&request{CustomerId: new("c-2")}, []string{"order-2"}},
		"unknown customer":          {&request{CustomerId: new("c-3")}, nil},
		"participant":               {&request{ParticipantId: new(f.pat.ID.String())}, []string{"lead-4", "order-1"}},
		"several filters": {&request{
			ParticipantId: new(f.pat.ID.String()), ProgramId: new(f.Program.String()), Attributed: new(true),
			EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, DateFrom: new("2026-03-01"),
		}, []string{"order-1"}},
		"one day": {&request{DateFrom: new("2026-03-02"), DateTo: new("2026-03-02")}, []string{"order-2"}},
		"one day in Berlin": {
			&request{DateFrom: new("2026-03-02"), DateTo: new("2026-03-02"), Timezone: new("Europe/Berlin")}, []string{"order-1"},
		},
		"one instant": {&request{DateFrom: new("2026-03-03T23:30:00Z"), DateTo: new("2026-03-03T23:30:00Z")}, []string{"order-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.list(tc.req)
			f.wantListed(r, tc.want)
			if r.GetTotal() != int64(len(tc.want)) || r.GetPage() != 1 || r.GetLimit() != 20 {
				t.Errorf("the list has the total %d, page %d and limit %d, want %d, 1 and 20", r.GetTotal(), r.GetPage(), r.GetLimit(), len(tc.want))
			}
		})
	}
	for page, want := range map[int32][]string{1: all[:3], 2: all[3:], 9: nil} {
		r := f.list(&request{Page: &page, PageSize: new(int32(3))})
		f.wantListed(r, want)
		if r.GetTotal() != 4 || r.GetPage() != page || r.GetLimit() != 3 {
			t.Errorf("page %d has the total %d, page %d and limit %d, want 4, %d and 3", page, r.GetTotal(), r.GetPage(), r.GetLimit(), page)
		}
	}
	endBeforeStart := &request{DateFrom: new("2026-03-02"), DateTo: new("2026-03-01")}
	pgtest.RequireRefusal(t, servertest.Check(f.service, endBeforeStart), affiliate.ReasonValidation, "date_to")
	_, err := f.service.ListConversions(f.asKey(), endBeforeStart)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "date_to")
}

// wantListed compares the external ids of the listed conversions.
func (f *fixture) wantListed(r *affiliatev1.ListConversionsResponse, want []string) {
	f.Helper()
	var got []string
	for _, item := range r.GetData() {
		got = append(got, item.GetExternalTransactionId())
	}
	if !slices.Equal(got, want) {
		f.Errorf("ListConversions returned %q, want %q", got, want)
	}
}

func TestListItem_HasFieldsOfDetail(t *testing.T) {
	item := (&affiliatev1.ConversionListItem{}).ProtoReflect().Descriptor().Fields()
	detail := (&affiliatev1.Conversion{}).ProtoReflect().Descriptor().Fields()
	for i := range item.Len() {
		a := item.Get(i)
		b := detail.ByNumber(a.Number())
		if b == nil || a.Name() != b.Name() || a.JSONName() != b.JSONName() || a.Kind() != b.Kind() || a.Cardinality() != b.Cardinality() ||
			a.HasPresence() != b.HasPresence() || a.Enum() != b.Enum() || a.Message() != b.Message() {
			t.Errorf("field %d is %v in the list and %v in the detail", a.Number(), a, b)
		}
	}
}
