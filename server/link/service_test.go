package link_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func TestCreateLink(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l, err := w.create(jane, func(r *affiliatev1.CreateLinkRequest) {
		r.Code, r.SubId = proto.String("Jane-Sale"), proto.String("post 1")
		r.DestinationUrl = "https://www.brand.example/sale?via=x#top"
		r.Utm = &affiliatev1.Utm{Source: proto.String("blog")}
	})
	if err != nil {
		t.Fatal(err)
	}
	at := server.Timestamp(w.now.Truncate(time.Millisecond))
	want := &affiliatev1.Link{
		Id: l.GetId(), ProgramId: w.program.String(), ParticipantId: jane.id, Code: "jane-sale",
		DestinationUrl: "https://www.brand.example/sale?via=x#top",
		Url:            "https://www.brand.example/sale?via=jane-sale&sub_id=post+1&utm_source=blog#top",
		ShortUrl:       l.ShortUrl, SubId: proto.String("post 1"), Utm: &affiliatev1.Utm{Source: proto.String("blog")},
		CreatedAt: at, UpdatedAt: at,
	}
	if !proto.Equal(l, want) {
		t.Errorf("created %v\nwant %v", l, want)
	}
	if !regexp.MustCompile(`^https://go\.example\.com/r/[0-9A-Za-z]{10}$`).MatchString(l.GetShortUrl()) {
		t.Errorf("short url %q", l.GetShortUrl())
	}
	read, err := w.service.GetLink(w.asLiveMerchant(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()})
	if err != nil || !proto.Equal(read, want) {
		t.Errorf("read %v, %v", read, err)
	}
	if w.Count(`select count(*) from referral_codes where code = 'jane-sale' and mode = 'live' and participant_id = $1 and link_id = $2`, jane.id, l.GetId()) != 1 {
		t.Error("the code does not lead to the link")
	}
	actions, events, jobs := w.trace(l.GetId())
	if !slices.Equal(actions, []string{"link.create"}) || !slices.Equal(events, []string{"link.created"}) || jobs != 1 {
		t.Errorf("audit log %v, events %v, %d jobs", actions, events, jobs)
	}
	if object, _ := w.LastEvent(affiliate.EventLinkCreated); object["code"] != "jane-sale" || object["version"] != 1.0 || object["sub_id"] != "post 1" {
		t.Errorf("event %v", object)
	}
	if w.Count(`select count(*) from audit_log where actor = $1`, w.user.String()) != 1 {
		t.Error("the audit log does not name the user")
	}
}

func TestCreateLink_GeneratesACode(t *testing.T) {
	w := newWorld(t)
	jane, long := w.newParticipant("jane"), w.newParticipant(strings.Repeat("x", 50))
	if l := w.mustCreate(jane, ""); !regexp.MustCompile(`^jane-[a-z0-9]{3}$`).MatchString(l.GetCode()) {
		t.Errorf("code %q", l.GetCode())
	}
	if l := w.mustCreate(long, ""); len(l.GetCode()) != 50 {
		t.Errorf("code %q", l.GetCode())
	}
	// All codes with a suffix of three characters are taken.
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	w.Exec(`
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select $1, 'live', 'jane-' || a || b || c, $2, $3, $4, $5
		from unnest(string_to_array($6, null)) a, unnest(string_to_array($6, null)) b, unnest(string_to_array($6, null)) c
		on conflict do nothing`, w.workspace, w.program, long.id, long.link, w.now, letters)
	if l := w.mustCreate(jane, ""); !regexp.MustCompile(`^jane-[a-z0-9]{8}$`).MatchString(l.GetCode()) {
		t.Errorf("code %q", l.GetCode())
	}
}

func TestGetLink_WithoutLinkHostHasNoShortURL(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	withoutHost := link.New(w.Store, "", w.Now)
	l, err := withoutHost.GetLink(w.asLiveMerchant(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: jane.link})
	if err != nil || l.ShortUrl != nil || l.GetUrl() != page+"?via=jane" || l.GetDestinationUrl() != page || !l.GetIsDefault() {
		t.Errorf("%v, %v", l, err)
	}
	w.Exec(`update programs set landing_url = 'https://shop.example/welcome?x=1'`)
	if l, err = withoutHost.GetLink(w.asLiveMerchant(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: jane.link}); err != nil ||
		l.GetUrl() != "https://shop.example/welcome?x=1&via=jane" {
		t.Errorf("want the landing page: %v, %v", l, err)
	}
	w.Exec(`update programs set landing_url = null, website_url = null`)
	if l, err = withoutHost.GetLink(w.asLiveMerchant(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: jane.link}); err != nil ||
		l.GetUrl() != "" || l.GetDestinationUrl() != "" {
		t.Errorf("programme without a page: %v, %v", l, err)
	}
}

