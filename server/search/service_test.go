package search_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/search"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// records has a record of each kind, by the name of the kind.
type records struct {
	*pgtest.Shop
	ids map[string]string
}

func newRecords(shop *pgtest.Shop) records {
	jane := shop.Join("Jane Doe", pgtest.Row{"referral_code": "acme-jane"})
	shop.Exec(`update participants set partner_email = 'sales@jane.example' where id = $1`, jane.ID)
	link := shop.NewLink(jane, "acme-link")
	earned := shop.NewCommission(jane, func(c *commission.Commission) { c.ExternalTransactionID = "Acme-1" })
	code := shop.NewPromoCode(jane, "acme10")
	batch, paid := affiliate.NewID[affiliate.ID[int]](shop.Now()), affiliate.NewID[affiliate.PayoutID](shop.Now())
	shop.Insert("payout_batches", pgtest.Row{
		"workspace_id": shop.Scope.Workspace, "id": batch, "mode": shop.Scope.Mode, "status": "completed", "program_ids": []string{},
		"cutoff": shop.Now(), "created_by": shop.Owner, "created_at": shop.Now(),
	})
	shop.Insert("payouts", pgtest.Row{
		"workspace_id": shop.Scope.Workspace, "id": paid, "batch_id": batch, "mode": shop.Scope.Mode, "program_id": shop.Program,
		"participant_id": jane.ID, "partner_id": jane.Partner, "amount_cents": 1, "currency": "EUR", "commission_count": 1, "adjustment_cents": 0,
		"status": "paid", "method": "manual", "reference": "ACME-SEPA-7", "created_at": shop.Now(), "updated_at": shop.Now(),
	})
	shop.Exec(`update programs set name = 'ACME Partners', slug = 'acme' where id = $1`, shop.Program)
	shop.Exec(`insert into conversion_aliases (workspace_id, mode, id, conversion_id) values ($1, $2, 'ch_1', $3)`, shop.Scope.Workspace, shop.Scope.Mode, earned.Conversion)
	endpoint := shop.NewEndpoint(shop.Scope)
	return records{shop, map[string]string{
		"partner": jane.ID.String(), "program": shop.Program.String(), "promo_code": code.ID.String(), "link": link.ID.String(), "commission": earned.ID.String(),
		"conversion": earned.Conversion.String(), "payout": paid.String(), "payout_batch": batch.String(), "webhook": endpoint.String(),
	}}
}

// search returns the hits as texts: the kind, the title and the subtitle.
func (r records) search(service *search.Service, role affiliate.Role, text string) (hits []string) {
	r.Helper()
	found, err := service.Search(servertest.AsMember(r, r.Scope, r.Owner, role), &affiliatev1.SearchRequest{Q: text})
	if err != nil {
		r.Fatal(err)
	}
	for _, hit := range found.GetHits() {
		kind := strings.ToLower(strings.TrimPrefix(hit.GetKind().String(), "SEARCH_KIND_"))
		if hit.GetId() != r.ids[kind] && r.ids[kind] != "" {
			r.Errorf("the search for %q found the id %s of the kind %s, want %s", text, hit.GetId(), kind, r.ids[kind])
		}
		if (hit.ProgramId == nil) != (kind == "payout_batch" || kind == "webhook") || hit.ProgramId != nil && hit.GetProgramId() != r.Program.String() {
			r.Errorf("the %s has the programme %q", kind, hit.GetProgramId())
		}
		hits = append(hits, strings.TrimSpace(kind+": "+hit.GetTitle()+" "+hit.GetSubtitle()))
	}
	return hits
}

