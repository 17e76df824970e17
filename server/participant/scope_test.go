package participant_test

import (
	"context"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestParticipant_OfOtherScopesIsNotFound(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	testMode, stranger := f.in(f.InOtherMode()), f.in(f.NewShop(affiliate.ModeLive))
	before := f.rowText(p.Id)
	for name, tc := range map[string]struct {
		caller      context.Context
		program, id string
	}{
		"the other mode":       {testMode.asOwner(), p.ProgramId, p.Id},
		"another workspace":    {stranger.asOwner(), p.ProgramId, p.Id},
		"another programme":    {f.asOwner(), f.NewProgram(f.Scope).String(), p.Id},
		"unknown programme":    {f.asOwner(), affiliate.NewID[affiliate.ProgramID](f.Now()).String(), p.Id},
		"unknown participant":  {f.asOwner(), p.ProgramId, affiliate.NewID[affiliate.ParticipantID](f.Now()).String()},
		"invalid id":           {f.asOwner(), p.ProgramId, "42"},
		"invalid programme id": {f.asOwner(), "42", p.Id},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetParticipant(tc.caller, &affiliatev1.GetParticipantRequest{ProgramId: tc.program, ParticipantId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, verb := range verbs {
				_, err := f.move(tc.caller, verb, tc.program, tc.id, nil)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
			_, err = f.updateAs(tc.caller, tc.program, tc.id, &updateRequest{Note: new("mine")}, "note")
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if tc.id == "42" {
				return // Check refuses a bulk request with an invalid id.
			}
			for _, verb := range []string{"approve", "reject"} {
				_, err := f.bulk(tc.caller, verb, tc.program, tc.id)
				if tc.program == "42" {
					pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
				} else if !allFailed(err) {
					t.Errorf("bulk %s returned %v, want %s", verb, err, affiliate.ReasonBulkAllFailed)
				}
			}
		})
	}
	if after := f.rowText(p.Id); after != before {
		t.Errorf("a caller of another scope changed the participant to %s\nfrom %s", after, before)
	}
}

// allFailed reports whether err says that a bulk call failed for every participant.
func allFailed(err error) bool {
	return err != nil && err.Error() == string(affiliate.ReasonBulkAllFailed)
}

func TestParticipantLists_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	testMode, stranger := f.in(f.InOtherMode()), f.in(f.NewShop(affiliate.ModeLive))
	f.mustApply("Jane")
	programID := f.Program.String()
	invite := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	for name, tc := range map[string]struct {
		caller  context.Context
		program string
	}{
		"the other mode":       {testMode.asOwner(), programID},
		"another workspace":    {stranger.asOwner(), programID},
		"unknown programme":    {f.asOwner(), affiliate.NewID[affiliate.ProgramID](f.Now()).String()},
		"invalid programme id": {f.asOwner(), "42"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, search := range []*string{nil, new("jane")} {
				_, err := f.service.ListParticipants(tc.caller, &affiliatev1.ListParticipantsRequest{ProgramId: tc.program, Search: search})
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
			_, err := f.service.ListParticipantInvites(tc.caller, &affiliatev1.ListParticipantInvitesRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.InviteParticipant(tc.caller, &inviteRequest{ProgramId: tc.program, Email: "john@example.com"})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			pgtest.RequireRefusal(t, f.revoke(tc.caller, tc.program, invite.Id), affiliate.ReasonNotFound)
		})
	}
	pgtest.RequireRefusal(t, f.revoke(f.asOwner(), f.NewProgram(f.Scope).String(), invite.Id), affiliate.ReasonNotFound)
	f.wantOpenInvites(affiliate.RoleOwner, "jane@example.com")
}
