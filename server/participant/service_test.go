package participant_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestApply(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane Doe")
	p, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.Answers = map[string]string{"Why?": "Because"} })
	if err != nil {
		t.Fatal(err)
	}
	at := server.Timestamp(f.Now().Truncate(time.Millisecond))
	want := &affiliatev1.Participant{
		Id: p.Id, ProgramId: f.Program.String(), PartnerId: partner.String(), PartnerName: "Jane Doe",
		PartnerEmail: "jane-" + partner.String() + "@example.com", Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING,
		ReferralCode: "jane-doe", ApplicationAnswers: map[string]string{"Why?": "Because"}, AppliedAt: at, CreatedAt: at, UpdatedAt: at,
	}
	if !proto.Equal(p, want) {
		t.Errorf("applied %v\n   want %v", p, want)
	}
	read, err := f.service.GetParticipant(f.asMerchant(affiliate.RoleOwner), &affiliatev1.GetParticipantRequest{ProgramId: f.Program.String(), ParticipantId: p.Id})
	if err != nil || !proto.Equal(read, want) {
		t.Errorf("read %v, %v", read, err)
	}
	if got := f.eventTypes(); !slices.Equal(got, []string{"link.created", "participant.applied"}) {
		t.Errorf("events %v", got)
	}
	if f.Count(`
		select count(*) from referral_codes r join links l on l.workspace_id = r.workspace_id and l.id = r.link_id
		where r.code = 'jane-doe' and r.mode = 'live' and r.participant_id = $1 and r.program_id = $2 and l.participant_id = $1 and l.program_id = $2
			and l.mode = 'live' and l.code = r.code and l.is_default and l.destination_url is null`, p.Id, f.Program) != 1 ||
		f.Count(`select count(*) from participant_totals where participant_id = $1 and program_id = $2 and clicks = 0`, p.Id, f.Program) != 1 ||
		f.Count(`select count(*) from audit_log where action = 'participant.apply' and resource_id = $1 and actor = $2`, p.Id, partner.String()) != 1 ||
		f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, p.Id) != 1 {
		t.Error("code, link, totals, audit log or job is missing")
	}
	f.checkCounts()
}

func TestApply_IsApprovedIfTheProgramApprovesAutomatically(t *testing.T) {
	f := newFixture(t)
	f.Exec(`update programs set auto_approve_partners = true`)
	p := f.mustApply("Jane")
	if p.Status != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || p.ApprovedAt == nil {
		t.Errorf("applied %v", p)
	}
	if got := f.eventTypes(); !slices.Equal(got, []string{"link.created", "participant.applied", "participant.approved"}) {
		t.Errorf("events %v", got)
	}
}

func TestApply_FindsOnlyActivePublicPrograms(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	for name, sql := range map[string]string{
		"draft": `update programs set status = 'draft'`, "paused": `update programs set status = 'paused'`,
		"archived": `update programs set status = 'archived'`, "private": `update programs set is_public = false`,
		"of the other mode": `update programs set mode = 'test'`,
	} {
		t.Run(name, func(t *testing.T) {
			f.Exec(sql)
			_, err := f.apply(partner, nil)
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			f.Exec(`update programs set status = 'active', is_public = true, mode = 'live'`)
		})
	}
	for _, id := range []string{"", "42", affiliate.NewID[affiliate.Program](f.Now()).String()} {
		_, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.ProgramId = id })
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	if f.Count(`select count(*) from participants`) != 0 {
		t.Error("a refused application stored a row")
	}
}

func TestApply_RequiresAcceptedTerms(t *testing.T) {
	f := newFixture(t)
	f.Exec(`update programs set terms_url = 'https://a.example/terms'`)
	partner := f.NewPartner("Jane")
	_, err := f.apply(partner, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "accept_terms")
	p, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.AcceptTerms = true })
	if err != nil || p.TermsAcceptedAt == nil {
		t.Errorf("%v, %v", p, err)
	}
}