func TestCreateLink_Refusals(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.addParticipant(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"), "elsewhere")
	erased := w.newParticipant("erased")
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, erased.id)
	w.mustCreate(jane, "taken")
	if _, err := w.service.DeleteLink(w.asLiveMerchant(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: w.mustCreate(jane, "deleted").GetId()}); err != nil {
		t.Fatal(err)
	}

	for name, tc := range map[string]struct {
		owner  participant
		change func(*affiliatev1.CreateLinkRequest)
		reason affiliate.Reason
		field  string
	}{
		"another host": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "https://shop.example.evil.example/"
		}, affiliate.ReasonValidation, "destination_url"},
		"allowed host as user name": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "https://shop.example@evil.example/"
		}, affiliate.ReasonValidation, "destination_url"},
		"not a web URL": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "javascript:alert(1)"
		}, affiliate.ReasonValidation, "destination_url"},
		"parent domain of a wildcard": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "https://brand.example"
		}, affiliate.ReasonValidation, "destination_url"},
		"a reserved code": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.Code = proto.String("Admin")
		}, affiliate.ReasonValidation, "code"},
		"a bad code": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.Code = proto.String("a b")
		}, affiliate.ReasonValidation, "annotations"},
		"a taken code": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.Code = proto.String("TAKEN")
		}, affiliate.ReasonReferralCodeTaken, ""},
		"a participant's code": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.Code = proto.String("elsewhere")
		}, affiliate.ReasonReferralCodeTaken, ""},
		"a deleted link's code": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.Code = proto.String("deleted")
		}, affiliate.ReasonReferralCodeTaken, ""},
		"another programme's participant": {elsewhere, nil, affiliate.ReasonValidation, "participant_id"},
		"unknown participant":             {participant{id: affiliate.NewID[affiliate.Participant](w.now).String()}, nil, affiliate.ReasonValidation, "participant_id"},
		"an erased participant":           {erased, nil, affiliate.ReasonParticipantErased, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.create(tc.owner, tc.change)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}

	for _, status := range []string{"rejected", "pending", "suspended", "approved"} {
		w.Exec(`update participants set status = $1 where id = $2`, status, jane.id)
		if status == "rejected" {
			_, err := w.create(jane, nil)
			pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
			continue
		}
		w.mustCreate(jane, "")
	}
	for _, status := range []string{"draft", "paused"} {
		w.Exec(`update programs set status = $1 where id = $2`, status, w.program)
		w.mustCreate(jane, "")
	}
	w.Exec(`update programs set status = 'archived' where id = $1`, w.program)
	_, err := w.create(jane, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
}

// Sixty requests run in parallel. Exactly affiliate.MaxLinks (fifty) of them create a
// link.
func TestCreateLink_LimitHoldsInParallel(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	results := make(chan error, 60)
	for range cap(results) {
		go func() {
			_, err := w.create(jane, nil)
			results <- err
		}()
	}
	created := 0
	for range cap(results) {
		if err := <-results; err == nil {
			created++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonLinkLimitExceeded)
		}
	}
	if created != affiliate.MaxLinks || w.Count(`select count(*) from links where not is_default and deleted_at is null`) != created {
		t.Errorf("created %d links", created)
	}
	if _, total := w.listIDs(&affiliatev1.ListLinksRequest{}); total != int64(created)+1 {
		t.Errorf("total %d", total)
	}
	if w.Count(`select count(*) from referral_codes`) != created+1 {
		t.Error("a refused request has stored a code")
	}
	var id string
	if err := w.SQL.QueryRow(t.Context(), `select id from links where not is_default limit 1`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.DeleteLink(w.asLiveMerchant(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: id}); err != nil {
		t.Fatal(err)
	}
	w.mustCreate(jane, "")
	_, err := w.create(jane, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonLinkLimitExceeded)
}

