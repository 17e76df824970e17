package payout_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListPayouts_FiltersAndReturnsNewestFirst(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.partner("Anna"), f.partner("Berta")
	var batches []*affiliatev1.PayoutBatch
	names := map[string]string{} // of the batches, by id
	for i := range 3 {
		f.clock.Advance(time.Minute)
		f.addCommission(anna, 100)
		f.addCommission(berta, 200)
		batches = append(batches, f.mustCreateBatch())
		names[batches[i].Id] = strconv.Itoa(i)
	}
	f.confirm(batches[0])
	draft := affiliatev1.PayoutStatus_PAYOUT_STATUS_DRAFT
	for name, tc := range map[string]struct {
		req  *affiliatev1.ListPayoutsRequest
		want string // the batches of the payouts, then the total, the page and the limit
	}{
		"all":                    {&affiliatev1.ListPayoutsRequest{}, "2 2 1 1 0 0, total 6, page 1, limit 20"},
		"status":                 {&affiliatev1.ListPayoutsRequest{Status: draft}, "2 2 1 1, total 4, page 1, limit 20"},
		"participant":            {&affiliatev1.ListPayoutsRequest{ParticipantId: new(anna.ID.String())}, "2 1 0, total 3, page 1, limit 20"},
		"participant and status": {&affiliatev1.ListPayoutsRequest{ParticipantId: new(anna.ID.String()), Status: draft}, "2 1, total 2, page 1, limit 20"},
		"batch":                  {&affiliatev1.ListPayoutsRequest{BatchId: &batches[1].Id}, "1 1, total 2, page 1, limit 20"},
		"programme":              {&affiliatev1.ListPayoutsRequest{ProgramId: new(f.Program.String())}, "2 2 1 1 0 0, total 6, page 1, limit 20"},
		"second page":            {&affiliatev1.ListPayoutsRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, "1 1, total 6, page 2, limit 2"},
	} {
		list, err := f.service.ListPayouts(f.asFinance(), tc.req)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, p := range list.Data {
			found = append(found, names[p.BatchId])
		}
		if got := fmt.Sprintf("%s, total %d, page %d, limit %d", strings.Join(found, " "), list.Total, list.Page, list.Limit); got != tc.want {
			t.Errorf("%s: ListPayouts returned payouts of the batches %s, want %s", name, got, tc.want)
		}
	}
	for name, req := range map[string]*affiliatev1.ListPayoutsRequest{
		"unknown programme":   {ProgramId: new(batches[0].Id)},
		"unknown participant": {ParticipantId: new(batches[0].Id)},
		"unknown batch":       {BatchId: new(f.Program.String())},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.ListPayouts(f.asFinance(), req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
}

func TestListPayoutBatches(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.partner("Anna"), f.partner("Berta")
	var batches []*affiliatev1.PayoutBatch
	for range 3 {
		f.clock.Advance(time.Minute)
		f.addCommission(anna, 100)
		f.addCommission(berta, 200)
		batches = append(batches, f.mustCreateBatch())
	}
	servertest.WantFields(t, "CreatePayoutBatch", batches[2], &affiliatev1.PayoutBatch{
		PayoutCount: 2, Totals: []*affiliatev1.PayoutTotal{{Currency: "EUR", PayoutCount: 2, AmountCents: 300}},
	})
	confirmed := f.confirm(batches[0])
	for name, tc := range map[string]struct {
		req  *affiliatev1.ListPayoutBatchesRequest
		want *affiliatev1.ListPayoutBatchesResponse
	}{
		"first page": {
			&affiliatev1.ListPayoutBatchesRequest{PageSize: proto.Int32(2)},
			&affiliatev1.ListPayoutBatchesResponse{Data: []*affiliatev1.PayoutBatch{batches[2], batches[1]}, Total: 3, Page: 1, Limit: 2},
		},
		"status": {
			&affiliatev1.ListPayoutBatchesRequest{Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED},
			&affiliatev1.ListPayoutBatchesResponse{Data: []*affiliatev1.PayoutBatch{confirmed}, Total: 1, Page: 1, Limit: 20},
		},
	} {
		got, err := f.service.ListPayoutBatches(f.asFinance(), tc.req)
		if err != nil {
			t.Fatal(err)
		}
		servertest.WantMessage(t, name+": ListPayoutBatches", got, tc.want)
	}
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
	list := func(mode affiliate.Mode, req *affiliatev1.ListPartnerPayoutsRequest) string {
		t.Helper()
		got, err := f.service.ListPartnerPayouts(servertest.AsPartner(t, anna.Partner, mode), req)
		if err != nil || got.Total != int64(len(got.Data)) {
			t.Fatalf("ListPartnerPayouts returned %v, error %v, want the number of payouts as total", got, err)
		}
		var all []string
		for _, p := range got.Data {
			all = append(all, fmt.Sprint(p.ProgramName, " ", p.AmountCents))
		}
		if text := protojson.Format(got); strings.Contains(text, berta.ID.String()) {
			t.Errorf("ListPartnerPayouts shows another partner's payout: %s", text)
		}
		slices.Sort(all) // two payouts are created in the same millisecond
		return strings.Join(all, ", ")
	}
	if got := list("live", &affiliatev1.ListPartnerPayoutsRequest{}); got != "" {
		t.Errorf("ListPartnerPayouts before the confirmation returned %s, want no drafts", got)
	}
	f.confirm(mine)
	f.clock.Advance(time.Minute)
	other.confirm(others)
	for name, tc := range map[string]struct {
		mode affiliate.Mode
		req  *affiliatev1.ListPartnerPayoutsRequest
		want string
	}{
		"all":            {affiliate.ModeLive, &affiliatev1.ListPartnerPayoutsRequest{}, "Alpha 100, Beta 300"},
		"programme":      {affiliate.ModeLive, &affiliatev1.ListPartnerPayoutsRequest{ProgramId: new(f.Program.String())}, "Alpha 100"},
		"status":         {affiliate.ModeLive, &affiliatev1.ListPartnerPayoutsRequest{Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID}, ""},
		"the other mode": {affiliate.ModeTest, &affiliatev1.ListPartnerPayoutsRequest{}, ""},
	} {
		if got := list(tc.mode, tc.req); got != tc.want {
			t.Errorf("%s: ListPartnerPayouts returned %q, want %q", name, got, tc.want)
		}
	}
}

func TestGetPartnerPayout_ShowsOwnConfirmedPayout(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.partner("Anna"), f.partner("Berta")
	c := f.addCommission(anna, 100)
	batch := f.mustCreateBatch()
	id := f.payouts(batch)[0].Id
	get := func(user affiliate.UserID, mode affiliate.Mode, id string) (*affiliatev1.PartnerPayoutDetail, error) {
		return f.service.GetPartnerPayout(servertest.AsPartner(t, user, mode), &affiliatev1.GetPartnerPayoutRequest{PayoutId: id})
	}
	_, err := get(anna.Partner, affiliate.ModeLive, id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound) // a draft
	f.confirm(batch)
	got, err := get(anna.Partner, affiliate.ModeLive, id)
	if err != nil || got.Id != id || got.AmountCents != 100 || got.MerchantName == "" || len(got.Commissions) != 1 ||
		got.Commissions[0].CommissionId != c.String() || got.Commissions[0].AmountCents != 100 || got.Commissions[0].EventType != affiliatev1.EventType_EVENT_TYPE_PURCHASE {
		t.Errorf("GetPartnerPayout returned %v, %v, want the payout with its commission", got, err)
	}
	for name, err := range map[string]error{
		"another partner": second(get(berta.Partner, affiliate.ModeLive, id)), "the other mode": second(get(anna.Partner, affiliate.ModeTest, id)),
		"no id": second(get(anna.Partner, affiliate.ModeLive, "x")),
	} {
		if !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			t.Errorf("%s: error %v, want NOT_FOUND", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCheck_ReportsInvalidFields(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		req       proto.Message
		wantField string // empty if the request is valid
	}{
		{&affiliatev1.ListPayoutsRequest{Status: 99}, "status"},
		{&affiliatev1.ListPayoutBatchesRequest{Status: 99}, "status"},
		{&affiliatev1.ListPartnerPayoutsRequest{Status: 99}, "status"},
		{&affiliatev1.ExportPayoutBatchRequest{Format: 99}, "format"},
		{&affiliatev1.ExportPayoutBatchRequest{Currency: new("XXY")}, "currency"},
		{&affiliatev1.MarkPayoutPaidRequest{PaidAt: &timestamppb.Timestamp{Nanos: -1}}, "paid_at"},
		{&affiliatev1.PreviewPayoutsRequest{Cutoff: new("2026-02-30")}, "cutoff"},
		{&affiliatev1.CreatePayoutBatchRequest{Cutoff: new("tomorrow")}, "cutoff"},
		{&affiliatev1.MarkPayoutPaidRequest{PaidAt: timestamppb.New(f.Now())}, ""},
		{&affiliatev1.MarkPayoutPaidRequest{}, ""},
		{&affiliatev1.ListPayoutsRequest{}, ""},
		{&affiliatev1.PreviewPayoutsRequest{Cutoff: new("2026-02-28")}, ""},
	} {
		var fields []string
		for _, v := range f.service.Check(tc.req) {
			fields = append(fields, v.Field)
		}
		if got := strings.Join(fields, " "); got != tc.wantField {
			t.Errorf("Check of %T with %v found violations of %q, want %q", tc.req, tc.req, got, tc.wantField)
		}
	}
}