func TestSearch(t *testing.T) {
	t.Parallel()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	own := newRecords(pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive))
	others := []records{newRecords(own.InOtherMode()), newRecords(own.NewShop(affiliate.ModeLive))}
	service := search.New(own.DB)
	var shortKey string
	if err := own.SQL.QueryRow(t.Context(), `select short_key from links where id = $1`, own.ids["link"]).Scan(&shortKey); err != nil {
		t.Fatal(err)
	}
	deleted := own.NewLink(own.AnyParticipant(), "acme-deleted")
	own.Exec(`update links set deleted_at = $2 where id = $1`, deleted.ID, clock.Now())
	own.Exec(`update webhook_endpoints set description = 'ERP' where id = $1`, own.ids["webhook"])

	partner, masked := "partner: Jane Doe sales@jane.example", "partner: Jane Doe s***@jane.example"
	for name, tc := range map[string]struct {
		text string
		role affiliate.Role
		want []string
	}{
		"beginning, of all kinds in their order": {"acme", affiliate.RoleOwner, []string{
			"program: ACME Partners acme", "promo_code: acme10 Jane Doe", "link: acme-jane", "link: acme-link https://shop.example/",
			"commission: Acme-1 Jane Doe", "payout: Jane Doe ACME-SEPA-7",
		}},
		"exact order id":              {"Acme-1", affiliate.RoleFinance, []string{"commission: Acme-1 Jane Doe", "conversion: Acme-1 Jane Doe"}},
		"order id in lower case":      {"acme-1", affiliate.RoleFinance, []string{"commission: Acme-1 Jane Doe"}},
		"id of the payment processor": {"ch_1", affiliate.RoleDeveloper, []string{"conversion: Acme-1 Jane Doe"}},
		"name":                        {"JANE", affiliate.RoleManager, []string{partner}},
		"name, for a viewer":          {"jane", affiliate.RoleViewer, []string{masked}},
		"e-mail address":              {"sales@", affiliate.RoleAdmin, []string{partner}},
		"e-mail, for a viewer":        {"sales@", affiliate.RoleViewer, nil},
		"short key":                   {shortKey, affiliate.RoleOwner, []string{"link: acme-link https://shop.example/"}},
		"id of a deleted link":        {deleted.ID.String(), affiliate.RoleOwner, nil},
		"middle of a name":            {"doe", affiliate.RoleOwner, nil},
		"percent sign":                {"%%", affiliate.RoleOwner, nil},
		"id of a partner":             {own.ids["partner"], affiliate.RoleOwner, []string{partner}},
		"id of a programme":           {own.ids["program"], affiliate.RoleOwner, []string{"program: ACME Partners acme"}},
		"id of a promo code":          {own.ids["promo_code"], affiliate.RoleOwner, []string{"promo_code: acme10 Jane Doe"}},
		"id of a link":                {own.ids["link"], affiliate.RoleOwner, []string{"link: acme-link https://shop.example/"}},
		"id of a commission":          {own.ids["commission"], affiliate.RoleViewer, []string{"commission: Acme-1 Jane Doe"}},
		"id of a conversion":          {strings.ToUpper(own.ids["conversion"]), affiliate.RoleOwner, []string{"conversion: Acme-1 Jane Doe"}},
		"id of a payout":              {own.ids["payout"], affiliate.RoleOwner, []string{"payout: Jane Doe ACME-SEPA-7"}},
		"id of a batch":               {own.ids["payout_batch"], affiliate.RoleOwner, []string{"payout_batch: " + own.ids["payout_batch"] + " completed"}},
		"id of an endpoint":           {own.ids["webhook"], affiliate.RoleOwner, []string{"webhook: https://example.com/ ERP"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := records{own.Shop, own.ids}
			if name == "beginning, of all kinds in their order" {
				own.ids = nil // two links match
			}
			if got := own.search(service, tc.role, tc.text); !slices.Equal(got, tc.want) {
				t.Errorf("the search for %q found %q, want %q", tc.text, got, tc.want)
			}
		})
	}
	for _, other := range others {
		for kind, id := range other.ids {
			if hits := own.search(service, affiliate.RoleOwner, id); len(hits) != 0 {
				t.Errorf("the search for the %s of another workspace or mode found %q", kind, hits)
			}
		}
	}
}

func TestSearch_FindsFiveOfEachKind(t *testing.T) {
	t.Parallel()
	shop := pgtest.Open(t, time.Now).NewShop(affiliate.ModeLive)
	for _, name := range []string{"Ann 7", "Ann 3", "Ann 5", "Ann 1", "Ann 2", "Ann 6", "Ann 4"} {
		shop.Join(name)
	}
	shop.NewConversion(shop.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "alone" })
	r, service := records{shop, nil}, search.New(shop.DB)
	var names []string
	for _, hit := range r.search(service, affiliate.RoleViewer, "ann") {
		names = append(names, strings.TrimPrefix(hit, "partner: ")[:5])
	}
	if want := []string{"Ann 1", "Ann 2", "Ann 3", "Ann 4", "Ann 5"}; !slices.Equal(names, want) {
		t.Errorf("the search found %q, want %q", names, want)
	}
	found, err := service.Search(servertest.AsMember(t, shop.Scope, shop.Owner, affiliate.RoleOwner), &affiliatev1.SearchRequest{Q: "alone"})
	if err != nil || len(found.GetHits()) != 1 || found.GetHits()[0].Subtitle != nil || found.GetHits()[0].ProgramId != nil {
		t.Errorf("the search for a conversion without a partner returned %v, %v", found, err)
	}
}

// A search shows all kinds to all its callers, so their lists must have the policy of the search.
func TestSearch_HasPolicyOfLists(t *testing.T) {
	t.Parallel()
	want, _ := server.PolicyOf(affiliatev1.SearchService_Search_FullMethodName)
	for _, list := range []string{
		affiliatev1.ParticipantService_ListPartners_FullMethodName, affiliatev1.ProgramService_ListPrograms_FullMethodName,
		affiliatev1.PromoCodeService_ListPromoCodes_FullMethodName, affiliatev1.LinkService_ListLinks_FullMethodName,
		affiliatev1.CommissionService_ListCommissions_FullMethodName, affiliatev1.PayoutService_ListPayouts_FullMethodName,
		affiliatev1.PayoutService_ListPayoutBatches_FullMethodName, affiliatev1.WebhookService_ListWebhooks_FullMethodName,
	} {
		if got, ok := server.PolicyOf(list); !ok || got != want {
			t.Errorf("%s has the policy %+v, want that of the search, %+v", list, got, want)
		}
	}
	if got, _ := server.PolicyOf(affiliatev1.ConversionService_ListConversions_FullMethodName); got.Action != want.Action {
		t.Errorf("the list of conversions needs the permission %q, want %q", got.Action, want.Action)
	}
}

func TestSearch_ValidatesText(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{"": false, "a": false, " a ": false, "ab": true, strings.Repeat("x", 200): true, strings.Repeat("x", 201): false} {
		if found := server.ValidateItem(nil, proto.Message(&affiliatev1.SearchRequest{Q: text})); (len(found) == 0) != valid {
			t.Errorf("the text %q has the violations %v, want a valid request: %t", text, found, valid)
		}
	}
}
