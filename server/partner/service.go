// Package partner serves a partner's own data: the programmes that the partner has
// joined, commissions and balances, the profile, and the payout method. The programmes
// can belong to different merchants. The package also serves the list of public
// programmes.
//
// The package guarantees that a partner can read public programmes and the partner's own
// data in the mode of the call, and no other data. No response contains a field that only
// the merchant may read, for example a note or a review reason. Payout accounts are
// encrypted before they are stored.
//
// The package does not guarantee that a page and its total come from the same snapshot of
// the database.
package partner

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// Reauthenticator checks that the caller is the owner of the account. Package account
// implements it.
type Reauthenticator interface {
	// Reauthenticate checks the code if the account has a second factor, and otherwise the
	// password. factorSince is the time at which the second factor was enabled, or nil if
	// the account has none. Errors: INVALID_CREDENTIALS, RATE_LIMIT_EXCEEDED.
	Reauthenticate(ctx context.Context, password, code string) (factorSince *time.Time, err error)
}

// Config holds the dependencies and settings of a Service.
type Config struct {
	DB *postgres.DB
	// Seal encrypts and decrypts payout accounts.
	Seal server.Sealer
	// Reauthenticator checks that the owner of the account changes a payout method.
	Reauthenticator Reauthenticator
	// LinkHost is the base URL of short links, without a path, for example
	// https://go.example.com. If it is empty, responses contain no short URLs.
	LinkHost string
	// Now is the clock.
	Now func() time.Time
}

