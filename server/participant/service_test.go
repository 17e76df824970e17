package participant_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// withCode sets the referral code of an application.
func withCode(code string) func(*affiliatev1.ApplyRequest) {
	return func(r *affiliatev1.ApplyRequest) { r.ReferralCode = &code }
}

func TestApply(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane Doe")
	p, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.Answers = map[string]string{"Why?": "Because"} })
	if err != nil {
		t.Fatal(err)
	}
	at := server.Timestamp(f.changeTime())
	want := &affiliatev1.Participant{
		Id: p.Id, ProgramId: f.Program.String(), PartnerId: new(partner.String()), ProgramName: "P", Currency: "EUR", PartnerName: "Jane Doe",
		PartnerEmail: "jane-" + partner.String() + "@example.com", Status: pending,
		ReferralCode: "jane-doe", ApplicationAnswers: map[string]string{"Why?": "Because"}, AppliedAt: at, CreatedAt: at, UpdatedAt: at,
	}
	if !proto.Equal(p, want) {
		t.Errorf("Apply returned %v\nwant %v", p, want)
	}
	if got := f.get(p.Id); !proto.Equal(got, want) {
		t.Errorf("GetParticipant returned %v\nwant %v", got, want)
	}
	f.wantEvents(nil, "link.created", "participant.applied")
	f.WantCount(1, "default links with the referral code", `
		select count(*) from referral_codes r join links l on l.workspace_id = r.workspace_id and l.id = r.link_id
		where r.code = 'jane-doe' and r.mode = 'live' and r.participant_id = $1 and r.program_id = $2 and l.participant_id = $1 and l.program_id = $2
			and l.mode = 'live' and l.code = r.code and l.is_default and l.destination_url is null`, p.Id, f.Program)
	f.WantCount(1, "totals of the participant", `select count(*) from participant_totals where participant_id = $1 and program_id = $2 and clicks = 0`, p.Id, f.Program)
	f.wantAudits(1, "participant.apply", partner)
	if n := f.directoryJobs(p.Id); n != 1 {
		t.Errorf("Apply inserted %d jobs for the edge directory, want 1", n)
	}
	f.checkCounts()
}

func TestApply_ApprovesAtOnceIfTheProgramApprovesAutomatically(t *testing.T) {
	f := newFixture(t, pgtest.Row{"auto_approve_partners": true})
	p := f.mustApply("Jane")
	if p.Status != approved || !p.ApprovedAt.AsTime().Equal(f.changeTime()) {
		t.Errorf("Apply returned the status %v, approved at %v, want APPROVED at %v", p.Status, p.ApprovedAt.AsTime(), f.changeTime())
	}
	f.wantEvents(nil, "link.created", "participant.applied", "participant.approved")
}

// A partner applies twice at the same time. The second application must wait for the
// transaction of the first application. If this transaction is rolled back, the second
// application must succeed.
func TestApply_SucceedsAfterAnotherApplicationIsRolledBack(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")

	earlier, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Exec(t.Context(), `
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		values ($1, gen_random_uuid(), $2, 'live', $3, 'Jane', 'jane@example.com', 'pending', 'jane', '{}', $4, $4, $4)`, f.Scope.Workspace, f.Program, partner, f.Now()); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := f.apply(partner)
		result <- err
	}()
	f.AwaitLock()
	if err := earlier.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("Apply returned %v, want no error", err)
	}
}

func TestApply_FindsOnlyActivePublicPrograms(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	programWith := func(changes pgtest.Row) string { return f.NewProgram(f.Scope, changes).String() }
	for name, id := range map[string]string{
		"draft":             programWith(pgtest.Row{"status": "draft"}),
		"paused":            programWith(pgtest.Row{"status": "paused"}),
		"archived":          programWith(pgtest.Row{"status": "archived"}),
		"private":           programWith(pgtest.Row{"is_public": false}),
		"of the other mode": f.InOtherMode().Program.String(),
		"unknown":           affiliate.NewID[affiliate.ProgramID](f.Now()).String(),
		"not a UUID":        "42",
		"no id":             "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.ProgramId = id })
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	f.WantCount(0, "participants after refused applications", `select count(*) from participants`)
}

func TestApply_RequiresAcceptedTerms(t *testing.T) {
	f := newFixture(t, pgtest.Row{"terms_url": "https://a.example/terms"})
	partner := f.NewPartner("Jane")
	_, err := f.apply(partner)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "accept_terms")
	p, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.AcceptTerms = true })
	if err != nil {
		t.Fatal(err)
	}
	if got := p.TermsAcceptedAt.AsTime(); !got.Equal(f.changeTime()) {
		t.Errorf("Apply with accepted terms returned terms_accepted_at = %v, want %v", got, f.changeTime())
	}
}

