package participant

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// UpdateParticipant changes the fields that the update mask names. If nothing changes, it
// writes no audit record. It publishes an event only if the referral code changes; the event
// is about the default link.
func (s *Service) UpdateParticipant(ctx context.Context, req *affiliatev1.UpdateParticipantRequest) (*affiliatev1.Participant, error) {
	programID, id := pathIDs(req)
	patch := patchOf(req)
	updated, err := s.update(ctx, programID, id, func(participant.Participant) (participant.Patch, error) { return patch, nil })
	if err != nil {
		return nil, err
	}
	return toProto(updated, server.PrincipalFrom(ctx).Role), nil
}

// BulkUpdateParticipants changes the group and the tags of several participants, each in a
// separate transaction.
func (s *Service) BulkUpdateParticipants(ctx context.Context, req *affiliatev1.BulkUpdateParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	programID, scope := server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PrincipalFrom(ctx).Scope()
	var group affiliate.Change[affiliate.GroupID]
	if slices.Contains(req.GetUpdateMask().GetPaths(), "group_id") {
		group = affiliate.Change[affiliate.GroupID]{Given: true, Value: server.ParseOptionalID[affiliate.GroupID](req.GroupId)}
	}
	if _, err := programs.Get(ctx, s.db, scope, programID); err != nil { // otherwise each participant would fail
		return nil, err
	}
	// Otherwise the group would be a fault of each participant.
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error { return lockGroup(ctx, tx, scope, programID, group.Value) })
	if err != nil {
		return nil, err
	}
	removed := distinct(req.GetRemoveTags())
	return s.bulk(ctx, req, func(id affiliate.ParticipantID) (participant.Detail, error) {
		return s.update(ctx, programID, id, func(before participant.Participant) (participant.Patch, error) {
			kept := slices.DeleteFunc(slices.Clone(before.Tags), func(tag string) bool { return slices.Contains(removed, tag) })
			tags := distinct(append(kept, req.GetAddTags()...))
			if len(tags) > maxTags && len(tags) > len(before.Tags) {
				return participant.Patch{}, &affiliate.Error{Reason: affiliate.ReasonValidation, Message: "A participant can have at most 20 tags."}
			}
			return participant.Patch{Group: group, Tags: affiliate.Set(tags)}, nil
		})
	})
}

// maxTags is the maximum number of tags, as in UpdateParticipantRequest.
const maxTags = 20

// update changes a participant as UpdateParticipant does. patchOf returns the changes of the locked
// participant.
func (s *Service) update(
	ctx context.Context, programID affiliate.ProgramID, id affiliate.ParticipantID, patchOf func(participant.Participant) (participant.Patch, error),
) (updated participant.Detail, err error) {
	scope, by := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx)
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := participants.Lock(ctx, tx, scope, programID, id)
		if err != nil {
			return err
		}
		if before.ErasedAt != nil {
			return affiliate.Refuse(affiliate.ReasonParticipantErased)
		}
		patch, err := patchOf(before)
		if err != nil {
			return err
		}
		after := before.Patch(patch)
		oldValues, newValues, err := before.ChangeTo(after)
		if err != nil {
			return err
		}
		if oldValues != nil {
			after.Version, after.UpdatedAt = before.Version+1, s.currentTime()
			if err := lockGroup(ctx, tx, after.Scope, programID, patch.Group.Value); err != nil {
				return err
			}
			if err := participants.Update(ctx, tx, after); err != nil {
				return err
			}
			if after.ReferralCode == before.ReferralCode {
				err = tx.Audit(ctx, auditLine(after, "participant.update", by, oldValues, newValues))
			} else if err = links.ReplaceCode(ctx, tx, after, before.ReferralCode); err == nil {
				err = changed(ctx, tx, after, "participant.update", by, oldValues, newValues) // the code is in the edge directory
			}
			if err != nil {
				return err
			}
		}
		updated, err = participants.Get(ctx, tx, scope, programID, id)
		return err
	})
	return updated, err
}

// lockGroup does the same as participants.LockGroup for a group in the request's body. Errors:
// VALIDATION_ERROR if the group does not belong to the programme.
func lockGroup(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, programID affiliate.ProgramID, group *affiliate.GroupID) error {
	err := participants.LockGroup(ctx, tx, scope, programID, group)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return program.GroupNotInProgram()
	}
	return err
}

// patchOf returns the changes of the fields that the request's mask names. Check has
// validated the mask and the values.
func patchOf(req *affiliatev1.UpdateParticipantRequest) participant.Patch {
	var (
		patch   participant.Patch
		ignored affiliate.Violations // Check has already reported violations
	)
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "note":
			patch.Note = affiliate.Change[string]{Given: true, Value: req.Note}
		case "tags":
			patch.Tags = affiliate.Set(distinct(req.GetTags()))
		case "group_id":
			patch.Group = affiliate.Clear[affiliate.GroupID]()
			if id, ok := affiliate.ParseID[affiliate.GroupID](req.GetGroupId()); ok {
				patch.Group = affiliate.Set(id)
			}
		case "external_id":
			patch.ExternalID = affiliate.Change[string]{Given: true, Value: req.ExternalId}
		case "referral_code":
			patch.ReferralCode = affiliate.Set(click.FoldCode(req.GetReferralCode()))
		default:
			patch.Override = affiliate.Change[program.Rate]{Given: true, Value: server.ParseRate(overrideOf(req), overrideField, &ignored)}
		}
	}
	return patch
}

// overrideOf returns the commission rate that replaces the participant's stored override,
// or nil if the override must be cleared. An override is always replaced as a whole, even
// if the mask names only one of its fields. If the mask names a field of the override but
// the request contains no override, the result is an empty rate, which server.ParseRate
// rejects.
func overrideOf(req *affiliatev1.UpdateParticipantRequest) *affiliatev1.CommissionRate {
	override := req.GetCommissionOverride()
	partNamed := slices.ContainsFunc(req.GetUpdateMask().GetPaths(), func(path string) bool {
		return strings.HasPrefix(path, overrideField+".")
	})
	if override == nil && partNamed {
		return &affiliatev1.CommissionRate{}
	}
	return override
}

// distinct returns the trimmed tags without duplicates, in their original order.
func distinct(tags []string) []string {
	unique := make([]string, 0, len(tags))
	for _, tag := range tags {
		if tag = strings.TrimSpace(tag); !slices.Contains(unique, tag) {
			unique = append(unique, tag)
		}
	}
	return unique
}
