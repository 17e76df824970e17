// Package search finds records of a workspace by an id, a name, a code or a reference, whatever
// their kind. It reads the first matches of each kind from indexes, so the cost of a search does
// not depend on the number of records. It does not rank the records of different kinds, and it
// does not find words inside a text.
package search

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// Service implements affiliate.v1.SearchService.
type Service struct {
	affiliatev1.UnimplementedSearchServiceServer
	db *postgres.DB
}

// New returns a Service.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Search returns the records of the caller's workspace and mode that match the text. All roles
// may list all kinds; a test checks this.
func (s *Service) Search(ctx context.Context, req *affiliatev1.SearchRequest) (*affiliatev1.SearchResponse, error) {
	caller := server.PrincipalFrom(ctx)
	viewer := caller.Role == affiliate.RoleViewer
	response := &affiliatev1.SearchResponse{}
	for _, of := range []struct {
		kind affiliatev1.SearchKind
		find func(context.Context, *postgres.DB, affiliate.Scope, string) ([]affiliate.Hit, error)
	}{
		{affiliatev1.SearchKind_SEARCH_KIND_PARTNER, func(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
			return participants.Search(ctx, db, scope, text, viewer)
		}},
		{affiliatev1.SearchKind_SEARCH_KIND_PROGRAM, programs.Search},
		{affiliatev1.SearchKind_SEARCH_KIND_PROMO_CODE, promocodes.Search},
		{affiliatev1.SearchKind_SEARCH_KIND_LINK, links.Search},
		{affiliatev1.SearchKind_SEARCH_KIND_COMMISSION, commissions.Search},
		{affiliatev1.SearchKind_SEARCH_KIND_CONVERSION, conversions.Search},
		{affiliatev1.SearchKind_SEARCH_KIND_PAYOUT, payouts.Search},
		{affiliatev1.SearchKind_SEARCH_KIND_PAYOUT_BATCH, payouts.SearchBatches},
		{affiliatev1.SearchKind_SEARCH_KIND_WEBHOOK, webhooks.Search},
	} {
		hits, err := of.find(ctx, s.db, caller.Scope(), req.GetQ())
		if err != nil {
			return nil, err
		}
		for _, hit := range hits {
			if viewer && of.kind == affiliatev1.SearchKind_SEARCH_KIND_PARTNER {
				hit.Subtitle = new(affiliate.MaskEmail(*hit.Subtitle))
			}
			response.Hits = append(response.Hits, &affiliatev1.SearchHit{
				Kind: of.kind, Id: hit.ID.String(), Title: hit.Title, Subtitle: hit.Subtitle, ProgramId: server.OptionalID(hit.Program),
			})
		}
	}
	return response, nil
}
