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
	jane := w.joined("jane")
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
		t.Errorf("made %v\nwant %v", l, want)
	}
	if !regexp.MustCompile(`^https://go\.example\.com/r/[0-9A-Za-z]{10}$`).MatchString(l.GetShortUrl()) {
		t.Errorf("short url %q", l.GetShortUrl())
	}
	read, err := w.service.GetLink(w.live(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()})
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
		t.Error("the audit log does not name who did it")
	}
}

func TestCreateLinkMakesACode(t *testing.T) {
	w := newWorld(t)
	jane, long := w.joined("jane"), w.joined(strings.Repeat("x", 50))
	if l := w.created(jane, ""); !regexp.MustCompile(`^jane-[a-z0-9]{3}$`).MatchString(l.GetCode()) {
		t.Errorf("code %q", l.GetCode())
	}
	if l := w.created(long, ""); len(l.GetCode()) != 50 {
		t.Errorf("code %q", l.GetCode())
	}
	// All codes of three characters that could be made are somebody else's.
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	w.Exec(`
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select $1, 'live', 'jane-' || a || b || c, $2, $3, $4, $5
		from unnest(string_to_array($6, null)) a, unnest(string_to_array($6, null)) b, unnest(string_to_array($6, null)) c
		on conflict do nothing`, w.workspace, w.program, long.id, long.link, w.now, letters)
	if l := w.created(jane, ""); !regexp.MustCompile(`^jane-[a-z0-9]{8}$`).MatchString(l.GetCode()) {
		t.Errorf("code %q", l.GetCode())
	}
}

func TestWithoutLinkHostThereIsNoShortURL(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	without := link.New(w.Store, "", w.Now)
	l, err := without.GetLink(w.live(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: jane.link})
	if err != nil || l.ShortUrl != nil || l.GetUrl() != page+"?via=jane" || l.GetDestinationUrl() != page || !l.GetIsDefault() {
		t.Errorf("%v, %v", l, err)
	}
	w.Exec(`update programs set landing_url = 'https://shop.example/welcome?x=1'`)
	if l, err = without.GetLink(w.live(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: jane.link}); err != nil ||
		l.GetUrl() != "https://shop.example/welcome?x=1&via=jane" {
		t.Errorf("the landing page comes first: %v, %v", l, err)
	}
	w.Exec(`update programs set landing_url = null, website_url = null`)
	if l, err = without.GetLink(w.live(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: jane.link}); err != nil ||
		l.GetUrl() != "" || l.GetDestinationUrl() != "" {
		t.Errorf("a programme without a page: %v, %v", l, err)
	}
}