func TestApply_SecondApplicationIsADuplicate(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	if _, err := f.apply(partner, nil); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"pending", "approved", "rejected", "suspended"} {
		f.Exec(`update participants set status = $1`, status)
		_, err := f.apply(partner, func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("fresh-code") })
		pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	}
	if f.Count(`select count(*) from referral_codes`) != 1 {
		t.Error("a refused application stored a code")
	}
	first := f.Program
	f.Program = f.NewProgram(f.Scope)
	if p, err := f.apply(partner, nil); err != nil || !regexp.MustCompile(`^jane-[a-z2-9]{3}$`).MatchString(p.ReferralCode) {
		t.Errorf("another programme: %v, %v", p, err)
	}
	f.Program = first
}

func TestApply_ReferralCodes(t *testing.T) {
	f := newFixture(t)
	code := func(code string) func(*affiliatev1.ApplyRequest) {
		return func(r *affiliatev1.ApplyRequest) { r.ReferralCode = &code }
	}
	p, err := f.apply(f.NewPartner("Jane"), code("Summer_26"))
	if err != nil || p.ReferralCode != "summer_26" {
		t.Fatalf("%v, %v", p, err)
	}
	late := f.NewPartner("John")
	_, err = f.apply(late, code("SUMMER_26"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	if p, err = f.apply(late, code("winter")); err != nil || p.ReferralCode != "winter" {
		t.Errorf("another code after a refusal: %v, %v", p, err)
	}
	_, err = f.apply(f.NewPartner("Jim"), code("Google"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "referral_code")
	for name, form := range map[string]string{"winter": `^winter-[a-z2-9]{3}$`, "Al": `^al-[a-z2-9]{3}$`, "李": `^[a-z2-9]{8}$`} {
		if p := f.mustApply(name); !regexp.MustCompile(form).MatchString(p.ReferralCode) {
			t.Errorf("%s got %s", name, p.ReferralCode)
		}
	}
}

func TestApply_SamePartnerInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	f.expectOneSuccessOf100(func(int) error { _, err := f.apply(partner, nil); return err }, affiliate.ReasonApplicationDuplicate)
	if f.Count(`select count(*) from participants`) != 1 || f.Count(`select count(*) from referral_codes`) != 1 || len(f.eventTypes()) != 2 {
		t.Error("a refused application stored something")
	}
}

func TestApply_SameCodeInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	partners := make([]affiliate.UserID, 100)
	for i := range partners {
		partners[i] = f.NewPartner("Jane")
	}
	defer f.checkCounts()
	f.expectOneSuccessOf100(func(i int) error {
		_, err := f.apply(partners[i], func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("summer") })
		return err
	}, affiliate.ReasonReferralCodeTaken)
	if f.Count(`select count(*) from participants`) != 1 || len(f.eventTypes()) != 2 {
		t.Error("a refused application stored something")
	}
}

// expectOneSuccessOf100 is expectOneSuccess with 100 calls.
func (f *fixture) expectOneSuccessOf100(run func(i int) error, reason affiliate.Reason) {
	f.Helper()
	f.expectOneSuccess(100, run, reason)
}

// expectOneSuccess calls run n times in parallel. One call must succeed, and all others
// must be refused with reason.
func (f *fixture) expectOneSuccess(n int, run func(i int) error, reason affiliate.Reason) {
	f.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = run(i) })
	}
	wg.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		pgtest.RequireRefusal(f, err, reason)
	}
	if succeeded != 1 {
		f.Errorf("%d of %d calls succeeded", succeeded, len(errs))
	}
}

