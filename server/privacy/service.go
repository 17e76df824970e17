// Package privacy erases personal data: of a participant, of a partner's account, and of a
// workspace (docs/merchant/privacy.md#erasures).
//
// An erasure has two parts:
//
//	call ─▶ transaction: ends every access, replaces what people and receivers see ─▶ log ─▶ response
//	             │
//	             └─▶ job EraseData: replaces the rest, page by page, twice
//
// The package guarantees that the response is sent only after the erasure is committed and in
// the erasure log. It guarantees that the job finishes after a crash at any point: each page is
// one transaction, which also stores the position. The job runs its steps again a minute later,
// because a request that was running during the erasure may have stored data of the subject.
//
// Amounts, commissions, payouts and the ledger stay under a pseudonym. The digests of erased
// codes stay, so that other partners cannot use the codes.
//
// The package does not erase backups. After a restore of an older backup, Replay erases the
// subjects in the erasure log again.
package privacy

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	erasures "github.com/tributary-hq/tributary/storage/postgres/privacy"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Directory is the edge directory.
type Directory interface {
	// DeleteCodes deletes codes and short links from the directory.
	DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error
}

// DeadLetters is the Redis stream of the clicks that could not be stored. Package
// storage/clickstream implements it.
type DeadLetters interface {
	// Delete reads a page of the records after a position and deletes the records that the
	// search selects. last is the position of the last record of the page. more is false if the
	// page was the last one.
	Delete(ctx context.Context, search affiliate.DeadLetterSearch, after affiliate.StreamPosition) (last affiliate.StreamPosition, more bool, err error)
}

// Analytics keeps the sums of the analytics. Package server/analytics implements it.
type Analytics interface {
	// AddAll adds all entries of the log of a workspace to the sums. If it is called after an
	// erasure, neither the log nor the sums contain the erased values.
	AddAll(ctx context.Context, workspace affiliate.WorkspaceID) error
}

// Config configures a Service. All fields are required.
type Config struct {
	DB        *postgres.DB
	Directory Directory
	// DeadLetters has the clicks that could not be stored. They can be clicks of the subjects.
	DeadLetters DeadLetters
	// Analytics removes the values of the subjects from the sums of the analytics.
	Analytics Analytics
	// Log is the erasure log.
	Log Log
	// HashKeys are the keys of the digests of e-mail addresses.
	HashKeys affiliate.HashKeys
	Now      func() time.Time
}

// Service implements affiliate.v1.ErasureService.
type Service struct {
	affiliatev1.UnimplementedErasureServiceServer

	Config
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{Config: cfg} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// EraseParticipant erases a participant of a programme of the caller's workspace.
func (s *Service) EraseParticipant(ctx context.Context, req *affiliatev1.EraseParticipantRequest) (*affiliatev1.EraseParticipantResponse, error) {
	program, okProgram := affiliate.ParseID[affiliate.ProgramID](req.GetProgramId())
	id, okParticipant := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	if !okProgram || !okParticipant {
		return nil, affiliate.Refuse(affiliate.ReasonParticipantNotFound)
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	var erasure privacy.Erasure
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		owns, err := programs.Owns(ctx, tx, scope.Workspace, program)
		if err != nil {
			return err
		}
		if !owns {
			return affiliate.Refuse(affiliate.ReasonAccessDenied)
		}
		p, err := participants.Lock(ctx, tx, scope, program, id)
		switch {
		case errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)):
			return affiliate.Refuse(affiliate.ReasonParticipantNotFound)
		case err != nil:
			return err
		case p.ErasedAt != nil:
			return affiliate.Refuse(affiliate.ReasonAlreadyErased)
		}
		if err := refuseOpenPayout(erasures.HasOpenPayout(ctx, tx, []participant.Participant{p})); err != nil {
			return err
		}
		erasure = privacy.NewErasure(privacy.EraseParticipant, p.ID.UUID, at)
		erasure.Workspace, erasure.Mode = &p.Workspace, &p.Mode
		return s.eraseParticipant(ctx, tx, erasure, p, by)
	})
	if err != nil {
		return nil, err
	}
	if err := s.log(ctx, erasure); err != nil {
		return nil, err
	}
	return &affiliatev1.EraseParticipantResponse{ErasedAt: timestamppb.New(at)}, nil
}

