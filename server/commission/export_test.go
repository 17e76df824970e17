package commission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
)

func (f *fixture) export(ctx context.Context, req *affiliatev1.ExportCommissionsRequest) *servertest.Download {
	f.Helper()
	d := servertest.NewDownload(ctx)
	if err := f.service.ExportCommissions(req, d); err != nil {
		f.Fatal(err)
	}
	return d
}

const csvHeader = "id,createdAt,status,commissionType,programName,partnerName,amountCents,currency,saleAmountCents,saleCurrency," +
	"externalTransactionId,promoCode,needsReview,holdUntil,approvedAt,rejectedAt,paidAt,refundedAt,payoutId\r\n"

func TestExport_WithoutCommissionsHasOnlyHeader(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	if got := f.export(f.asOwner(), &affiliatev1.ExportCommissionsRequest{}).Text(); got != csvHeader {
		t.Errorf("the export is %q, want %q", got, csvHeader)
	}
}

func TestExport_Cells(t *testing.T) {
	f := newFixture(t, affiliate.ModeTest)
	p := f.Join(`=HYPERLINK("x")`)
	payout := affiliate.NewID[affiliate.PayoutID](f.Now())
	after := func(minutes int) *time.Time { return new(f.Now().Add(time.Duration(minutes) * time.Minute)) }
	full := f.NewCommission(p, func(c *commission.Commission) {
		c.CreatedAt = f.Now().Add(time.Millisecond)
		c.Status, c.AmountCents, c.Currency, c.SaleAmountCents = commission.Refunded, 0, "USD", 4321
		c.ExternalTransactionID, c.PromoCode, c.NeedsReview = `say "hi", twice`, new(" +spring"), true
		c.HoldUntil, c.ApprovedAt, c.RejectedAt, c.PaidAt = after(1), after(2), after(3), after(4)
		c.RefundedAt, c.Payout = new(after(5).Add(7*time.Millisecond)), &payout
	})
	empty := f.NewCommission(p, func(c *commission.Commission) {
		c.Type, c.RateBps, c.FlatCents, c.ExternalTransactionID = program.Flat, nil, new(int64(5)), "-1"
	})
	want := csvHeader +
		fmt.Sprintf(`"%s","2026-03-01T12:00:00.001Z","refunded","percentage","Alpha","'=HYPERLINK(""x"")",0,"USD",4321,"EUR","say ""hi"", twice","' +spring",true,`+
			`"2026-03-01T12:01:00.000Z","2026-03-01T12:02:00.000Z","2026-03-01T12:03:00.000Z","2026-03-01T12:04:00.000Z","2026-03-01T12:05:00.007Z","%s"`, full.ID, payout) + "\r\n" +
		fmt.Sprintf(`"%s","2026-03-01T12:00:00.000Z","pending","flat","Alpha","'=HYPERLINK(""x"")",200,"EUR",1000,"EUR","'-1",,false,,,,,,`, empty.ID) + "\r\n"
	for _, role := range []affiliate.Role{affiliate.RoleOwner, affiliate.RoleViewer} {
		got := f.export(f.as(role), &affiliatev1.ExportCommissionsRequest{})
		if got.Text() != want {
			t.Errorf("the export for a member with the role %s is\n%q, want\n%q", role, got.Text(), want)
		}
		wantName := `attachment; filename="commissions-test-2026-03-01.csv"`
		if name := got.Header.Get("content-disposition"); !slices.Equal(name, []string{wantName}) {
			t.Errorf("the export has content-disposition %q, want %q", name, wantName)
		}
		if contentType := got.Chunks[0].ContentType; contentType != "text/csv; charset=utf-8" {
			t.Errorf("the export has content type %q, want text/csv; charset=utf-8", contentType)
		}
	}
}

// An export has the rows of the list with the same filter, in the same order.
func TestExport_HasRowsOfListInOrder(t *testing.T) {
	f, second := newFixtureWithCommissions(t)
	day := "2026-02-27"
	for name, tc := range map[string]struct {
		list   *affiliatev1.ListCommissionsRequest
		export *affiliatev1.ExportCommissionsRequest
	}{
		"all": {&affiliatev1.ListCommissionsRequest{}, &affiliatev1.ExportCommissionsRequest{}},
		"oldest first, from a day": {
			&affiliatev1.ListCommissionsRequest{SortOrder: 1, DateFrom: &day}, &affiliatev1.ExportCommissionsRequest{SortOrder: 1, DateFrom: &day},
		},
		"by partner, pending without review": {
			&affiliatev1.ListCommissionsRequest{SortBy: new("partnerName"), NeedsReview: new(false), Status: 1},
			&affiliatev1.ExportCommissionsRequest{SortBy: new("partnerName"), NeedsReview: new(false), Status: 1},
		},
		"by amount, search in a programme": {
			&affiliatev1.ListCommissionsRequest{SortBy: new("amountCents"), ProgramId: new(second.String()), Search: new("b")},
			&affiliatev1.ExportCommissionsRequest{SortBy: new("amountCents"), ProgramId: new(second.String()), Search: new("b")},
		},
	} {
		tc.list.PageSize = new(int32(100))
		var ids []string
		for _, row := range f.export(f.asOwner(), tc.export).Rows(t)[1:] {
			ids = append(ids, row[0])
		}
		want := idsOf(f.list(tc.list).GetData())
		if len(want) == 0 {
			t.Fatalf("%s: the list is empty", name)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: the export has the commissions %v, want those of the list %v", name, ids, want)
		}
	}
}

func TestExport_ViewerCannotSearchByEmailAddress(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	f.NewCommission(f.joinWithEmail("Anna", "secret@example.com"))
	for role, want := range map[affiliate.Role]int{affiliate.RoleOwner: 2, affiliate.RoleViewer: 1} {
		text := f.export(f.as(role), &affiliatev1.ExportCommissionsRequest{Search: new("secret@")}).Text()
		if n := strings.Count(text, "\r\n"); n != want {
			t.Errorf("the export for a member with the role %s has %d lines, want %d", role, n, want)
		}
	}
}

func TestExport_EndsWithClient(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	f.NewCommission(f.Join("Anna"))
	sendErr := errors.New("the connection was closed")
	// A workspace may run two exports at a time. If the first two exports did not end,
	// the third export would fail.
	for range 3 {
		download := servertest.NewDownload(f.asOwner())
		download.SendError = sendErr
		err := f.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{}, download)
		if !errors.Is(err, sendErr) {
			t.Errorf("an export to a closed connection returned %v, want %v", err, sendErr)
		}
	}
	ctx, cancel := context.WithCancel(f.asOwner())
	cancel()
	if err := f.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{}, servertest.NewDownload(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("an export with a canceled context returned %v, want %v", err, context.Canceled)
	}
}
