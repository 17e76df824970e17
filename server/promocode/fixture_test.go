package promocode_test

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const (
	percentage = affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE
	fixed      = affiliatev1.DiscountType_DISCOUNT_TYPE_FIXED
)

// fixture is a shop with the service under test.
type fixture struct {
	*pgtest.Shop
	service *promocode.Service
	clock   *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive)
	return &fixture{shop, promocode.New(shop.DB, clock.Now), clock}
}

// in returns a fixture whose methods work in another shop.
func (f *fixture) in(shop *pgtest.Shop) *fixture {
	return &fixture{shop, f.service, f.clock}
}

// asOwner returns the context of a call by the shop's owner.
func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

// createCode creates a promo code with a discount of 12.5 percent, as the shop's owner.
func (f *fixture) createCode(
	p pgtest.Participant, code string, change ...func(*affiliatev1.CreatePromoCodeRequest),
) (*affiliatev1.PromoCode, error) {
	req := &affiliatev1.CreatePromoCodeRequest{
		ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Code: code, DiscountType: percentage, DiscountValue: new(12.5),
	}
	for _, c := range change {
		c(req)
	}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.CreatePromoCode(f.asOwner(), req)
}

func (f *fixture) getCode(id string) (*affiliatev1.PromoCode, error) {
	return f.service.GetPromoCode(f.asOwner(), &affiliatev1.GetPromoCodeRequest{ProgramId: f.Program.String(), PromoCodeId: id})
}

// updateCode sets the ids in req and sends it as the shop's owner.
func (f *fixture) updateCode(id string, req *affiliatev1.UpdatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	req.ProgramId, req.PromoCodeId = f.Program.String(), id
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.UpdatePromoCode(f.asOwner(), req)
}

func (f *fixture) deleteCode(id string) error {
	_, err := f.service.DeletePromoCode(f.asOwner(), &affiliatev1.DeletePromoCodeRequest{ProgramId: f.Program.String(), PromoCodeId: id})
	return err
}

// listCodes returns the codes on a page of the programme's promo codes, and the number of
// codes on all pages.
func (f *fixture) listCodes(req *affiliatev1.ListPromoCodesRequest) (codes []string, total int64) {
	f.Helper()
	req.ProgramId = f.Program.String()
	page, err := f.service.ListPromoCodes(f.asOwner(), req)
	if err != nil {
		f.Fatalf("ListPromoCodes with %v: %v", req, err)
	}
	return codesOf(page.GetData()), page.GetTotal()
}

func codesOf(promoCodes []*affiliatev1.PromoCode) (codes []string) {
	for _, c := range promoCodes {
		codes = append(codes, c.GetCode())
	}
	return codes
}

// records describes what the service has written in addition to the rows of promo codes.
type records struct {
	AuditActions  []string // on one code
	Events        []string // about the same code
	DirectoryJobs int      // number of jobs that update the edge directory after changes of any code
}

func (f *fixture) recordsOf(id string) records {
	f.Helper()
	events, _ := f.Events(id)
	return records{f.AuditActions("promo_code", id), events, f.CountJobs("sync_directory")}
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