// ErasePartnerAccount erases the account of the calling partner and its participations.
func (s *Service) ErasePartnerAccount(ctx context.Context, _ *affiliatev1.ErasePartnerAccountRequest) (*affiliatev1.ErasePartnerAccountResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	erasure := privacy.NewErasure(privacy.ErasePartner, caller.User.UUID, at)
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		account, found, err := erasures.LockAccount(ctx, tx, caller.User)
		switch {
		case err != nil:
			return err
		case !found:
			return affiliate.Refuse(affiliate.ReasonPartnerNotFound)
		case account.ErasedAt != nil:
			return affiliate.Refuse(affiliate.ReasonAlreadyErased)
		}
		participations, err := participants.LockAllOfPartner(ctx, tx, account.ID)
		if err != nil {
			return err
		}
		if err := refuseOpenPayout(erasures.HasOpenPayout(ctx, tx, participations)); err != nil {
			return err
		}
		return s.erasePartner(ctx, tx, erasure, account, participations)
	})
	if err != nil {
		return nil, err
	}
	if err := s.log(ctx, erasure); err != nil {
		return nil, err
	}
	return &affiliatev1.ErasePartnerAccountResponse{ErasedAt: timestamppb.New(at)}, nil
}

// EraseMerchantAccount erases the workspace of the caller.
func (s *Service) EraseMerchantAccount(ctx context.Context, _ *affiliatev1.EraseMerchantAccountRequest) (*affiliatev1.EraseMerchantAccountResponse, error) {
	caller, by, at := server.PrincipalFrom(ctx), server.ActorFrom(ctx), s.currentTime()
	if caller.Erased { // an erased member does not belong to a workspace any more
		return nil, affiliate.Refuse(affiliate.ReasonAlreadyErased)
	}
	erasure := privacy.NewErasure(privacy.EraseWorkspace, caller.Workspace.UUID, at)
	erasure.Workspace = &caller.Workspace
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		workspace, found, err := erasures.LockWorkspaceForErasure(ctx, tx, caller.Workspace)
		if err != nil {
			return err
		}
		if !found {
			return affiliate.Refuse(affiliate.ReasonMerchantNotFound)
		}
		if err := workspace.CheckErasure(); err != nil {
			return err
		}
		if err := refuseOpenPayout(erasures.WorkspaceHasOpenPayout(ctx, tx, caller.Workspace)); err != nil {
			return err
		}
		return s.eraseWorkspace(ctx, tx, erasure, workspace, by)
	})
	if err != nil {
		return nil, err
	}
	if err := s.log(ctx, erasure); err != nil {
		return nil, err
	}
	return &affiliatev1.EraseMerchantAccountResponse{ErasedAt: timestamppb.New(at)}, nil
}

// refuseOpenPayout returns err, or ERASURE_BLOCKED_PAYOUT if a payout is open.
func refuseOpenPayout(open bool, err error) error {
	if err == nil && open {
		err = affiliate.Refuse(affiliate.ReasonErasureBlockedPayout)
	}
	return err
}

// eraseParticipant erases a locked participant. It does not check for open payouts.
func (s *Service) eraseParticipant(ctx context.Context, tx *postgres.Tx, e privacy.Erasure, p participant.Participant, by affiliate.Actor) error {
	texts, err := s.anonymise(ctx, tx, p, e.At, by)
	if err != nil {
		return err
	}
	if err := deleteExports(ctx, tx, e); err != nil {
		return err
	}
	return erasures.InsertErasure(ctx, tx, e, texts, []participant.Participant{p})
}

