// Package ledger serves what partners are owed, entry by entry, and the entries
// that people make: bonuses and adjustments.
//
// It guarantees that an entry is never changed once it is there, that a balance
// is the sum of the entries of one participant and currency, and that a partner
// sees entries of its own participations in the mode of the call and no others.
//
// It does not promise that a page, its total and the balances are of the same
// instant.
package ledger

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.LedgerService.
type Service struct {
	affiliatev1.UnimplementedLedgerServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a change: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Check reports what is wrong with a request by itself.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreateLedgerEntryRequest:
		return entryOf(req).Check()
	case *affiliatev1.ListLedgerRequest:
		server.CheckWord("type", req.GetType(), &found)
	case *affiliatev1.ListPartnerLedgerRequest:
		server.CheckWord("type", req.GetType(), &found)
	}
	return found
}

// entryOf is what a request itself says of the entry that it asks for.
func entryOf(req *affiliatev1.CreateLedgerEntryRequest) affiliate.ManualEntry {
	currency := req.GetCurrency()
	if code, ok := affiliate.ParseCurrency(currency); ok {
		currency = code
	}
	return affiliate.ManualEntry{
		Type: affiliate.LedgerEntryType(server.Word(req.GetType())), AmountCents: req.GetAmountCents(), Currency: currency, Reason: req.GetReason(),
	}
}

// ListLedger pages through a participant's entries.
func (s *Service) ListLedger(ctx context.Context, req *affiliatev1.ListLedgerRequest) (*affiliatev1.ListLedgerResponse, error) {
	program, participant, err := ids(req)
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	filter := affiliate.LedgerFilter{Type: affiliate.LedgerEntryType(server.Word(req.GetType())), Currency: req.GetCurrency()}
	entries, total, balances, err := s.store.Ledger(ctx, server.PrincipalFrom(ctx).Scope(), program, participant, filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.LedgerEntry, len(entries))
	for i, e := range entries {
		data[i] = toProto(e)
	}
	return &affiliatev1.ListLedgerResponse{
		Data: data, Total: server.Total(ctx, total), Balances: toBalances(balances),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// CreateLedgerEntry adds a bonus or an adjustment.
func (s *Service) CreateLedgerEntry(ctx context.Context, req *affiliatev1.CreateLedgerEntryRequest) (*affiliatev1.LedgerEntry, error) {
	program, participant, err := ids(req)
	if err != nil {
		return nil, err
	}
	entry := entryOf(req)
	entry.Scope, entry.Program, entry.Participant = server.PrincipalFrom(ctx).Scope(), program, participant
	entry.By, entry.At = server.ActorFrom(ctx), s.at()
	added, err := s.store.AddLedgerEntry(ctx, entry)
	if err != nil {
		return nil, err
	}
	return toProto(added), nil
}

// ListPartnerLedger pages through the partner's own entries.
func (s *Service) ListPartnerLedger(ctx context.Context, req *affiliatev1.ListPartnerLedgerRequest) (*affiliatev1.ListPartnerLedgerResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter := affiliate.LedgerFilter{Type: affiliate.LedgerEntryType(server.Word(req.GetType())), Currency: req.GetCurrency()}
	if req.ProgramId != nil {
		// What is no UUID becomes the zero id, which nothing has.
		id, _ := affiliate.ParseID[affiliate.Program](req.GetProgramId())
		filter.Program = &id
	}
	entries, total, balances, err := s.store.PartnerLedger(ctx, caller.User, caller.Mode, filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.PartnerLedgerEntry, len(entries))
	for i, e := range entries {
		data[i] = toPartner(e)
	}
	return &affiliatev1.ListPartnerLedgerResponse{
		Data: data, Total: server.Total(ctx, total), Balances: toBalances(balances),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

func ids(req interface {
	GetProgramId() string
	GetParticipantId() string
},
) (affiliate.ProgramID, affiliate.ParticipantID, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return affiliate.ProgramID{}, affiliate.ParticipantID{}, err
	}
	participant, err := server.PathID[affiliate.Participant](req.GetParticipantId())
	return program, participant, err
}