func TestCreateLink_SameCodeInParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	participants := make([]participant, 20)
	for i := range participants {
		participants[i] = w.newParticipant(fmt.Sprint("partner-", i))
	}
	results := make(chan error, 2*len(participants))
	for i := range cap(results) {
		go func() {
			_, err := w.create(participants[i%len(participants)], func(r *affiliatev1.CreateLinkRequest) { r.Code = proto.String("Summer") })
			results <- err
		}()
	}
	created := 0
	for range cap(results) {
		if err := <-results; err == nil {
			created++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
		}
	}
	if created != 1 || w.Count(`select count(*) from links where code = 'summer'`) != 1 {
		t.Errorf("%d links have the code", created)
	}
}

func TestUpdateLink(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l := w.mustCreate(jane, "sale")
	path := affiliatev1.UpdateLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}
	w.advance()
	got, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("destination_url", "sub_id", "utm.source", "utm.term"),
		DestinationUrl: proto.String(page + "b"), SubId: proto.String("s"), Utm: &affiliatev1.Utm{Source: proto.String("a"), Term: proto.String("b")},
	})
	if err != nil || got.GetDestinationUrl() != page+"b" || got.GetSubId() != "s" || got.GetCode() != "sale" ||
		got.GetUrl() != page+"b?via=sale&sub_id=s&utm_source=a&utm_term=b" || !got.GetUpdatedAt().AsTime().Equal(w.now.Truncate(time.Millisecond)) {
		t.Fatalf("%v, %v", got, err)
	}
	object, previous := w.LastEvent(affiliate.EventLinkUpdated)
	if object["version"] != 2.0 || previous["destination_url"] != page+"a" || previous["sub_id"] != nil || len(previous) != 3 {
		t.Errorf("event %v, before %v", object, previous)
	}
	w.advance()
	merged, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("utm.source", "utm.campaign"),
		Utm: &affiliatev1.Utm{Campaign: proto.String("c")},
	})
	if err != nil || !proto.Equal(merged.GetUtm(), &affiliatev1.Utm{Campaign: proto.String("c"), Term: proto.String("b")}) || merged.GetSubId() != "s" {
		t.Fatalf("%v, %v", merged, err)
	}
	actions, events, jobs := w.trace(l.GetId())
	for name, same := range map[string]*affiliatev1.UpdateLinkRequest{
		"no path":         {},
		"empty object":    {Utm: &affiliatev1.Utm{}},
		"same sub id":     {UpdateMask: mask("sub_id"), SubId: proto.String("s")},
		"same parameters": {UpdateMask: mask("utm"), Utm: merged.GetUtm()},
	} {
		same.ProgramId, same.LinkId = path.GetProgramId(), path.GetLinkId()
		w.advance()
		if got, err := w.update(same); err != nil || !proto.Equal(got, merged) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if a, e, j := w.trace(l.GetId()); len(a) != len(actions) || len(e) != len(events) || j != jobs {
		t.Errorf("an update that changes nothing was recorded: %v, %v, %d", a, e, j)
	}
	if !slices.Equal(actions, []string{"link.create", "link.update", "link.update"}) || !slices.Equal(events, []string{"link.created", "link.updated", "link.updated"}) || jobs != 3 {
		t.Errorf("audit log %v, events %v, %d jobs", actions, events, jobs)
	}
	w.advance()
	cleared, err := w.update(&affiliatev1.UpdateLinkRequest{ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("utm", "sub_id")})
	if err != nil || cleared.SubId != nil || !proto.Equal(cleared.GetUtm(), &affiliatev1.Utm{}) || cleared.GetUrl() != page+"b?via=sale" {
		t.Errorf("%v, %v", cleared, err)
	}
}

