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
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with one active, public programme in live mode.
type world struct {
	*pgtest.Fixture
	t         *testing.T
	service   *participant.Service
	workspace affiliate.WorkspaceID
	user      affiliate.UserID
	program   affiliate.ProgramID
	now       time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.service = participant.New(w.Store, w.Now)
	// The user must exist, because invitations refer to the user who created them.
	w.user, w.workspace = w.NewMerchant("Owner"), w.NewWorkspace()
	w.program = w.newProgram()
	return w
}

func (w *world) newProgram() affiliate.ProgramID {
	w.t.Helper()
	return w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
}

func (w *world) asPartner(id affiliate.UserID) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{Kind: server.PartnerToken, User: id, Mode: affiliate.ModeLive})
}

func (w *world) asMerchant(role affiliate.Role) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: w.user, Workspace: w.workspace, Role: role, Mode: affiliate.ModeLive,
	})
}

func (w *world) apply(partner affiliate.UserID, change func(*affiliatev1.ApplyRequest)) (*affiliatev1.Participant, error) {
	w.t.Helper()
	req := &affiliatev1.ApplyRequest{ProgramId: w.program.String()}
	if change != nil {
		change(req)
	}
	if wrong := w.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return w.service.Apply(w.asPartner(partner), req)
}

func (w *world) mustApply(name string) *affiliatev1.Participant {
	w.t.Helper()
	p, err := w.apply(w.NewPartner(name), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// move calls the merchant's method for the verb. The verb is one of verbs.
func (w *world) move(ctx context.Context, verb, program, id string, reason *string) (*affiliatev1.Participant, error) {
	switch verb {
	case "approve":
		return w.service.ApproveParticipant(ctx, &affiliatev1.ApproveParticipantRequest{ProgramId: program, ParticipantId: id})
	case "reject":
		return w.service.RejectParticipant(ctx, &affiliatev1.RejectParticipantRequest{ProgramId: program, ParticipantId: id, Reason: reason})
	case "suspend":
		return w.service.SuspendParticipant(ctx, &affiliatev1.SuspendParticipantRequest{ProgramId: program, ParticipantId: id, Reason: reason})
	default:
		return w.service.ReinstateParticipant(ctx, &affiliatev1.ReinstateParticipantRequest{ProgramId: program, ParticipantId: id})
	}
}

var verbs = []string{"approve", "reject", "suspend", "reinstate"}

func (w *world) eventTypes() []string {
	w.t.Helper()
	types, _ := w.Events()
	slices.Sort(types)
	return types
}

// checkCounts compares the stored lengths of lists with the number of their rows.
func (w *world) checkCounts() {
	w.t.Helper()
	const different = `
		select count(*) from (
			select program_id, 'participants.' || status as what, count(*) as n from participants group by 1, 2
			union all
			select program_id, 'links', count(*) from links where deleted_at is null group by 1
		) actual full join (
			select program_id, what, sum(n) as n from list_counts group by 1, 2 having sum(n) <> 0
		) stored using (program_id, what)
		where actual.n is distinct from stored.n`
	if n := w.Count(different); n != 0 {
		w.t.Errorf("%d lists have another length than the stored one", n)
	}
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	partner := w.NewPartner("Jane Doe")
	p, err := w.apply(partner, func(r *affiliatev1.ApplyRequest) { r.Answers = map[string]string{"Why?": "Because"} })
	if err != nil {
		t.Fatal(err)
	}
	at := server.Timestamp(w.now.Truncate(time.Millisecond))
	want := &affiliatev1.Participant{
		Id: p.Id, ProgramId: w.program.String(), PartnerId: partner.String(), PartnerName: "Jane Doe",
		PartnerEmail: "jane-" + partner.String() + "@example.com", Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING,
		ReferralCode: "jane-doe", ApplicationAnswers: map[string]string{"Why?": "Because"}, AppliedAt: at, CreatedAt: at, UpdatedAt: at,
	}
	if !proto.Equal(p, want) {
		t.Errorf("applied %v\n   want %v", p, want)
	}
	read, err := w.service.GetParticipant(w.asMerchant(affiliate.RoleOwner), &affiliatev1.GetParticipantRequest{ProgramId: w.program.String(), ParticipantId: p.Id})
	if err != nil || !proto.Equal(read, want) {
		t.Errorf("read %v, %v", read, err)
	}
	if got := w.eventTypes(); !slices.Equal(got, []string{"link.created", "participant.applied"}) {
		t.Errorf("events %v", got)
	}
	if w.Count(`
		select count(*) from referral_codes r join links l on l.workspace_id = r.workspace_id and l.id = r.link_id
		where r.code = 'jane-doe' and r.mode = 'live' and r.participant_id = $1 and r.program_id = $2 and l.participant_id = $1 and l.program_id = $2
			and l.mode = 'live' and l.code = r.code and l.is_default and l.destination_url is null`, p.Id, w.program) != 1 ||
		w.Count(`select count(*) from participant_totals where participant_id = $1 and program_id = $2 and clicks = 0`, p.Id, w.program) != 1 ||
		w.Count(`select count(*) from audit_log where action = 'participant.apply' and resource_id = $1 and actor = $2`, p.Id, partner.String()) != 1 ||
		w.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, p.Id) != 1 {
		t.Error("code, link, totals, audit log or job is missing")
	}
	w.checkCounts()
}

func TestApply_IsApprovedIfTheProgramApprovesAutomatically(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set auto_approve_partners = true`)
	p := w.mustApply("Jane")
	if p.Status != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || p.ApprovedAt == nil {
		t.Errorf("applied %v", p)
	}
	if got := w.eventTypes(); !slices.Equal(got, []string{"link.created", "participant.applied", "participant.approved"}) {
		t.Errorf("events %v", got)
	}
}

func TestApply_FindsOnlyActivePublicPrograms(t *testing.T) {
	w := newWorld(t)
	partner := w.NewPartner("Jane")
	for name, sql := range map[string]string{
		"draft": `update programs set status = 'draft'`, "paused": `update programs set status = 'paused'`,
		"archived": `update programs set status = 'archived'`, "private": `update programs set is_public = false`,
		"of the other mode": `update programs set mode = 'test'`,
	} {
		t.Run(name, func(t *testing.T) {
			w.Exec(sql)
			_, err := w.apply(partner, nil)
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			w.Exec(`update programs set status = 'active', is_public = true, mode = 'live'`)
		})
	}
	for _, id := range []string{"", "42", affiliate.NewID[affiliate.Program](w.now).String()} {
		_, err := w.apply(partner, func(r *affiliatev1.ApplyRequest) { r.ProgramId = id })
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	if w.Count(`select count(*) from participants`) != 0 {
		t.Error("a refused application stored a row")
	}
}

func TestApply_RequiresAcceptedTerms(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set terms_url = 'https://a.example/terms'`)
	partner := w.NewPartner("Jane")
	_, err := w.apply(partner, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "accept_terms")
	p, err := w.apply(partner, func(r *affiliatev1.ApplyRequest) { r.AcceptTerms = true })
	if err != nil || p.TermsAcceptedAt == nil {
		t.Errorf("%v, %v", p, err)
	}
}

