package participant

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// InviteParticipant creates an invitation for an e-mail address and mails a token to the
// address. The response contains another token. Only this response and its repetitions under
// the same Idempotency-Key contain that token. If an open invitation to the address was mailed
// within the last hour, InviteParticipant only changes this invitation, and the response
// contains no token.
func (s *Service) InviteParticipant(ctx context.Context, req *affiliatev1.InviteParticipantRequest) (*affiliatev1.CreatedParticipantInvite, error) {
	at := s.currentTime()
	key, err := server.OptionalKey(ctx, affiliatev1.ParticipantService_InviteParticipant_FullMethodName, req, at)
	if err != nil {
		return nil, err
	}
	return s.invite(ctx, req, key, at)
}

// BulkInviteParticipants creates several invitations, each in a separate transaction.
func (s *Service) BulkInviteParticipants(ctx context.Context, req *affiliatev1.BulkInviteParticipantsRequest) (*affiliatev1.BulkInvitesResponse, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if _, err := programs.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program); err != nil { // otherwise each item would fail
		return nil, err
	}
	var invite *affiliatev1.CreatedParticipantInvite // of the current item
	return server.Bulk(ctx, req.GetInvites(), func(item *affiliatev1.ParticipantInvitation) (_ string, err error) {
		single := &affiliatev1.InviteParticipantRequest{ProgramId: req.GetProgramId()}
		server.CopyShared(single.ProtoReflect(), item.ProtoReflect())
		invite, err = s.invite(ctx, single, nil, s.currentTime())
		return "", err
	}, func(item *affiliatev1.ParticipantInvitation, o server.BulkOutcome) *affiliatev1.BulkInviteResult {
		result := &affiliatev1.BulkInviteResult{Index: o.Index, Email: item.GetEmail(), Success: o.Success, StatusCode: o.StatusCode, Code: o.Code, Message: o.Message}
		if o.Success {
			result.StatusCode, result.Invite = http.StatusCreated, invite
		}
		return result
	}, func(results []*affiliatev1.BulkInviteResult, summary *affiliatev1.BulkSummary) *affiliatev1.BulkInvitesResponse {
		return &affiliatev1.BulkInvitesResponse{Summary: summary, Results: results}
	})
}

// invite creates an invitation and stores the response under the key, which can be nil.
func (s *Service) invite(
	ctx context.Context, req *affiliatev1.InviteParticipantRequest, key *affiliate.IdempotencyKey, at time.Time,
) (*affiliatev1.CreatedParticipantInvite, error) {
	programID := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller := server.PrincipalFrom(ctx)
	tokens, digests := account.NewInviteTokens()
	invite := participant.Invite{
		Invite:       account.NewInvite(strings.ToLower(req.GetEmail()), caller.AccountableUser(), at),
		Scope:        caller.Scope(),
		Program:      programID,
		Group:        server.ParseOptionalID[affiliate.GroupID](req.GroupId),
		ReferralCode: click.FoldCode(req.GetReferralCode()),
	}
	// The response contains the invitation in result and the token in shown. The transaction may run more than once.
	result, shown, replayed := invite, tokens.Shown, false
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		result, shown = invite, tokens.Shown
		stored, err := server.ClaimKey(ctx, tx, invite.Scope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			if result.ID, shown, err = s.seal.OpenInvite(stored); err != nil {
				return err
			}
			result, err = participants.Invite(ctx, tx, result.Scope, result.ID)
			return err
		}
		var target program.Program
		if result, target, err = storeInvite(ctx, tx, invite, digests); err != nil {
			return err
		}
		if result.ID != invite.ID { // the address has got a mail within the last hour
			shown = ""
		} else if err := s.mailInvite(ctx, tx, invite, target, req, tokens.Mailed); err != nil {
			return err
		}
		return server.StoreResponse(ctx, tx, result.Scope, key, s.seal.SealInvite(result.ID, shown))
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	invitation := inviteToProto(result, caller.Role)
	return &affiliatev1.CreatedParticipantInvite{
		Id: invitation.Id, ProgramId: invitation.ProgramId, Email: invitation.Email, GroupId: invitation.GroupId, ReferralCode: invitation.ReferralCode,
		InvitedBy: invitation.InvitedBy, CreatedAt: invitation.CreatedAt, ExpiresAt: invitation.ExpiresAt, Token: shown, Mailed: shown != "",
	}, nil
}