// anonymise replaces the personal data of a locked participant, publishes the event, and
// writes the receipt to the audit log. It returns the texts that the job searches for.
func (s *Service) anonymise(ctx context.Context, tx *postgres.Tx, p participant.Participant, at time.Time, by affiliate.Actor) ([]string, error) {
	receipt, err := erasures.Receipt(ctx, tx, p)
	if err != nil {
		return nil, err
	}
	texts, err := erasures.EraseParticipant(ctx, tx, p, at)
	if err != nil {
		return nil, err
	}
	if err := tx.Publish(ctx, privacy.ParticipantErased(p, at)); err != nil {
		return nil, err
	}
	return texts, tx.Audit(ctx, affiliate.AuditLine{
		Workspace: p.Workspace, Mode: &p.Mode, Actor: by, At: at, Action: "participant.erase",
		ResourceType: "participant", ResourceID: p.ID, After: receipt,
	})
}

// erasePartner erases a locked partner's account with its locked participations.
func (s *Service) erasePartner(
	ctx context.Context, tx *postgres.Tx, e privacy.Erasure, account privacy.ErasableAccount, participations []participant.Participant,
) error {
	texts := []string{account.Email, account.Name}
	for _, p := range participations {
		// The audit logs of workspaces name the service as the actor, because the partner's
		// id and network would say more about the erased person than the workspace needs.
		found, err := s.anonymise(ctx, tx, p, e.At, affiliate.System)
		if err != nil {
			return err
		}
		texts = append(texts, found...)
	}
	if err := erasures.EraseAccountTraces(ctx, tx, account, e.At); err != nil {
		return err
	}
	if err := erasures.EraseAccount(ctx, tx, account, s.digests(account), e.At); err != nil {
		return err
	}
	if err := erasures.EndFeed(ctx, tx, notification.PartnerFeed(account.ID)); err != nil {
		return err
	}
	if err := deleteExports(ctx, tx, e); err != nil {
		return err
	}
	return erasures.InsertErasure(ctx, tx, e, texts, participations)
}

// eraseWorkspace erases a locked workspace with the accounts of its members.
func (s *Service) eraseWorkspace(ctx context.Context, tx *postgres.Tx, e privacy.Erasure, workspace privacy.ErasableWorkspace, by affiliate.Actor) error {
	texts := []string{workspace.Name}
	members, err := erasures.LockMembers(ctx, tx, *e.Workspace)
	if err != nil {
		return err
	}
	for _, member := range members {
		texts = append(texts, member.Email, member.Name)
		if err := erasures.EraseAccount(ctx, tx, member, s.digests(member), e.At); err != nil {
			return err
		}
	}
	if err := erasures.EndConnections(ctx, tx, *e.Workspace, e.At); err != nil {
		return err
	}
	if err := erasures.EraseWorkspace(ctx, tx, *e.Workspace, e.At); err != nil {
		return err
	}
	if err := erasures.EndFeed(ctx, tx, notification.WorkspaceFeed(*e.Workspace)); err != nil {
		return err
	}
	if err := deleteExports(ctx, tx, e); err != nil {
		return err
	}
	by.AddressPrefix = "" // the network of the owner is personal data
	if err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: *e.Workspace, Actor: by, At: e.At, Action: "workspace.erase", ResourceType: "workspace", ResourceID: *e.Workspace,
	}); err != nil {
		return err
	}
	return erasures.InsertErasure(ctx, tx, e, texts, nil)
}

func (s *Service) digests(subject privacy.ErasableAccount) privacy.AddressDigests {
	return privacy.AddressDigests{
		Login: account.LoginSubject(s.HashKeys, subject.Kind, subject.Email),
		Mail:  notification.MailDigest(s.HashKeys, subject.Email),
	}
}

// log appends an erasure to the erasure log and then marks the erasure as logged in the database.
func (s *Service) log(ctx context.Context, e privacy.Erasure) error {
	if err := s.Log.Append(privacy.ErasureLogEntry{At: e.At, Kind: string(e.Subject), Workspace: e.Workspace, Subject: e.SubjectID.String()}); err != nil {
		return err
	}
	return erasures.MarkLogged(ctx, s.DB, e.ID, s.Now())
}