func TestApply_SameNameInParallelGetsDifferentCodes(t *testing.T) {
	f := newFixture(t)
	partners := make([]affiliate.UserID, 50)
	for i := range partners {
		partners[i] = f.NewPartner("Jane Doe")
	}
	var wg sync.WaitGroup
	for _, partner := range partners {
		wg.Go(func() {
			if _, err := f.apply(partner, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := f.Count(`select count(*) from participants t join referral_codes r on r.participant_id = t.id and r.code = t.referral_code`); n != 50 {
		t.Errorf("%d of 50 participants have a code", n)
	}
}

func TestMoveParticipant_FromEveryStatus(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	owner := f.asMerchant(affiliate.RoleOwner)
	legal := map[string]string{
		"pending approve": "approved", "pending reject": "rejected", "rejected approve": "approved",
		"approved suspend": "suspended", "suspended reinstate": "approved",
	}
	events := map[string]string{"approve": "participant.approved", "reject": "participant.rejected", "suspend": "participant.suspended", "reinstate": "participant.reinstated"}
	for _, from := range []string{"pending", "approved", "rejected", "suspended"} {
		for _, verb := range verbs {
			f.Exec(`update participants set status = $1`, from)
			f.Exec(`delete from events`)
			f.clock.Advance(time.Second)
			moved, err := f.move(owner, verb, p.ProgramId, p.Id, nil)
			to, ok := legal[from+" "+verb]
			if !ok {
				if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState); metadata["status"] != from {
					t.Errorf("%s %s: metadata %v", from, verb, metadata)
				}
				if len(f.eventTypes()) != 0 {
					t.Errorf("%s %s: events %v", from, verb, f.eventTypes())
				}
				continue
			}
			if err != nil || server.EnumName(moved.Status) != to {
				t.Errorf("%s %s: %v, %v", from, verb, moved, err)
			}
			if got := f.eventTypes(); !slices.Equal(got, []string{events[verb]}) {
				t.Errorf("%s %s: events %v", from, verb, got)
			}
		}
	}
	f.Exec(`update participants set erased_at = $1`, f.Now())
	for _, verb := range verbs {
		_, err := f.move(owner, verb, p.ProgramId, p.Id, nil)
		pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	}
}

func TestMoveParticipant_StoresReasonsAndTimes(t *testing.T) {
	f := newFixture(t)
	owner := f.asMerchant(affiliate.RoleOwner)
	p := f.mustApply("Jane")
	step := func(verb string, reason *string) *affiliatev1.Participant {
		t.Helper()
		f.clock.Advance(time.Second)
		moved, err := f.move(owner, verb, p.ProgramId, p.Id, reason)
		if err != nil {
			t.Fatal(err)
		}
		if !moved.UpdatedAt.AsTime().Equal(f.Now().Truncate(time.Millisecond)) {
			t.Errorf("%s: updated at %v", verb, moved.UpdatedAt.AsTime())
		}
		return moved
	}
	if got := step("reject", proto.String("spam")); got.GetRejectionReason() != "spam" || got.RejectedAt == nil || got.ApprovedAt != nil {
		t.Errorf("rejected %v", got)
	}
	approved := step("approve", nil)
	if approved.RejectionReason != nil || approved.RejectedAt != nil || approved.ApprovedAt == nil {
		t.Errorf("approved %v", approved)
	}
	if got := step("suspend", proto.String("fraud")); got.GetSuspensionReason() != "fraud" || got.SuspendedAt == nil || !proto.Equal(got.ApprovedAt, approved.ApprovedAt) {
		t.Errorf("suspended %v", got)
	}
	if got := step("reinstate", nil); got.SuspensionReason != nil || got.SuspendedAt != nil || !proto.Equal(got.ApprovedAt, approved.ApprovedAt) {
		t.Errorf("reinstated %v", got)
	}
	if got := step("suspend", nil); got.SuspensionReason != nil {
		t.Errorf("suspended without a reason %v", got)
	}

	var before, after string
	err := f.SQL.QueryRow(t.Context(), `select before::text, after::text from audit_log where action = 'participant.reject' and actor = $1`, f.Owner.String()).Scan(&before, &after)
	if err != nil || before != `{"status": "pending"}` || after != `{"reason": "spam", "status": "rejected"}` {
		t.Errorf("audit log %s → %s, %v", before, after, err)
	}
	object, previous := f.LastEvent(affiliate.EventParticipantRejected)
	if object["id"] != p.Id || object["program_id"] != p.ProgramId || object["partner_id"] != p.PartnerId || object["partner_name"] != "Jane" ||
		object["referral_code"] != "jane" || object["status"] != "rejected" || object["reason"] != "spam" || object["version"] == nil ||
		previous["status"] != "pending" || f.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%@%'`) != 0 {
		t.Errorf("event %v, before %v", object, previous)
	}
	if n := f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, p.Id); n != 6 {
		t.Errorf("%d jobs for the edge directory", n)
	}
}

func TestMoveParticipant_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	f.expectOneSuccessOf100(func(int) error {
		_, err := f.move(f.asMerchant(affiliate.RoleOwner), "approve", p.ProgramId, p.Id, nil)
		return err
	}, affiliate.ReasonParticipantState)
}