func TestApply_RefusesSecondApplication(t *testing.T) {
	f := newFixture(t)
	for _, status := range statuses {
		p := f.Join("Jane", pgtest.Row{"status": status})
		_, err := f.apply(p.Partner, withCode("new-code"))
		pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	}
	f.WantCount(0, "codes of refused applications", `select count(*) from referral_codes where code = 'new-code'`)
}

func TestApply_ReferralCodes(t *testing.T) {
	f := newFixture(t)
	p, err := f.apply(f.NewPartner("Jane"), withCode("Summer_26"))
	if err != nil {
		t.Fatal(err)
	}
	if p.ReferralCode != "summer_26" {
		t.Errorf("Apply with the code Summer_26 returned the code %s, want summer_26", p.ReferralCode)
	}
	john := f.NewPartner("John")
	_, err = f.apply(john, withCode("SUMMER_26"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	_, err = f.apply(john, withCode("Google"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "referral_code")
	if p, err = f.apply(john, withCode("winter")); err != nil || p.ReferralCode != "winter" {
		t.Errorf("Apply after refusals returned the code %s, error %v, want winter", p.GetReferralCode(), err)
	}

	// The code of an application without a code comes from the partner's name.
	other := f.inNewProgram()
	for _, tc := range []struct {
		program           *fixture
		name, wantPattern string
	}{
		{f, "winter", `^winter-[a-z2-9]{3}$`},     // the name is the code of another participant
		{other, "winter", `^winter-[a-z2-9]{3}$`}, // codes are unique in the whole workspace
		{f, "Al", `^al-[a-z2-9]{3}$`},             // the name is too short for a code
		{f, "李", `^[a-z2-9]{8}$`},
	} {
		if got := tc.program.mustApply(tc.name).ReferralCode; !regexp.MustCompile(tc.wantPattern).MatchString(got) {
			t.Errorf("Apply of the partner %s returned the code %s, want %s", tc.name, got, tc.wantPattern)
		}
	}
}

func TestApply_SamePartnerInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	requireOneSuccess(t, inParallel(100, func(int) error {
		_, err := f.apply(partner)
		return err
	}), affiliate.ReasonApplicationDuplicate)
	f.WantCount(1, "participants", `select count(*) from participants`)
	f.WantCount(1, "referral codes", `select count(*) from referral_codes`)
	f.wantEvents(nil, "link.created", "participant.applied")
}

func TestApply_SameCodeInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	partners := make([]affiliate.UserID, 100)
	for i := range partners {
		partners[i] = f.NewPartner("Jane")
	}
	requireOneSuccess(t, inParallel(len(partners), func(i int) error {
		_, err := f.apply(partners[i], withCode("summer"))
		return err
	}), affiliate.ReasonReferralCodeTaken)
	f.WantCount(1, "participants", `select count(*) from participants`)
	f.wantEvents(nil, "link.created", "participant.applied")
	f.checkCounts()
}

func TestApply_SameNameInParallelGetsDifferentCodes(t *testing.T) {
	f := newFixture(t)
	partners := make([]affiliate.UserID, 50)
	for i := range partners {
		partners[i] = f.NewPartner("Jane Doe")
	}
	for i, err := range inParallel(len(partners), func(i int) error {
		_, err := f.apply(partners[i])
		return err
	}) {
		if err != nil {
			t.Errorf("Apply of partner %d: %v", i, err)
		}
	}
	f.WantCount(50, "different codes of participants",
		`select count(distinct r.code) from participants p join referral_codes r on r.participant_id = p.id and r.code = p.referral_code`)
}

func TestMoveParticipant_FromEveryStatus(t *testing.T) {
	f := newFixture(t)
	type outcome struct{ status, event string }
	// The keys are the status before the move, and the verb (see fixture.move).
	legal := map[string]outcome{
		"pending approve":     {"approved", "participant.approved"},
		"pending reject":      {"rejected", "participant.rejected"},
		"rejected approve":    {"approved", "participant.approved"},
		"approved suspend":    {"suspended", "participant.suspended"},
		"suspended reinstate": {"approved", "participant.reinstated"},
	}
	for _, from := range statuses {
		for _, verb := range verbs {
			id := f.Join("Jane", pgtest.Row{"status": from}).ID.String()
			moved, err := f.move(f.asOwner(), verb, f.Program.String(), id, nil)
			want, ok := legal[from+" "+verb]
			if !ok {
				if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState); metadata["status"] != from {
					t.Errorf("%s of a %s participant: the error has the metadata %v, want its status", verb, from, metadata)
				}
				f.wantEvents([]string{id})
				continue
			}
			if err != nil || server.EnumName(moved.Status) != want.status {
				t.Errorf("%s of a %s participant returned %v, error %v, want the status %s", verb, from, moved, err, want.status)
			}
			f.wantEvents([]string{id}, want.event)
		}
	}
}

