package payout_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListPayouts_FiltersAndSortsByAge(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.partner("Anna"), f.partner("Berta")
	var batches []*affiliatev1.PayoutBatch
	for range 3 {
		f.clock.Advance(time.Minute)
		f.addCommission(anna, 100)
		f.addCommission(berta, 200)
		batches = append(batches, f.mustCreateBatch())
	}
	f.confirm(batches[0])
	draft := affiliatev1.PayoutStatus_PAYOUT_STATUS_DRAFT
	for name, c := range map[string]struct {
		req  *affiliatev1.ListPayoutsRequest
		want int64
	}{
		"all":           {&affiliatev1.ListPayoutsRequest{}, 6},
		"a status":      {&affiliatev1.ListPayoutsRequest{Status: draft}, 4},
		"a participant": {&affiliatev1.ListPayoutsRequest{ParticipantId: proto.String(anna.ID.String())}, 3},
		"both":          {&affiliatev1.ListPayoutsRequest{ParticipantId: proto.String(anna.ID.String()), Status: draft}, 2},
		"a batch":       {&affiliatev1.ListPayoutsRequest{BatchId: &batches[1].Id}, 2},
		"a programme":   {&affiliatev1.ListPayoutsRequest{ProgramId: proto.String(f.Program.String())}, 6},
	} {
		got, err := f.service.ListPayouts(f.asFinance(), c.req)
		if err != nil || got.Total != c.want || int64(len(got.Data)) != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, unknown := range []*affiliatev1.ListPayoutsRequest{
		{ProgramId: proto.String(batches[0].Id)}, {ParticipantId: proto.String(batches[0].Id)}, {BatchId: proto.String(f.Program.String())},
	} {
		if _, err := f.service.ListPayouts(f.asFinance(), unknown); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%v: %v", unknown, err)
		}
	}
	page, err := f.service.ListPayouts(f.asFinance(), &affiliatev1.ListPayoutsRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)})
	if err != nil || page.Total != 6 || len(page.Data) != 2 || page.Data[0].BatchId != batches[1].Id || page.Page != 2 || page.Limit != 2 {
		t.Errorf("%v, %v", page, err)
	}
	all, err := f.service.ListPayoutBatches(f.asFinance(), &affiliatev1.ListPayoutBatchesRequest{PageSize: proto.Int32(2)})
	if err != nil || all.Total != 3 || len(all.Data) != 2 || all.Data[0].Id != batches[2].Id || all.Data[0].PayoutCount != 2 || all.Data[0].Totals[0].AmountCents != 300 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err = f.service.ListPayoutBatches(f.asFinance(), &affiliatev1.ListPayoutBatchesRequest{
		Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED,
	}); err != nil || all.Total != 1 || !proto.Equal(all.Data[0], f.getBatch(batches[0].Id)) {
		t.Errorf("%v, %v", all, err)
	}
}

func (f *fixture) getBatch(batch string) *affiliatev1.PayoutBatch {
	f.Helper()
	b, err := f.service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: batch})
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func TestListPartnerPayouts_ShowsOwnConfirmedPayouts(t *testing.T) {
	f := newFixture(t, pgtest.Row{"name": "Alpha"})
	other := f.otherShop(pgtest.Row{"name": "Beta"})
	anna, berta := f.partner("Anna"), f.partner("Berta")
	annaInOther := f.NewParticipant(other.Scope, other.Program, anna.Partner)
	f.addCommission(anna, 100)
	f.addCommission(berta, 200)
	f.clock.Advance(time.Minute)
	other.addCommission(annaInOther, 300)
	canceled := f.mustCreateBatch()
	f.mustMove(f.payouts(canceled)[0].Id, "cancel")
	f.mustMove(f.payouts(canceled)[1].Id, "cancel")
	mine, others := f.mustCreateBatch(), other.mustCreateBatch()
	call := func(mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.PartnerToken, User: anna.Partner, Mode: mode})
	}
	list := func(mode affiliate.Mode, req *affiliatev1.ListPartnerPayoutsRequest) string {
		t.Helper()
		got, err := f.service.ListPartnerPayouts(call(mode), req)
		if err != nil || got.Total != int64(len(got.Data)) {
			t.Fatalf("%v, %v", got, err)
		}
		var all []string
		for _, p := range got.Data {
			all = append(all, fmt.Sprint(p.ProgramName, " ", p.AmountCents))
		}
		if text := protojson.Format(got); strings.Contains(text, berta.ID.String()) {
			t.Errorf("the response shows another partner's payout: %s", text)
		}
		return strings.Join(all, ", ")
	}
	if got := list("live", &affiliatev1.ListPartnerPayoutsRequest{}); got != "" {
		t.Errorf("drafts are shown: %s", got)
	}
	f.confirm(mine)
	f.clock.Advance(time.Minute)
	other.confirm(others)
	for name, c := range map[string]struct {
		mode affiliate.Mode
		req  *affiliatev1.ListPartnerPayoutsRequest
		want []string
	}{
		"all":         {"live", &affiliatev1.ListPartnerPayoutsRequest{}, []string{"Alpha 100, Beta 300", "Beta 300, Alpha 100"}}, // created in the same millisecond, so the order is not defined
		"a programme": {"live", &affiliatev1.ListPartnerPayoutsRequest{ProgramId: proto.String(f.Program.String())}, []string{"Alpha 100"}},
		"a status":    {"live", &affiliatev1.ListPartnerPayoutsRequest{Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID}, []string{""}},
		"test mode":   {"test", &affiliatev1.ListPartnerPayoutsRequest{}, []string{""}},
	} {
		got := list(c.mode, c.req)
		if got != c.want[0] && got != c.want[len(c.want)-1] {
			t.Errorf("%s: %s, want %v", name, got, c.want)
		}
	}
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	f := newFixture(t)
	for field, req := range map[string]proto.Message{
		"status":   &affiliatev1.ListPayoutsRequest{Status: 99},
		"status ":  &affiliatev1.ListPayoutBatchesRequest{Status: 99},
		"status  ": &affiliatev1.ListPartnerPayoutsRequest{Status: 99},
		"format":   &affiliatev1.ExportPayoutBatchRequest{Format: 99},
		"paid_at":  &affiliatev1.MarkPayoutPaidRequest{PaidAt: timestamppb.New(f.Now().Add(time.Millisecond))},
		"paid_at ": &affiliatev1.MarkPayoutPaidRequest{PaidAt: &timestamppb.Timestamp{Nanos: -1}},
		"cutoff":   &affiliatev1.PreviewPayoutsRequest{Cutoff: proto.String("2026-02-30")},
	} {
		if found := f.service.Check(req); len(found) != 1 || found[0].Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, found)
		}
	}
	for _, req := range []proto.Message{
		&affiliatev1.MarkPayoutPaidRequest{PaidAt: timestamppb.New(f.Now())}, &affiliatev1.MarkPayoutPaidRequest{},
		&affiliatev1.ListPayoutsRequest{}, &affiliatev1.PreviewPayoutsRequest{Cutoff: proto.String("2026-02-28")},
	} {
		if found := f.service.Check(req); found != nil {
			t.Errorf("%v: %v", req, found)
		}
	}
}