func TestUpdateLink_Refusals(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l := w.mustCreate(jane, "sale")
	for name, tc := range map[string]struct {
		req   *affiliatev1.UpdateLinkRequest
		field string
	}{
		"another host":             {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: proto.String("https://evil.example")}, "destination_url"},
		"empty URL":                {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: proto.String("")}, "destination_url"},
		"no URL":                   {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url")}, "destination_url"},
		"the code":                 {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("code")}, "update_mask"},
		"unknown UTM parameter":    {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("utm.id")}, "update_mask"},
		"a field without a path":   {&affiliatev1.UpdateLinkRequest{SubId: proto.String("s")}, "update_mask"},
		"an object without a path": {&affiliatev1.UpdateLinkRequest{Utm: &affiliatev1.Utm{Term: proto.String("t")}}, "update_mask"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.ProgramId, tc.req.LinkId = w.program.String(), l.GetId()
			_, err := w.update(tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
		})
	}
	change := &affiliatev1.UpdateLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId(), UpdateMask: mask("sub_id"), SubId: proto.String("x")}
	w.Exec(`update programs set status = 'archived'`)
	_, err := w.update(change)
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
	w.Exec(`update participants set erased_at = $1`, w.now)
	_, err = w.update(change)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	_, err = w.service.DeleteLink(w.asLiveMerchant(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
}

func TestUpdateLink_DefaultLinkCanHaveADestination(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	got, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: w.program.String(), LinkId: jane.link, UpdateMask: mask("destination_url"), DestinationUrl: proto.String(page + "own"),
	})
	if err != nil || got.GetUrl() != page+"own?via=jane" {
		t.Fatalf("%v, %v", got, err)
	}
	w.advance()
	got, err = w.update(&affiliatev1.UpdateLinkRequest{ProgramId: w.program.String(), LinkId: jane.link, UpdateMask: mask("destination_url")})
	if err != nil || got.GetUrl() != page+"?via=jane" {
		t.Fatalf("%v, %v", got, err)
	}
	if _, previous := w.LastEvent(affiliate.EventLinkUpdated); previous["destination_url"] != page+"own" {
		t.Errorf("before: %v", previous)
	}
	_, err = w.service.DeleteLink(w.asLiveMerchant(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: jane.link})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "link_id")
}

// One of several parallel deletions of a link succeeds. The others return NOT_FOUND.
func TestDeleteLink_InParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l := w.mustCreate(jane, "sale")
	w.advance()
	del := &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}
	results := make(chan error, 12)
	for i := range cap(results) {
		go func() {
			ctx, id := w.asLiveMerchant(), l.GetId()
			if i%2 == 0 {
				_, err := w.service.DeletePartnerLink(w.asPartner(jane.partner, affiliate.ModeLive), &affiliatev1.DeletePartnerLinkRequest{LinkId: id})
				results <- err
				return
			}
			_, err := w.service.DeleteLink(ctx, del)
			results <- err
		}()
	}
	deleted := 0
	for range cap(results) {
		if err := <-results; err == nil {
			deleted++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		}
	}
	if deleted != 1 {
		t.Errorf("deleted %d times", deleted)
	}
	if ids, total := w.listIDs(&affiliatev1.ListLinksRequest{}); total != 1 || !slices.Equal(ids, []string{jane.link}) {
		t.Errorf("links after the deletion: %v, total %d", ids, total)
	}
	if w.Count(`select count(*) from referral_codes where code = 'sale'`) != 1 || w.Count(`select count(*) from links where deleted_at is not null`) != 1 {
		t.Error("the code or the deleted link is gone")
	}
	actions, events, _ := w.trace(l.GetId())
	if !slices.Equal(actions, []string{"link.create", "link.delete"}) || !slices.Equal(events, []string{"link.created"}) {
		t.Errorf("audit log %v, events %v", actions, events)
	}
	path := &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}
	_, err := w.service.GetLink(w.asLiveMerchant(), path)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	_, err = w.update(&affiliatev1.UpdateLinkRequest{ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("sub_id")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestLinkChanges_FailWithoutTheirAuditRecord(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l := w.mustCreate(jane, "sale")
	w.Exec(`revoke insert on audit_log from tributary_app`)
	if _, err := w.create(jane, func(r *affiliatev1.CreateLinkRequest) { r.Code = proto.String("more") }); err == nil {
		t.Error("created a link without an audit record")
	}
	if _, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: w.program.String(), LinkId: l.GetId(), UpdateMask: mask("sub_id"), SubId: proto.String("x"),
	}); err == nil {
		t.Error("changed a link without an audit record")
	}
	if _, err := w.service.DeleteLink(w.asLiveMerchant(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}); err == nil {
		t.Error("deleted a link without an audit record")
	}
	if w.Count(`select count(*) from referral_codes where code = 'more'`) != 0 || w.Count(`select sum(n) from list_counts where what = 'links'`) != 2 ||
		w.Count(`select count(*) from links where deleted_at is null and sub_id is null`) != 2 || w.Count(`select count(*) from events`) != 1 {
		t.Error("a failed change was stored in part")
	}
}