func TestMoveParticipant_StoresReasonsAndTimes(t *testing.T) {
	f := newFixture(t)
	want := f.mustApply("Jane")
	step := func(verb string, reason *string, change func(now *timestamppb.Timestamp)) {
		t.Helper()
		f.clock.Advance(time.Second)
		got, err := f.move(f.asOwner(), verb, want.ProgramId, want.Id, reason)
		if err != nil {
			t.Fatal(err)
		}
		want.UpdatedAt = server.Timestamp(f.changeTime())
		change(want.UpdatedAt)
		if !proto.Equal(got, want) {
			t.Errorf("%s returned %v\nwant %v", verb, got, want)
		}
	}
	step("reject", new("spam"), func(now *timestamppb.Timestamp) {
		want.Status, want.RejectedAt, want.RejectionReason = rejected, now, new("spam")
	})
	step("approve", nil, func(now *timestamppb.Timestamp) {
		want.Status, want.ApprovedAt, want.RejectedAt, want.RejectionReason = approved, now, nil, nil
	})
	step("suspend", new("fraud"), func(now *timestamppb.Timestamp) {
		want.Status, want.SuspendedAt, want.SuspensionReason = suspended, now, new("fraud")
	})
	step("reinstate", nil, func(*timestamppb.Timestamp) {
		want.Status, want.SuspendedAt, want.SuspensionReason = approved, nil, nil
	})
	step("suspend", nil, func(now *timestamppb.Timestamp) {
		want.Status, want.SuspendedAt = suspended, now
	})

	audit := f.Texts(`select before::text || ' → ' || after::text from audit_log where action = 'participant.reject' and actor = $1`, f.Owner.String())
	if want := []string{`{"status": "pending"} → {"reason": "spam", "status": "rejected"}`}; !slices.Equal(audit, want) {
		t.Errorf("the audit log of the rejection has %q, want %q", audit, want)
	}
	object, previous := f.LastEvent(affiliate.EventParticipantRejected)
	for field, value := range map[string]any{
		"id": want.Id, "program_id": want.ProgramId, "partner_id": want.GetPartnerId(), "partner_name": "Jane",
		"referral_code": "jane", "status": "rejected", "reason": "spam",
	} {
		if object[field] != value {
			t.Errorf("the event has %s = %v, want %v", field, object[field], value)
		}
	}
	if object["version"] == nil || previous["status"] != "pending" {
		t.Errorf("the event has the version %v and the previous attributes %v, want a version and status = pending", object["version"], previous)
	}
	f.WantCount(0, "events that contain an email address", `select count(*) from events where convert_from(body, 'UTF8') like '%@%'`)
	if n := f.directoryJobs(want.Id); n != 6 {
		t.Errorf("an application and 5 moves inserted %d jobs for the edge directory, want 6", n)
	}
}

func TestMoveParticipant_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	requireOneSuccess(t, inParallel(100, func(int) error {
		_, err := f.move(f.asOwner(), "approve", p.ProgramId, p.Id, nil)
		return err
	}), affiliate.ReasonParticipantState)
}

func TestParticipant_ViewersSeeMaskedAddresses(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	for role, want := range map[affiliate.Role]string{
		affiliate.RoleViewer: "j***@example.com", affiliate.RoleDeveloper: p.PartnerEmail, affiliate.RoleOwner: p.PartnerEmail,
	} {
		got, err := f.service.GetParticipant(f.asMember(role), &affiliatev1.GetParticipantRequest{ProgramId: p.ProgramId, ParticipantId: p.Id})
		if err != nil || got.PartnerEmail != want {
			t.Errorf("GetParticipant as %s returned the address %s, error %v, want %s", role, got.GetPartnerEmail(), err, want)
		}
		list, err := f.service.ListParticipants(f.asMember(role), &affiliatev1.ListParticipantsRequest{ProgramId: p.ProgramId})
		if err != nil || len(list.Data) != 1 || list.Data[0].PartnerEmail != want {
			t.Errorf("ListParticipants as %s returned %v, error %v, want the address %s", role, list, err, want)
		}
	}
}
