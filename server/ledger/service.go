// Package ledger serves participants' ledgers, to which merchants can add entries.
//
// The package guarantees that a stored entry never changes, except that an erasure removes
// its reason. The balance of a participant in a currency is the sum of the participant's
// entries in this currency. A partner can read the entries of the partner's own
// participants in the mode of the call, and no other entries.
//
// A statement of balances and an export each come from one snapshot of the database. The
// statement for a time is final once the books are closed for this time. Until then, an
// entry with an earlier date can still be added.
//
// The package does not guarantee that a page of entries, its total and its balances come
// from the same snapshot of the database.
package ledger

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

// Service implements affiliate.v1.LedgerService.
type Service struct {
	affiliatev1.UnimplementedLedgerServiceServer

	db  *postgres.DB
	now func() time.Time
}

// New returns a Service; now is its clock.
func New(db *postgres.DB, now func() time.Time) *Service { return &Service{db: db, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreateLedgerEntryRequest:
		return manualEntryOf(req).Check()
	case *affiliatev1.ListLedgerRequest:
		server.CheckEnum("type", req.GetType(), &found)
	case *affiliatev1.ListPartnerLedgerRequest:
		server.CheckEnum("type", req.GetType(), &found)
	case *affiliatev1.ListLedgerBalancesRequest:
		_, found = statementEnd(req, s.currentTime())
	case *affiliatev1.ExportLedgerRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	}
	return found
}

// manualEntryOf returns a new entry with the fields that the request contains.
func manualEntryOf(req *affiliatev1.CreateLedgerEntryRequest) ledger.ManualEntry {
	currency := req.GetCurrency()
	if code, ok := affiliate.ParseCurrency(currency); ok {
		currency = code
	}
	return ledger.ManualEntry{
		Type: ledger.EntryType(server.EnumName(req.GetType())), AmountCents: req.GetAmountCents(), Currency: currency, Reason: req.GetReason(),
	}
}

// ListLedger returns one page of a participant's entries.
func (s *Service) ListLedger(ctx context.Context, req *affiliatev1.ListLedgerRequest) (*affiliatev1.ListLedgerResponse, error) {
	program, participant := pathIDs(req)
	page := server.PageOf(req)
	filter := ledger.Filter{Type: ledger.EntryType(server.EnumName(req.GetType())), Currency: req.GetCurrency()}
	entries, total, balances, err := ledgers.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, participant, filter, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListLedgerResponse{
		Data:  server.ConvertAll(entries, toProto),
		Total: server.Total(ctx, total), Balances: balancesToProto(balances),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// CreateLedgerEntry adds a bonus or an adjustment to a participant's ledger. A request with
// the Idempotency-Key of an earlier request adds nothing and returns the earlier entry.
func (s *Service) CreateLedgerEntry(ctx context.Context, req *affiliatev1.CreateLedgerEntryRequest) (*affiliatev1.LedgerEntry, error) {
	program, participant := pathIDs(req)
	entry := manualEntryOf(req)
	entry.Scope, entry.Program, entry.Participant = server.PrincipalFrom(ctx).Scope(), program, participant
	entry.By, entry.At = server.ActorFrom(ctx), s.currentTime()
	key, err := server.OptionalKey(ctx, affiliatev1.LedgerService_CreateLedgerEntry_FullMethodName, req, entry.At)
	if err != nil {
		return nil, err
	}
	var added ledger.Item
	replayed := false
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if key == nil {
			added, err = addEntry(ctx, tx, entry)
			return err
		}
		stored, err := postgres.ClaimKey(ctx, tx, entry.Scope, *key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			added, err = ledgers.Get(ctx, tx, entry.Scope, string(stored))
			return err
		}
		if added, err = addEntry(ctx, tx, entry); err != nil {
			return err
		}
		// An entry never changes except for its reason, so its id is enough to repeat the response.
		return postgres.StoreResponse(ctx, tx, entry.Scope, *key, []byte(added.ID.String()))
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return toProto(added), nil
}

// addEntry adds a manual entry. Errors: NOT_FOUND, PARTICIPANT_ERASED, PERIOD_CLOSED.
func addEntry(ctx context.Context, tx *postgres.Tx, e ledger.ManualEntry) (added ledger.Item, err error) {
	participant, err := ledgers.LockParticipant(ctx, tx, e.Scope, e.Program, e.Participant)
	if err != nil {
		return added, err
	}
	closed, err := postgres.HoldBooks(ctx, tx, e.Scope.Workspace)
	if err != nil {
		return added, err
	}
	entry, err := e.Entry(participant, closed)
	if err != nil {
		return added, err
	}
	if err := ledgers.Insert(ctx, tx, entry); err != nil {
		return added, err
	}
	if err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: e.Scope.Workspace, Mode: &e.Scope.Mode, Actor: e.By, At: e.At,
		Action: "ledger." + string(e.Type), ResourceType: "ledger_entry", ResourceID: entry.ID,
		After: map[string]any{
			"participant_id": e.Participant, "amount_cents": e.AmountCents, "currency": entry.Currency, "reason": e.Reason,
		},
	}); err != nil {
		return added, err
	}
	return ledgers.Get(ctx, tx, e.Scope, entry.ID.String())
}

