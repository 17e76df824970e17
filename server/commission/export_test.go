package commission_test

import (
	"bytes"
	"context"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// download is the stream that receives an export.
type download struct {
	grpc.ServerStream
	ctx    context.Context
	header metadata.MD
	bodies []*httpbody.HttpBody
	fail   error
}

func (d *download) Context() context.Context { return d.ctx }

func (d *download) SetHeader(md metadata.MD) error {
	d.header = metadata.Join(d.header, md)
	return nil
}

func (d *download) Send(body *httpbody.HttpBody) error {
	d.bodies = append(d.bodies, body)
	return d.fail
}

func (d *download) text() string {
	var all bytes.Buffer
	for _, body := range d.bodies {
		all.Write(body.Data)
	}
	return all.String()
}

func (m *merchant) export(ctx context.Context, req *affiliatev1.ExportCommissionsRequest) *download {
	m.w.t.Helper()
	d := &download{ctx: ctx}
	if err := m.w.service.ExportCommissions(req, d); err != nil {
		m.w.t.Fatal(err)
	}
	return d
}

const csvHeader = "id,createdAt,status,commissionType,programName,partnerName,amountCents,currency,saleAmountCents,saleCurrency," +
	"externalTransactionId,promoCode,needsReview,holdUntil,approvedAt,rejectedAt,paidAt,refundedAt,payoutId\r\n"

func TestExport_Cells(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeTest)
	if got := m.export(m.call(), &affiliatev1.ExportCommissionsRequest{}); got.text() != csvHeader {
		t.Errorf("nothing: %q", got.text())
	}
	p := m.partner(m.program, `=HYPERLINK("x")`, "secret@example.com")
	payout := affiliate.NewID[affiliate.Payout](w.now())
	at := func(minutes int) time.Time { return w.now().Add(time.Duration(minutes) * time.Minute) }
	full := m.commission(p, map[string]any{
		"status": "refunded", "amount_cents": 0, "promo_code": " +spring", "needs_review": true, "hold_until": at(1), "approved_at": at(2),
		"rejected_at": at(3), "paid_at": at(4), "refunded_at": at(5).Add(7 * time.Millisecond), "payout_id": payout,
		"currency": "USD", "sale_amount_cents": 4321, "created_at": at(0).Add(time.Millisecond),
	})
	w.Exec(`update commissions set external_transaction_id = 'say "hi", twice' where id = $1`, full)
	plain := m.commission(p, map[string]any{"commission_type": "flat", "rate_bps": nil, "flat_amount_cents": 5})
	w.Exec(`update commissions set external_transaction_id = '-1' where id = $1`, plain)
	want := csvHeader +
		fmt.Sprintf(`"%s","2026-03-01T12:00:00.001Z","refunded","percentage","Alpha","'=HYPERLINK(""x"")",0,"USD",4321,"EUR","say ""hi"", twice","' +spring",true,`+
			`"2026-03-01T12:01:00.000Z","2026-03-01T12:02:00.000Z","2026-03-01T12:03:00.000Z","2026-03-01T12:04:00.000Z","2026-03-01T12:05:00.007Z","%s"`, full, payout) + "\r\n" +
		fmt.Sprintf(`"%s","2026-03-01T12:00:00.000Z","pending","flat","Alpha","'=HYPERLINK(""x"")",200,"EUR",1000,"EUR","'-1",,false,,,,,,`, plain) + "\r\n"
	for _, role := range []affiliate.Role{affiliate.RoleOwner, affiliate.RoleViewer} {
		got := m.export(m.as(role), &affiliatev1.ExportCommissionsRequest{})
		if got.text() != want {
			t.Errorf("for a %s\ngot  %q\nwant %q", role, got.text(), want)
		}
		if name := got.header.Get("content-disposition"); len(name) != 1 || name[0] != `attachment; filename="commissions-test-2026-03-01.csv"` {
			t.Errorf("named %q", name)
		}
		if got.bodies[0].ContentType != "text/csv; charset=utf-8" {
			t.Errorf("served as %q", got.bodies[0].ContentType)
		}
	}
}

// An export has the rows of the list of the same filter, in the same order.
func TestExport_HasRowsOfListInOrder(t *testing.T) {
	m, second := stocked(t)
	day := "2026-02-27"
	for _, c := range []struct {
		list   *affiliatev1.ListCommissionsRequest
		export *affiliatev1.ExportCommissionsRequest
	}{
		{&affiliatev1.ListCommissionsRequest{}, &affiliatev1.ExportCommissionsRequest{}},
		{&affiliatev1.ListCommissionsRequest{SortOrder: 1, DateFrom: &day}, &affiliatev1.ExportCommissionsRequest{SortOrder: 1, DateFrom: &day}},
		{
			&affiliatev1.ListCommissionsRequest{SortBy: proto.String("partnerName"), NeedsReview: proto.Bool(false), Status: 1},
			&affiliatev1.ExportCommissionsRequest{SortBy: proto.String("partnerName"), NeedsReview: proto.Bool(false), Status: 1},
		},
		{
			&affiliatev1.ListCommissionsRequest{SortBy: proto.String("amountCents"), ProgramId: proto.String(second.String()), Search: proto.String("b")},
			&affiliatev1.ExportCommissionsRequest{SortBy: proto.String("amountCents"), ProgramId: proto.String(second.String()), Search: proto.String("b")},
		},
	} {
		c.list.PageSize = proto.Int32(100)
		rows, err := stdcsv.NewReader(strings.NewReader(m.export(m.call(), c.export).text())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, row := range rows[1:] {
			ids = append(ids, row[0])
		}
		if want := idsOf(m.list(t, c.list).GetData()); len(want) == 0 || strings.Join(ids, " ") != strings.Join(want, " ") {
			t.Errorf("%v: %d rows, the list has %d", c.export, len(ids), len(want))
		}
	}
	if rows := strings.Count(m.export(m.as(affiliate.RoleViewer), &affiliatev1.ExportCommissionsRequest{Search: proto.String("anna0@")}).text(), "\r\n"); rows != 1 {
		t.Error("a viewer can search the export by e-mail address")
	}
}

func TestExport_EndsWithClient(t *testing.T) {
	m, _ := stocked(t)
	gone := errors.New("gone")
	d := &download{ctx: m.call(), fail: gone}
	for range 3 { // a workspace may run two exports at a time
		if err := m.w.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{}, d); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithCancel(m.call())
	cancel()
	if err := m.w.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{}, &download{ctx: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
