// Package partner serves a partner's own side: the programmes of many merchants,
// what was earned in them, the account and how it is paid.
//
// It guarantees that a partner sees rows of its own participations in the mode
// of the call, and public programmes, and nothing else; that no answer holds
// what a merchant keeps to itself; and that a payout account leaves the process
// encrypted only.
//
// It does not promise that a page, its total and a balance are of the same
// instant.
package partner

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Config is what the service is made of.
type Config struct {
	Store Store
	// Seal encrypts payout accounts.
	Seal Sealer
	// LinkHost is where short links lead, as a URL without a path, for example
	// https://go.example.com; empty: the deployment has none.
	LinkHost string
	// Now is the clock.
	Now func() time.Time
}

// Service is affiliate.v1.PartnerService.
type Service struct {
	affiliatev1.UnimplementedPartnerServiceServer

	store    Store
	seal     Sealer
	linkHost string
	now      func() time.Time
}

// New makes the service.
func New(c Config) *Service {
	return &Service{store: c.Store, seal: c.Seal, linkHost: c.LinkHost, now: c.Now}
}

// at is the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListPartnerPrograms pages through the partner's programmes, or the public ones.
func (s *Service) ListPartnerPrograms(ctx context.Context, req *affiliatev1.ListPartnerProgramsRequest) (*affiliatev1.ListPartnerProgramsResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter := affiliate.PartnerProgramFilter{
		Public: req.GetScope() == affiliatev1.ProgramScope_PROGRAM_SCOPE_PUBLIC,
		Search: req.GetSearch(),
	}
	programs, total, err := s.store.PartnerPrograms(ctx, caller.User, caller.Mode, filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.PartnerProgram, len(programs))
	for i, p := range programs {
		data[i] = s.program(p)
	}
	return &affiliatev1.ListPartnerProgramsResponse{
		Data: data, Total: server.SearchTotal(ctx, total, filter.Search),
		Page: int32(page.Number), Limit: int32(page.Size), // both came in as int32
	}, nil
}

// GetPartnerProgram reads one programme.
func (s *Service) GetPartnerProgram(ctx context.Context, req *affiliatev1.GetPartnerProgramRequest) (*affiliatev1.PartnerProgram, error) {
	caller := server.PrincipalFrom(ctx)
	id, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	p, err := s.store.PartnerProgram(ctx, caller.User, caller.Mode, id)
	if err != nil {
		return nil, err
	}
	return s.program(p), nil
}

// ListPartnerCommissions pages through the partner's commissions.
func (s *Service) ListPartnerCommissions(ctx context.Context, req *affiliatev1.ListPartnerCommissionsRequest) (*affiliatev1.ListPartnerCommissionsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter := affiliate.PartnerCommissionFilter{
		Program: optionalID(req.ProgramId),
		Status:  affiliate.CommissionStatus(server.Word(req.GetStatus())),
		Created: created,
	}
	order := affiliate.CommissionOrder{
		By:        affiliate.CommissionSort(req.GetSortBy()),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	if order.By == "" {
		order.By = affiliate.SortCreatedAt
	}
	commissions, total, err := s.store.PartnerCommissions(ctx, caller.User, caller.Mode, filter, order, page)
	if err != nil {
		return nil, err
	}
	at := s.at()
	data := make([]*affiliatev1.PartnerCommission, len(commissions))
	for i, c := range commissions {
		data[i] = commission(c, at)
	}
	return &affiliatev1.ListPartnerCommissionsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both came in as int32
	}, nil
}

// GetPartnerBalances sums what the partner is owed and has earned.
func (s *Service) GetPartnerBalances(ctx context.Context, _ *affiliatev1.GetPartnerBalancesRequest) (*affiliatev1.PartnerBalances, error) {
	caller := server.PrincipalFrom(ctx)
	balances, err := s.store.PartnerBalances(ctx, caller.User, caller.Mode)
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.PartnerBalances{Balances: make([]*affiliatev1.PartnerBalance, len(balances))}
	for i, b := range balances {
		out.Balances[i] = &affiliatev1.PartnerBalance{
			Currency: b.Currency, BalanceCents: b.BalanceCents, PendingCents: b.PendingCents, PaidCents: b.PaidCents,
		}
	}
	return out, nil
}

// GetPartnerSummary counts what the partner brought.
func (s *Service) GetPartnerSummary(ctx context.Context, req *affiliatev1.GetPartnerSummaryRequest) (*affiliatev1.PartnerSummary, error) {
	period, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	stats, err := s.store.PartnerStats(ctx, caller.User, caller.Mode, optionalID(req.ProgramId), period.WholeHours())
	if err != nil {
		return nil, err
	}
	return summary(stats), nil
}

// GetPartnerProfile reads the account.
func (s *Service) GetPartnerProfile(ctx context.Context, _ *affiliatev1.GetPartnerProfileRequest) (*affiliatev1.PartnerProfile, error) {
	p, err := s.store.PartnerProfile(ctx, server.PrincipalFrom(ctx).User)
	if err != nil {
		return nil, err
	}
	return profile(p), nil
}

// UpdatePartnerProfile changes what the mask names.
func (s *Service) UpdatePartnerProfile(ctx context.Context, req *affiliatev1.UpdatePartnerProfileRequest) (*affiliatev1.PartnerProfile, error) {
	p, err := s.store.UpdatePartnerProfile(ctx, server.PrincipalFrom(ctx).User, profilePatch(req), s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return profile(p), nil
}

// SetPayoutMethod replaces the payout method.
func (s *Service) SetPayoutMethod(ctx context.Context, req *affiliatev1.SetPayoutMethodRequest) (*affiliatev1.PayoutMethodDetails, error) {
	account, wrong := payoutAccount(req)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	user := server.PrincipalFrom(ctx).User
	sealed, err := s.sealed(account, user)
	if err != nil {
		return nil, err
	}
	details, err := s.store.SetPayoutMethod(ctx, user, sealed, s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return payoutDetails(&details), nil
}

// sealed encrypts an account for its owner: in another's row it does not open.
func (s *Service) sealed(account affiliate.PayoutAccount, owner affiliate.UserID) (affiliate.SealedPayoutAccount, error) {
	out := affiliate.SealedPayoutAccount{Method: account.Method, Hint: account.Hint()}
	if account.Account == "" {
		out.Same = func(stored []byte) bool { return stored == nil }
		return out, nil
	}
	plain, err := json.Marshal(account)
	if err != nil {
		return out, err
	}
	aad := []byte(owner.String())
	out.Sealed = s.seal.Seal(plain, aad)
	out.Same = func(stored []byte) bool {
		// What does not open any more, its key being gone, is replaced.
		opened, err := s.seal.Open(stored, aad)
		return err == nil && bytes.Equal(opened, plain)
	}
	return out, nil
}

// optionalID reads a filter that the contract's annotations have checked.
func optionalID(text *string) *affiliate.ProgramID {
	if text == nil {
		return nil
	}
	// What is no UUID becomes the zero id, which nothing has.
	id, _ := affiliate.ParseID[affiliate.Program](*text)
	return &id
}