func TestCreateLinkRefusals(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.join(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"), "elsewhere")
	erased := w.joined("erased")
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, erased.id)
	w.created(jane, "taken")
	if _, err := w.service.DeleteLink(w.live(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: w.created(jane, "deleted").GetId()}); err != nil {
		t.Fatal(err)
	}

	for name, tc := range map[string]struct {
		place  place
		change func(*affiliatev1.CreateLinkRequest)
		reason affiliate.Reason
		field  string
	}{
		"another host": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "https://shop.example.evil.example/"
		}, affiliate.ReasonValidation, "destination_url"},
		"the host of a user's name": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "https://shop.example@evil.example/"
		}, affiliate.ReasonValidation, "destination_url"},
		"no URL": {jane, func(r *affiliatev1.CreateLinkRequest) {
			r.DestinationUrl = "javascript:alert(1)"
		}, affiliate.ReasonValidation, "destination_url"},
		"the parent of a wildcard": {jane, func(r *affiliatev1.CreateLinkRequest) {
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
		"nobody":                          {place{id: affiliate.NewID[affiliate.Participant](w.now).String()}, nil, affiliate.ReasonValidation, "participant_id"},
		"an erased participant":           {erased, nil, affiliate.ReasonParticipantErased, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.create(tc.place, tc.change)
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
		w.created(jane, "")
	}
	for _, status := range []string{"draft", "paused"} {
		w.Exec(`update programs set status = $1 where id = $2`, status, w.program)
		w.created(jane, "")
	}
	w.Exec(`update programs set status = 'archived' where id = $1`, w.program)
	_, err := w.create(jane, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
}

// Sixty at a time: exactly fifty are made, whatever else goes on.
func TestLinksAreLimitedExactly(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	results := make(chan error, 60)
	for range cap(results) {
		go func() {
			_, err := w.create(jane, nil)
			results <- err
		}()
	}
	made := 0
	for range cap(results) {
		if err := <-results; err == nil {
			made++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonLinkLimitExceeded)
		}
	}
	if made != affiliate.MaxLinks || w.Count(`select count(*) from links where not is_default and deleted_at is null`) != made {
		t.Errorf("made %d links", made)
	}
	if _, total := w.list(&affiliatev1.ListLinksRequest{}); total != int64(made)+1 {
		t.Errorf("total %d", total)
	}
	if w.Count(`select count(*) from referral_codes`) != made+1 {
		t.Error("a refused link left its code behind")
	}
	var id string
	if err := w.SQL.QueryRow(t.Context(), `select id from links where not is_default limit 1`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.DeleteLink(w.live(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: id}); err != nil {
		t.Fatal(err)
	}
	w.created(jane, "")
	_, err := w.create(jane, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonLinkLimitExceeded)
}

func TestOneCodeOfManyWins(t *testing.T) {
	w := newWorld(t)
	places := make([]place, 20)
	for i := range places {
		places[i] = w.joined(fmt.Sprint("partner-", i))
	}
	results := make(chan error, 2*len(places))
	for i := range cap(results) {
		go func() {
			_, err := w.create(places[i%len(places)], func(r *affiliatev1.CreateLinkRequest) { r.Code = proto.String("Summer") })
			results <- err
		}()
	}
	made := 0
	for range cap(results) {
		if err := <-results; err == nil {
			made++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
		}
	}
	if made != 1 || w.Count(`select count(*) from links where code = 'summer'`) != 1 {
		t.Errorf("%d have the code", made)
	}
}

func TestUpdateLink(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	l := w.created(jane, "sale")
	path := affiliatev1.UpdateLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}
	w.later()
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
	w.later()
	merged, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("utm.source", "utm.campaign"),
		Utm: &affiliatev1.Utm{Campaign: proto.String("c")},
	})
	if err != nil || !proto.Equal(merged.GetUtm(), &affiliatev1.Utm{Campaign: proto.String("c"), Term: proto.String("b")}) || merged.GetSubId() != "s" {
		t.Fatalf("%v, %v", merged, err)
	}
	actions, events, jobs := w.trace(l.GetId())
	for name, same := range map[string]*affiliatev1.UpdateLinkRequest{
		"no path":             {},
		"an object of none":   {Utm: &affiliatev1.Utm{}},
		"what is there":       {UpdateMask: mask("sub_id"), SubId: proto.String("s")},
		"the same parameters": {UpdateMask: mask("utm"), Utm: merged.GetUtm()},
	} {
		same.ProgramId, same.LinkId = path.GetProgramId(), path.GetLinkId()
		w.later()
		if got, err := w.update(same); err != nil || !proto.Equal(got, merged) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if a, e, j := w.trace(l.GetId()); len(a) != len(actions) || len(e) != len(events) || j != jobs {
		t.Errorf("a change of nothing left a trace: %v, %v, %d", a, e, j)
	}
	if !slices.Equal(actions, []string{"link.create", "link.update", "link.update"}) || !slices.Equal(events, []string{"link.created", "link.updated", "link.updated"}) || jobs != 3 {
		t.Errorf("audit log %v, events %v, %d jobs", actions, events, jobs)
	}
	w.later()
	cleared, err := w.update(&affiliatev1.UpdateLinkRequest{ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("utm", "sub_id")})
	if err != nil || cleared.SubId != nil || !proto.Equal(cleared.GetUtm(), &affiliatev1.Utm{}) || cleared.GetUrl() != page+"b?via=sale" {
		t.Errorf("%v, %v", cleared, err)
	}
}