func TestApply_SecondApplicationIsADuplicate(t *testing.T) {
	w := newWorld(t)
	partner := w.NewPartner("Jane")
	if _, err := w.apply(partner, nil); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"pending", "approved", "rejected", "suspended"} {
		w.Exec(`update participants set status = $1`, status)
		_, err := w.apply(partner, func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("fresh-code") })
		pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	}
	if w.Count(`select count(*) from referral_codes`) != 1 {
		t.Error("a refused application stored a code")
	}
	first := w.program
	w.program = w.newProgram()
	if p, err := w.apply(partner, nil); err != nil || !regexp.MustCompile(`^jane-[a-z2-9]{3}$`).MatchString(p.ReferralCode) {
		t.Errorf("another programme: %v, %v", p, err)
	}
	w.program = first
}

func TestApply_ReferralCodes(t *testing.T) {
	w := newWorld(t)
	code := func(code string) func(*affiliatev1.ApplyRequest) {
		return func(r *affiliatev1.ApplyRequest) { r.ReferralCode = &code }
	}
	p, err := w.apply(w.NewPartner("Jane"), code("Summer_26"))
	if err != nil || p.ReferralCode != "summer_26" {
		t.Fatalf("%v, %v", p, err)
	}
	late := w.NewPartner("John")
	_, err = w.apply(late, code("SUMMER_26"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	if p, err = w.apply(late, code("winter")); err != nil || p.ReferralCode != "winter" {
		t.Errorf("another code after a refusal: %v, %v", p, err)
	}
	_, err = w.apply(w.NewPartner("Jim"), code("Google"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "referral_code")
	for name, form := range map[string]string{"winter": `^winter-[a-z2-9]{3}$`, "Al": `^al-[a-z2-9]{3}$`, "李": `^[a-z2-9]{8}$`} {
		if p := w.mustApply(name); !regexp.MustCompile(form).MatchString(p.ReferralCode) {
			t.Errorf("%s got %s", name, p.ReferralCode)
		}
	}
}

func TestApply_SamePartnerInParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	partner := w.NewPartner("Jane")
	w.expectOneSuccessOf100(func(int) error { _, err := w.apply(partner, nil); return err }, affiliate.ReasonApplicationDuplicate)
	if w.Count(`select count(*) from participants`) != 1 || w.Count(`select count(*) from referral_codes`) != 1 || len(w.eventTypes()) != 2 {
		t.Error("a refused application stored something")
	}
}

func TestApply_SameCodeInParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	partners := make([]affiliate.UserID, 100)
	for i := range partners {
		partners[i] = w.NewPartner("Jane")
	}
	defer w.checkCounts()
	w.expectOneSuccessOf100(func(i int) error {
		_, err := w.apply(partners[i], func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("summer") })
		return err
	}, affiliate.ReasonReferralCodeTaken)
	if w.Count(`select count(*) from participants`) != 1 || len(w.eventTypes()) != 2 {
		t.Error("a refused application stored something")
	}
}