// Service implements affiliate.v1.PartnerService.
type Service struct {
	affiliatev1.UnimplementedPartnerServiceServer

	db       *postgres.DB
	seal     server.Sealer
	owners   Reauthenticator
	linkHost string
	now      func() time.Time
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, seal: c.Seal, owners: c.Reauthenticator, linkHost: c.LinkHost, now: c.Now}
}

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// ListPartnerPrograms returns one page of the programmes that the partner has joined, or
// of the public programmes.
func (s *Service) ListPartnerPrograms(ctx context.Context, req *affiliatev1.ListPartnerProgramsRequest) (*affiliatev1.ListPartnerProgramsResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter := partner.ProgramFilter{
		Public: req.GetScope() == affiliatev1.ProgramScope_PROGRAM_SCOPE_PUBLIC,
		Search: req.GetSearch(),
	}
	if caller.Participation != nil {
		filter.Program = &caller.Participation.Program
	}
	programs, total, err := partners.Programs(ctx, s.db, caller.User, caller.Mode, filter, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListPartnerProgramsResponse{
		Data: server.ConvertAll(programs, s.programToListItem), Total: server.SearchTotal(ctx, total, filter.Search),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// GetPartnerProgram returns one programme.
func (s *Service) GetPartnerProgram(ctx context.Context, req *affiliatev1.GetPartnerProgramRequest) (*affiliatev1.PartnerProgram, error) {
	caller := server.PrincipalFrom(ctx)
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err := caller.CheckProgram(id); err != nil {
		return nil, err
	}
	p, err := partners.Program(ctx, s.db, caller.User, caller.Mode, id)
	if err != nil {
		return nil, err
	}
	return s.programToProto(p), nil
}

// ListPartnerCommissions returns one page of the partner's commissions.
func (s *Service) ListPartnerCommissions(ctx context.Context, req *affiliatev1.ListPartnerCommissionsRequest) (*affiliatev1.ListPartnerCommissionsResponse, error) {
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	filter, order, err := commissionFilter(caller, req, req.ProgramId)
	if err != nil {
		return nil, err
	}
	commissions, total, err := partners.Commissions(ctx, s.db, caller.User, caller.Mode, filter, order, page)
	if err != nil {
		return nil, err
	}
	at := s.currentTime()
	toProto := func(c partner.Commission) *affiliatev1.PartnerCommission { return commissionToProto(c, at) }
	return &affiliatev1.ListPartnerCommissionsResponse{
		Data: server.ConvertAll(commissions, toProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// GetPartnerCommission returns one commission of the partner.
func (s *Service) GetPartnerCommission(ctx context.Context, req *affiliatev1.GetPartnerCommissionRequest) (*affiliatev1.PartnerCommission, error) {
	caller := server.PrincipalFrom(ctx)
	c, err := partners.Commission(ctx, s.db, caller.User, caller.Mode, server.PathID[affiliate.CommissionID](req.GetCommissionId()))
	if err != nil {
		return nil, err
	}
	if err := caller.CheckProgram(c.Program); err != nil {
		return nil, err
	}
	return commissionToProto(c, s.currentTime()), nil
}

// commissionFilter returns the filter and the order of a request for commissions. Errors:
// VALIDATION_ERROR; NOT_FOUND if a participant token is of another programme.
func commissionFilter(caller server.Principal, req interface {
	GetSortBy() string
	GetSortOrder() affiliatev1.SortOrder
	GetStatus() affiliatev1.CommissionStatus
	GetDateFrom() string
	GetDateTo() string
	GetTimezone() string
}, programID *string,
) (filter partner.CommissionFilter, order commission.Order, err error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return filter, order, err
	}
	program, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](programID))
	filter = partner.CommissionFilter{Program: program, Status: commission.Status(server.EnumName(req.GetStatus())), Created: created}
	order = commission.Order{
		By:        cmp.Or(commission.Sort(req.GetSortBy()), commission.SortCreatedAt),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	return filter, order, err
}

// ExportPartnerCommissions streams the partner's commissions as CSV.
func (s *Service) ExportPartnerCommissions(req *affiliatev1.ExportPartnerCommissionsRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	ctx := stream.Context()
	caller := server.PrincipalFrom(ctx)
	filter, order, err := commissionFilter(caller, req, req.ProgramId)
	if err != nil {
		return err
	}
	rows, err := partners.ExportCommissions(ctx, s.db, caller.User, caller.Mode, filter, order)
	if err != nil {
		return err
	}
	columns := []string{
		"id", "createdAt", "status", "commissionType", "eventType", "programName", "amountCents", "currency", "saleAmountCents", "saleCurrency",
		"linkCode", "subId", "promoCode", "holdUntil", "approvedAt", "rejectedAt", "paidAt", "refundedAt",
	}
	return server.StreamCSV(stream, "commissions", caller.Mode, s.currentTime(), columns, func(w *csv.Writer) error {
		for c, err := range rows {
			if err != nil {
				return err
			}
			writeCommission(w, c)
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeCommission(w *csv.Writer, c partner.Commission) {
	w.ID(c.ID.UUID)
	w.Time(c.CreatedAt)
	w.Text(string(c.Status))
	w.Text(string(c.Type))
	w.Text(string(c.EventType))
	w.Text(c.ProgramName)
	w.Int(c.AmountCents)
	w.Text(c.Currency)
	w.Int(c.SaleAmountCents)
	w.Text(c.SaleCurrency)
	w.OptionalText(c.LinkCode)
	w.OptionalText(c.SubID)
	w.OptionalText(c.PromoCode)
	w.OptionalTime(c.HoldUntil)
	w.OptionalTime(c.ApprovedAt)
	w.OptionalTime(c.RejectedAt)
	w.OptionalTime(c.PaidAt)
	w.OptionalTime(c.RefundedAt)
}

// GetPartnerBalances returns what the partner is owed and has earned, per currency.
func (s *Service) GetPartnerBalances(ctx context.Context, _ *affiliatev1.GetPartnerBalancesRequest) (*affiliatev1.PartnerBalances, error) {
	caller := server.PrincipalFrom(ctx)
	var (
		balances []ledger.PartnerBalance
		err      error
	)
	if caller.Participation != nil {
		balances, err = partners.ParticipantBalances(ctx, s.db, *caller.Participation, s.currentTime())
	} else {
		balances, err = partners.Balances(ctx, s.db, caller.User, caller.Mode, s.currentTime())
	}
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.PartnerBalances{Balances: make([]*affiliatev1.PartnerBalance, len(balances))}
	for i, b := range balances {
		out.Balances[i] = &affiliatev1.PartnerBalance{
			Currency: b.Currency, BalanceCents: b.BalanceCents, PendingCents: b.PendingCents, PaidCents: b.PaidCents,
			HoldCents: b.HoldCents, ReviewCents: b.PendingCents - b.HoldCents, InPayoutCents: b.InPayoutCents, PayableCents: b.BalanceCents - b.ReservedCents,
		}
	}
	return out, nil
}

// GetPartnerProfile returns the partner's profile.
func (s *Service) GetPartnerProfile(ctx context.Context, _ *affiliatev1.GetPartnerProfileRequest) (*affiliatev1.PartnerProfile, error) {
	p, err := partners.Profile(ctx, s.db, server.PrincipalFrom(ctx).User)
	if err != nil {
		return nil, err
	}
	return profileToProto(p), nil
}

// UpdatePartnerProfile changes the fields that the update mask names. A new name also
// replaces the copies of the name in the partner's participants. If nothing changes, it
// writes no audit record.
func (s *Service) UpdatePartnerProfile(ctx context.Context, req *affiliatev1.UpdatePartnerProfileRequest) (*affiliatev1.PartnerProfile, error) {
	var after partner.Profile
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := partners.LockProfile(ctx, tx, server.PrincipalFrom(ctx).User)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patchOf(req)); err != nil {
			return err
		}
		_, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || newValues == nil {
			return err
		}
		after.Version = before.Version + 1
		if err := partners.UpdateProfile(ctx, tx, after); err != nil {
			return err
		}
		if after.Name != before.Name {
			if err := partners.Rename(ctx, tx, after.ID, after.Name); err != nil {
				return err
			}
		}
		// The audit record contains the names of the changed fields, but not their
		// values, because an erasure could not remove the values from the log.
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: after.ID, Actor: server.ActorFrom(ctx), At: s.currentTime(), Action: "profile.update",
			After: map[string][]string{"changed": slices.Sorted(maps.Keys(newValues))},
		})
	})
	if err != nil {
		return nil, err
	}
	return profileToProto(after), nil
}

// SetPayoutMethod replaces the partner's payout method after the partner has proved again to be
// the owner of the account. It notifies the partner, also at the former address if the
// address of the account was changed recently. If nothing changes, it writes and sends
// nothing.
func (s *Service) SetPayoutMethod(ctx context.Context, req *affiliatev1.SetPayoutMethodRequest) (*affiliatev1.PayoutMethodDetails, error) {
	account, wrong := payoutAccount(req)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	factorSince, err := s.owners.Reauthenticate(ctx, req.GetPassword(), req.GetCode())
	if err != nil {
		return nil, err
	}
	user := server.PrincipalFrom(ctx).User
	at := s.currentTime()
	var details payout.Details
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		details, err = s.setMethod(ctx, tx, user, account, factorSince, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return payoutMethodToProto(&details), nil
}

// setMethod replaces a partner's payout method.
func (s *Service) setMethod(
	ctx context.Context, tx *postgres.Tx, user affiliate.UserID, account payout.Account, factorSince *time.Time, at time.Time,
) (details payout.Details, err error) {
	partner, err := payouts.LockMethod(ctx, tx, user)
	if err != nil {
		return details, err
	}
	change := payout.MethodChange{At: at, FactorSince: factorSince, First: partner.Method == nil}
	var oldValues any
	switch old := partner.Method; {
	case old == nil:
		if change.Owed, err = payouts.IsOwed(ctx, tx, user); err != nil {
			return details, err
		}
	case s.sameMethod(*old, account, user):
		return old.Details, nil
	default:
		oldValues = methodObject{old.Method, old.Hint}
	}
	details = change.Apply(payout.Details{Method: account.Method, Hint: account.Hint()})
	sealed, err := account.Sealed(s.seal.Seal, user)
	if err != nil {
		return details, err
	}
	if err := payouts.SetMethod(ctx, tx, user, payout.SealedMethod{Details: details, Account: sealed}); err != nil {
		return details, err
	}
	if err := tx.Notify(ctx, details.Notification(user)...); err != nil {
		return details, err
	}
	if partner.PreviousEmail != nil {
		if err := tx.SendMail(ctx, details.Warning(user, partner.Name, *partner.PreviousEmail)); err != nil {
			return details, err
		}
	}
	return details, tx.AuditAccount(ctx, affiliate.AccountAuditLine{
		User: user, Actor: server.ActorFrom(ctx), At: at, Action: "payout_method.set",
		Before: oldValues, After: methodObject{details.Method, details.Hint},
	})
}

// methodObject has the fields of a payout method that are stored in the audit log of the
// partner. The bank account (or other account) to which the partner is paid is never stored
// in the audit log.
type methodObject struct {
	Method payout.Method `json:"method"`
	Hint   *string       `json:"account_hint"`
}

// sameMethod reports whether a stored payout method has the given account. It decrypts the
// stored account, because encrypting the same text twice gives different results. A stored
// account whose key was removed counts as another one, so that the given account replaces it.
func (s *Service) sameMethod(stored payout.SealedMethod, account payout.Account, owner affiliate.UserID) bool {
	opened, err := payout.OpenAccount(stored.Method, stored.Account, s.seal.Open, owner)
	return err == nil && opened == account
}