func TestUpdateLinkRefusals(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	l := w.created(jane, "sale")
	for name, tc := range map[string]struct {
		req   *affiliatev1.UpdateLinkRequest
		field string
	}{
		"another host":             {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: proto.String("https://evil.example")}, "destination_url"},
		"no URL":                   {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: proto.String("")}, "destination_url"},
		"no page of its own":       {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url")}, "destination_url"},
		"the code":                 {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("code")}, "update_mask"},
		"a parameter of no name":   {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("utm.id")}, "update_mask"},
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
	_, err = w.service.DeleteLink(w.live(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
}

func TestDefaultLinkMayHaveAPageOfItsOwn(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	got, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: w.program.String(), LinkId: jane.link, UpdateMask: mask("destination_url"), DestinationUrl: proto.String(page + "own"),
	})
	if err != nil || got.GetUrl() != page+"own?via=jane" {
		t.Fatalf("%v, %v", got, err)
	}
	w.later()
	got, err = w.update(&affiliatev1.UpdateLinkRequest{ProgramId: w.program.String(), LinkId: jane.link, UpdateMask: mask("destination_url")})
	if err != nil || got.GetUrl() != page+"?via=jane" {
		t.Fatalf("%v, %v", got, err)
	}
	if _, previous := w.LastEvent(affiliate.EventLinkUpdated); previous["destination_url"] != page+"own" {
		t.Errorf("before: %v", previous)
	}
	_, err = w.service.DeleteLink(w.live(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: jane.link})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "link_id")
}

// Of many who delete a link one does; for the others it is gone.
func TestDeleteLink(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	l := w.created(jane, "sale")
	w.later()
	del := &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}
	results := make(chan error, 12)
	for i := range cap(results) {
		go func() {
			ctx, id := w.live(), l.GetId()
			if i%2 == 0 {
				_, err := w.service.DeletePartnerLink(w.partner(jane.partner, affiliate.ModeLive), &affiliatev1.DeletePartnerLinkRequest{LinkId: id})
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
	if ids, total := w.list(&affiliatev1.ListLinksRequest{}); total != 1 || !slices.Equal(ids, []string{jane.link}) {
		t.Errorf("left %v, %d", ids, total)
	}
	if w.Count(`select count(*) from referral_codes where code = 'sale'`) != 1 || w.Count(`select count(*) from links where deleted_at is not null`) != 1 {
		t.Error("the code is free again")
	}
	actions, events, _ := w.trace(l.GetId())
	if !slices.Equal(actions, []string{"link.create", "link.delete"}) || !slices.Equal(events, []string{"link.created"}) {
		t.Errorf("audit log %v, events %v", actions, events)
	}
	path := &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}
	_, err := w.service.GetLink(w.live(), path)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	_, err = w.update(&affiliatev1.UpdateLinkRequest{ProgramId: path.GetProgramId(), LinkId: path.GetLinkId(), UpdateMask: mask("sub_id")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestLinkAndItsTraceAreOneTransaction(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	l := w.created(jane, "sale")
	w.Exec(`revoke insert on audit_log from tributary_app`)
	if _, err := w.create(jane, func(r *affiliatev1.CreateLinkRequest) { r.Code = proto.String("more") }); err == nil {
		t.Error("made without an audit log")
	}
	if _, err := w.update(&affiliatev1.UpdateLinkRequest{
		ProgramId: w.program.String(), LinkId: l.GetId(), UpdateMask: mask("sub_id"), SubId: proto.String("x"),
	}); err == nil {
		t.Error("changed without an audit log")
	}
	if _, err := w.service.DeleteLink(w.live(), &affiliatev1.DeleteLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()}); err == nil {
		t.Error("deleted without an audit log")
	}
	if w.Count(`select count(*) from referral_codes where code = 'more'`) != 0 || w.Count(`select sum(n) from list_counts where what = 'links'`) != 2 ||
		w.Count(`select count(*) from links where deleted_at is null and sub_id is null`) != 2 || w.Count(`select count(*) from events`) != 1 {
		t.Error("something of the changes stayed")
	}
}