// expectOneSuccessOf100 is expectOneSuccess with 100 calls.
func (w *world) expectOneSuccessOf100(run func(i int) error, reason affiliate.Reason) {
	w.t.Helper()
	w.expectOneSuccess(100, run, reason)
}

// expectOneSuccess calls run n times in parallel. One call must succeed, and all others
// must be refused with reason.
func (w *world) expectOneSuccess(n int, run func(i int) error, reason affiliate.Reason) {
	w.t.Helper()
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
		pgtest.RequireRefusal(w.t, err, reason)
	}
	if succeeded != 1 {
		w.t.Errorf("%d of %d calls succeeded", succeeded, len(errs))
	}
}

func TestApply_SameNameInParallelGetsDifferentCodes(t *testing.T) {
	w := newWorld(t)
	partners := make([]affiliate.UserID, 50)
	for i := range partners {
		partners[i] = w.NewPartner("Jane Doe")
	}
	var wg sync.WaitGroup
	for _, partner := range partners {
		wg.Go(func() {
			if _, err := w.apply(partner, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := w.Count(`select count(*) from participants t join referral_codes r on r.participant_id = t.id and r.code = t.referral_code`); n != 50 {
		t.Errorf("%d of 50 participants have a code", n)
	}
}

func TestMoveParticipant_FromEveryStatus(t *testing.T) {
	w := newWorld(t)
	p := w.mustApply("Jane")
	owner := w.asMerchant(affiliate.RoleOwner)
	legal := map[string]string{
		"pending approve": "approved", "pending reject": "rejected", "rejected approve": "approved",
		"approved suspend": "suspended", "suspended reinstate": "approved",
	}
	events := map[string]string{"approve": "participant.approved", "reject": "participant.rejected", "suspend": "participant.suspended", "reinstate": "participant.reinstated"}
	for _, from := range []string{"pending", "approved", "rejected", "suspended"} {
		for _, verb := range verbs {
			w.Exec(`update participants set status = $1`, from)
			w.Exec(`delete from events`)
			w.now = w.now.Add(time.Second)
			moved, err := w.move(owner, verb, p.ProgramId, p.Id, nil)
			to, ok := legal[from+" "+verb]
			if !ok {
				if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState); metadata["status"] != from {
					t.Errorf("%s %s: metadata %v", from, verb, metadata)
				}
				if len(w.eventTypes()) != 0 {
					t.Errorf("%s %s: events %v", from, verb, w.eventTypes())
				}
				continue
			}
			if err != nil || server.EnumName(moved.Status) != to {
				t.Errorf("%s %s: %v, %v", from, verb, moved, err)
			}
			if got := w.eventTypes(); !slices.Equal(got, []string{events[verb]}) {
				t.Errorf("%s %s: events %v", from, verb, got)
			}
		}
	}
	w.Exec(`update participants set erased_at = $1`, w.now)
	for _, verb := range verbs {
		_, err := w.move(owner, verb, p.ProgramId, p.Id, nil)
		pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	}
}

func TestMoveParticipant_StoresReasonsAndTimes(t *testing.T) {
	w := newWorld(t)
	owner := w.asMerchant(affiliate.RoleOwner)
	p := w.mustApply("Jane")
	step := func(verb string, reason *string) *affiliatev1.Participant {
		t.Helper()
		w.now = w.now.Add(time.Second)
		moved, err := w.move(owner, verb, p.ProgramId, p.Id, reason)
		if err != nil {
			t.Fatal(err)
		}
		if !moved.UpdatedAt.AsTime().Equal(w.now.Truncate(time.Millisecond)) {
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
	err := w.SQL.QueryRow(t.Context(), `select before::text, after::text from audit_log where action = 'participant.reject' and actor = $1`, w.user.String()).Scan(&before, &after)
	if err != nil || before != `{"status": "pending"}` || after != `{"reason": "spam", "status": "rejected"}` {
		t.Errorf("audit log %s → %s, %v", before, after, err)
	}
	object, previous := w.LastEvent(affiliate.EventParticipantRejected)
	if object["id"] != p.Id || object["program_id"] != p.ProgramId || object["partner_id"] != p.PartnerId || object["partner_name"] != "Jane" ||
		object["referral_code"] != "jane" || object["status"] != "rejected" || object["reason"] != "spam" || object["version"] == nil ||
		previous["status"] != "pending" || w.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%@%'`) != 0 {
		t.Errorf("event %v, before %v", object, previous)
	}
	if n := w.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, p.Id); n != 6 {
		t.Errorf("%d jobs for the edge directory", n)
	}
}

func TestMoveParticipant_InParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	p := w.mustApply("Jane")
	w.expectOneSuccessOf100(func(int) error {
		_, err := w.move(w.asMerchant(affiliate.RoleOwner), "approve", p.ProgramId, p.Id, nil)
		return err
	}, affiliate.ReasonParticipantState)
}

func TestParticipant_OfOtherScopesIsNotFound(t *testing.T) {
	w := newWorld(t)
	p := w.mustApply("Jane")
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: w.user, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	owner := w.asMerchant(affiliate.RoleOwner)
	for name, tc := range map[string]struct {
		ctx         context.Context
		program, id string
	}{
		"another mode":               {as(w.workspace, affiliate.ModeTest), p.ProgramId, p.Id},
		"another workspace":          {as(affiliate.NewID[affiliate.Workspace](w.now), affiliate.ModeLive), p.ProgramId, p.Id},
		"another programme":          {owner, w.newProgram().String(), p.Id},
		"unknown":                    {owner, p.ProgramId, affiliate.NewID[affiliate.Participant](w.now).String()},
		"not a UUID":                 {owner, p.ProgramId, "42"},
		"programme id is not a UUID": {owner, "42", p.Id},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.GetParticipant(tc.ctx, &affiliatev1.GetParticipantRequest{ProgramId: tc.program, ParticipantId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, verb := range verbs {
				_, err := w.move(tc.ctx, verb, tc.program, tc.id, nil)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
		})
	}
	for _, ctx := range []context.Context{as(w.workspace, affiliate.ModeTest), as(affiliate.NewID[affiliate.Workspace](w.now), affiliate.ModeLive)} {
		_, err := w.service.ListParticipants(ctx, &affiliatev1.ListParticipantsRequest{ProgramId: p.ProgramId})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

func TestListParticipants_PagesAndFiltersByStatus(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 5 {
		w.now = w.now.Add(time.Second)
		ids = append(ids, w.mustApply(fmt.Sprint("Partner ", i)).Id)
	}
	owner := w.asMerchant(affiliate.RoleOwner)
	for _, id := range ids[1:3] {
		if _, err := w.move(owner, "approve", w.program.String(), id, nil); err != nil {
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
		tc.req.ProgramId = w.program.String()
		list, err := w.service.ListParticipants(owner, tc.req)
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
	if found := w.service.Check(&affiliatev1.ListParticipantsRequest{Status: 99}); len(found) != 1 || found[0].Field != "status" {
		t.Errorf("unknown status: %v", found)
	}
}

func TestParticipant_ViewersSeeMaskedAddresses(t *testing.T) {
	w := newWorld(t)
	p := w.mustApply("Jane")
	for role, want := range map[affiliate.Role]string{
		affiliate.RoleViewer: "j***@example.com", affiliate.RoleDeveloper: p.PartnerEmail, affiliate.RoleOwner: p.PartnerEmail,
	} {
		one, err := w.service.GetParticipant(w.asMerchant(role), &affiliatev1.GetParticipantRequest{ProgramId: p.ProgramId, ParticipantId: p.Id})
		if err != nil || one.PartnerEmail != want {
			t.Errorf("%s reads %v, %v", role, one, err)
		}
		list, err := w.service.ListParticipants(w.asMerchant(role), &affiliatev1.ListParticipantsRequest{ProgramId: p.ProgramId})
		if err != nil || list.Data[0].PartnerEmail != want {
			t.Errorf("%s lists %v, %v", role, list, err)
		}
	}
}