// ListPartnerLedger returns one page of the calling partner's own entries.
func (s *Service) ListPartnerLedger(ctx context.Context, req *affiliatev1.ListPartnerLedgerRequest) (*affiliatev1.ListPartnerLedgerResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter := ledger.Filter{Type: ledger.EntryType(server.EnumName(req.GetType())), Currency: req.GetCurrency()}
	filter.Program = server.ParseOptionalID[affiliate.ProgramID](req.ProgramId)
	entries, total, balances, err := ledgers.ListOfPartner(ctx, s.db, caller.User, caller.Mode, filter, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListPartnerLedgerResponse{
		Data: server.ConvertAll(entries, toPartnerProto), Total: server.Total(ctx, total), Balances: balancesToProto(balances),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// pathIDs returns the ids of the programme and the participant in the request's path.
func pathIDs(req interface {
	GetProgramId() string
	GetParticipantId() string
},
) (affiliate.ProgramID, affiliate.ParticipantID) {
	return server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.ParticipantID](req.GetParticipantId())
}

func toProto(e ledger.Item) *affiliatev1.LedgerEntry {
	return &affiliatev1.LedgerEntry{
		Id:            e.ID.String(),
		ProgramId:     e.Program.String(),
		ParticipantId: e.Participant.String(),
		Mode:          server.EnumValue[affiliatev1.Mode](e.Mode),
		Type:          server.EnumValue[affiliatev1.LedgerEntryType](e.Type),
		AmountCents:   e.AmountCents,
		Currency:      e.Currency,
		CommissionId:  server.OptionalID(e.Commission),
		PayoutId:      server.OptionalID(e.Payout),
		Reason:        e.Reason,
		CreatedBy:     e.CreatedBy,
		CreatedByName: e.CreatedByName,
		CreatedAt:     server.Timestamp(e.CreatedAt),
		OccurredAt:    server.OptionalTimestamp(e.OccurredAt),
	}
}

// toPartnerProto converts an entry to the message for the partner. The message does not
// contain the member of the merchant who created the entry.
func toPartnerProto(e ledger.Item) *affiliatev1.PartnerLedgerEntry {
	out := &affiliatev1.PartnerLedgerEntry{ProgramName: e.ProgramName}
	server.CopyShared(out.ProtoReflect(), toProto(e).ProtoReflect())
	return out
}

func balancesToProto(balances []ledger.Balance) []*affiliatev1.LedgerBalance {
	return server.ConvertAll(balances, func(b ledger.Balance) *affiliatev1.LedgerBalance {
		return &affiliatev1.LedgerBalance{Currency: b.Currency, BalanceCents: b.BalanceCents}
	})
}