// storeInvite stores an invitation with the digests of its tokens, and returns it with its
// programme. It ends an earlier invitation to the same address. If the earlier invitation was
// mailed recently, it stays with the new group and code, and is returned. Errors: NOT_FOUND,
// PROGRAM_STATE_INVALID for an archived programme, VALIDATION_ERROR for a group that does not
// belong to the programme, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
func storeInvite(
	ctx context.Context, tx *postgres.Tx, invite participant.Invite, digests account.InviteDigests,
) (stored participant.Invite, program program.Program, err error) {
	// The lock ensures that no invitation is stored after the programme was archived.
	if program, err = programs.LockOpen(ctx, tx, invite.Scope, invite.Program); err != nil {
		return stored, program, err
	}
	if err := lockGroup(ctx, tx, invite.Scope, invite.Program, invite.Group); err != nil {
		return stored, program, err
	}
	if found, err := participants.HasAddress(ctx, tx, invite.Scope, invite.Program, invite.Email); err != nil {
		return stored, program, err
	} else if found {
		return stored, program, affiliate.Refuse(affiliate.ReasonApplicationDuplicate)
	}
	if invite.ReferralCode != "" {
		if taken, err := participants.HasCode(ctx, tx, invite.Scope, invite.ReferralCode); err != nil {
			return stored, program, err
		} else if taken {
			return stored, program, affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
		}
	}
	at, details := invite.CreatedAt, invite.Details()
	earlier, found, err := participants.LockOpenInvite(ctx, tx, invite.Scope, invite.Program, invite.Email)
	if err != nil {
		return stored, program, err
	}
	if found && earlier.MailedRecently(at) {
		earlier.Group, earlier.ReferralCode = invite.Group, invite.ReferralCode
		if err := participants.UpdateInvite(ctx, tx, earlier); err != nil {
			return stored, program, err
		}
		return earlier, program, tx.Audit(ctx, inviteAuditLine(ctx, earlier, "participant_invite.update", at, nil, details))
	}
	if details.Replaces, err = participants.ReplaceInvite(ctx, tx, invite, digests); err != nil {
		return stored, program, err
	}
	return invite, program, tx.Audit(ctx, inviteAuditLine(ctx, invite, "participant_invite.create", at, nil, details))
}

func inviteAuditLine(ctx context.Context, i participant.Invite, action string, at time.Time, oldValues, newValues any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: i.Workspace, Mode: &i.Mode, Actor: server.ActorFrom(ctx), At: at,
		Action: action, ResourceType: "participant_invite", ResourceID: i.ID, Before: oldValues, After: newValues,
	}
}

// mailInvite mails the token of an invitation to the invited address. Errors:
// RATE_LIMIT_EXCEEDED, EMAIL_NOT_VERIFIED.
func (s *Service) mailInvite(
	ctx context.Context, tx *postgres.Tx, invite participant.Invite, program program.Program, req *affiliatev1.InviteParticipantRequest, token string,
) (err error) {
	if err := s.invitations.Admit(ctx, tx, invite.Email); err != nil {
		return err
	}
	mail := invite.Mail()
	mail.Secret, mail.Facts.ProgramName = s.seal.SealMailToken(mail.ID, token), program.Name
	mail.Name, mail.Facts.Message = req.GetName(), req.GetMessage()
	if mail.Facts.WorkspaceName, mail.Facts.InviterName, err = participants.NamesForMail(ctx, tx, invite.Workspace, invite.InvitedBy); err != nil {
		return err
	}
	if mail.Facts.Rate, mail.Facts.Link, err = termsOf(ctx, tx, program, invite.Group, invite.ReferralCode); err != nil {
		return err
	}
	return tx.SendMail(ctx, mail)
}

// termsOf returns the rate of the programme or the group in words, and the link of a
// participant with a referral code. The link is empty if the code is empty.
func termsOf(ctx context.Context, tx *postgres.Tx, program program.Program, group *affiliate.GroupID, code string) (rate, link string, err error) {
	own, err := programs.GroupRate(ctx, tx, program.Scope, program.ID, group)
	if err != nil {
		return "", "", err
	}
	if code != "" {
		link = program.ReferralURL(code)
	}
	return program.Rules.RateText(own, program.Currency), link, nil
}

// ListParticipantInvites returns one page of a programme's open invitations, newest
// first.
func (s *Service) ListParticipantInvites(
	ctx context.Context, req *affiliatev1.ListParticipantInvitesRequest,
) (*affiliatev1.ListParticipantInvitesResponse, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	if _, err := programs.Get(ctx, s.db, caller.Scope(), program); err != nil {
		return nil, err
	}
	invites, total, err := participants.ListInvites(ctx, s.db, caller.Scope(), program, s.currentTime(), page)
	if err != nil {
		return nil, err
	}
	toProto := func(i participant.ListedInvite) *affiliatev1.ParticipantInvite {
		invite := inviteToProto(i.Invite, caller.Role)
		invite.InvitedByName = i.InvitedByName
		return invite
	}
	return &affiliatev1.ListParticipantInvitesResponse{
		Data: server.ConvertAll(invites, toProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// RevokeParticipantInvite revokes an open invitation.
func (s *Service) RevokeParticipantInvite(
	ctx context.Context, req *affiliatev1.RevokeParticipantInviteRequest,
) (*affiliatev1.RevokeParticipantInviteResponse, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	id := server.PathID[affiliate.InviteID](req.GetInviteId())
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		invite, err := participants.LockInvite(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if invite.Program != program || !invite.Open(at) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		invite.EndedAt = &at
		if err := participants.UpdateInvite(ctx, tx, invite); err != nil {
			return err
		}
		return tx.Audit(ctx, inviteAuditLine(ctx, invite, "participant_invite.revoke", at, invite.Details(), nil))
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.RevokeParticipantInviteResponse{}, nil
}

func inviteToProto(i participant.Invite, role affiliate.Role) *affiliatev1.ParticipantInvite {
	out := &affiliatev1.ParticipantInvite{
		Id:        i.ID.String(),
		ProgramId: i.Program.String(),
		Email:     emailFor(role, i.Email),
		GroupId:   server.OptionalID(i.Group),
		InvitedBy: i.InvitedBy.String(),
		CreatedAt: server.Timestamp(i.CreatedAt),
		ExpiresAt: server.Timestamp(i.ExpiresAt),
	}
	if i.ReferralCode != "" {
		out.ReferralCode = &i.ReferralCode
	}
	return out
}