func TestParticipant_OfOtherScopesIsNotFound(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: f.Owner, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	owner := f.asMerchant(affiliate.RoleOwner)
	for name, tc := range map[string]struct {
		ctx         context.Context
		program, id string
	}{
		"another mode":               {as(f.Scope.Workspace, affiliate.ModeTest), p.ProgramId, p.Id},
		"another workspace":          {as(affiliate.NewID[affiliate.Workspace](f.Now()), affiliate.ModeLive), p.ProgramId, p.Id},
		"another programme":          {owner, f.NewProgram(f.Scope).String(), p.Id},
		"unknown":                    {owner, p.ProgramId, affiliate.NewID[affiliate.Participant](f.Now()).String()},
		"not a UUID":                 {owner, p.ProgramId, "42"},
		"programme id is not a UUID": {owner, "42", p.Id},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetParticipant(tc.ctx, &affiliatev1.GetParticipantRequest{ProgramId: tc.program, ParticipantId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, verb := range verbs {
				_, err := f.move(tc.ctx, verb, tc.program, tc.id, nil)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
		})
	}
	for _, ctx := range []context.Context{as(f.Scope.Workspace, affiliate.ModeTest), as(affiliate.NewID[affiliate.Workspace](f.Now()), affiliate.ModeLive)} {
		_, err := f.service.ListParticipants(ctx, &affiliatev1.ListParticipantsRequest{ProgramId: p.ProgramId})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

func TestListParticipants_PagesAndFiltersByStatus(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for i := range 5 {
		f.clock.Advance(time.Second)
		ids = append(ids, f.mustApply(fmt.Sprint("Partner ", i)).Id)
	}
	owner := f.asMerchant(affiliate.RoleOwner)
	for _, id := range ids[1:3] {
		if _, err := f.move(owner, "approve", f.Program.String(), id, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		req   *affiliatev1.ListParticipantsRequest
		want  []string
		total int64
	}{
		{&affiliatev1.ListParticipantsRequest{}, []string{ids[4], ids[3], ids[2], ids[1], ids[0]}, 5},
		{&affiliatev1.ListParticipantsRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, []string{ids[2], ids[1]}, 5},
		{&affiliatev1.ListParticipantsRequest{Page: proto.Int32(4), PageSize: proto.Int32(2)}, []string{}, 5},
		{&affiliatev1.ListParticipantsRequest{Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED}, []string{ids[2], ids[1]}, 2},
		{&affiliatev1.ListParticipantsRequest{Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING, PageSize: proto.Int32(1)}, []string{ids[4]}, 3},
		{&affiliatev1.ListParticipantsRequest{Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_SUSPENDED}, []string{}, 0},
	} {
		tc.req.ProgramId = f.Program.String()
		list, err := f.service.ListParticipants(owner, tc.req)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, p := range list.Data {
			got = append(got, p.Id)
		}
		if !slices.Equal(got, tc.want) || list.Total != tc.total {
			t.Errorf("%v: %v of %d, want %v of %d", tc.req, got, list.Total, tc.want, tc.total)
		}
	}
	if found := f.service.Check(&affiliatev1.ListParticipantsRequest{Status: 99}); len(found) != 1 || found[0].Field != "status" {
		t.Errorf("unknown status: %v", found)
	}
}

func TestParticipant_ViewersSeeMaskedAddresses(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	for role, want := range map[affiliate.Role]string{
		affiliate.RoleViewer: "j***@example.com", affiliate.RoleDeveloper: p.PartnerEmail, affiliate.RoleOwner: p.PartnerEmail,
	} {
		one, err := f.service.GetParticipant(f.asMerchant(role), &affiliatev1.GetParticipantRequest{ProgramId: p.ProgramId, ParticipantId: p.Id})
		if err != nil || one.PartnerEmail != want {
			t.Errorf("%s reads %v, %v", role, one, err)
		}
		list, err := f.service.ListParticipants(f.asMerchant(role), &affiliatev1.ListParticipantsRequest{ProgramId: p.ProgramId})
		if err != nil || list.Data[0].PartnerEmail != want {
			t.Errorf("%s lists %v, %v", role, list, err)
		}
	}
}
