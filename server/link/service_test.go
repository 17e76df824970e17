package link_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	linkservice "github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCreateLink(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	l, err := f.createLink(jane, func(r *affiliatev1.CreateLinkRequest) {
		r.Code, r.SubId = new("Jane-Sale"), new("post 1")
		r.DestinationUrl = "https://www.brand.example/sale?via=x#top"
		r.Utm = &affiliatev1.Utm{Source: new("blog")}
	})
	if err != nil {
		t.Fatal(err)
	}
	now := server.Timestamp(f.Now().Truncate(time.Millisecond))
	want := &affiliatev1.Link{
		Id: l.GetId(), ProgramId: f.Program.String(), ParticipantId: jane.ID.String(), Code: "jane-sale",
		ProgramName: "P", PartnerName: "Jane",
		DestinationUrl: "https://www.brand.example/sale?via=x#top",
		Url:            "https://www.brand.example/sale?via=jane-sale&sub_id=post+1&utm_source=blog#top",
		ShortUrl:       l.ShortUrl, SubId: new("post 1"), Utm: &affiliatev1.Utm{Source: new("blog")},
		CreatedAt: now, UpdatedAt: now,
	}
	if !proto.Equal(l, want) {
		t.Errorf("CreateLink returned %v\nwant %v", l, want)
	}
	if pattern := `^https://go\.example\.com/r/[0-9A-Za-z]{10}$`; !regexp.MustCompile(pattern).MatchString(l.GetShortUrl()) {
		t.Errorf("the short URL is %q, want one that matches %s", l.GetShortUrl(), pattern)
	}
	if got, err := f.getLink(l.GetId()); err != nil || !proto.Equal(got, want) {
		t.Errorf("GetLink returned %v, error %v\nwant %v", got, err, want)
	}
	if n := f.Count(`
		select count(*) from referral_codes
		where code = 'jane-sale' and mode = 'live' and participant_id = $1 and link_id = $2`, jane.ID, l.GetId()); n != 1 {
		t.Errorf("%d referral codes lead to the link, want 1", n)
	}
	wantRecords := records{[]string{"link.create"}, []string{"link.created"}, 1}
	if got := f.recordsOf(l.GetId()); !reflect.DeepEqual(got, wantRecords) {
		t.Errorf("CreateLink wrote the records %+v, want %+v", got, wantRecords)
	}
	object, _ := f.LastEvent(affiliate.EventLinkCreated)
	for field, want := range map[string]any{"code": "jane-sale", "version": 1.0, "sub_id": "post 1"} {
		if object[field] != want {
			t.Errorf("the event has %s = %v, want %v", field, object[field], want)
		}
	}
	if n := f.Count(`select count(*) from audit_log where actor = $1`, f.Owner.String()); n != 1 {
		t.Errorf("the audit log names the owner %d times, want once", n)
	}
}

func TestCreateLink_GeneratesCodeFromReferralCode(t *testing.T) {
	f := newFixture(t)
	jane, long := f.join("jane"), f.join(strings.Repeat("x", 50))
	requireCode := func(p pgtest.Participant, pattern string) {
		t.Helper()
		l, err := f.createLink(p)
		if err != nil || !regexp.MustCompile(pattern).MatchString(l.GetCode()) {
			t.Errorf("CreateLink for referral code %q returned code %q, error %v, want a code that matches %s", p.Code, l.GetCode(), err, pattern)
		}
	}
	requireCode(jane, `^jane-[a-z0-9]{3}$`)
	requireCode(long, `^x{46}-[a-z0-9]{3}$`)

	// If all codes with a suffix of three characters are taken, the suffix is longer.
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	f.Exec(`
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select $1, 'live', 'jane-' || a || b || c, $2, $3, $4, $5
		from unnest(string_to_array($6, null)) a, unnest(string_to_array($6, null)) b, unnest(string_to_array($6, null)) c
		on conflict do nothing`, f.Scope.Workspace, f.Program, long.ID, long.Link, f.Now(), letters)
	requireCode(jane, `^jane-[a-z0-9]{8}$`)
}

func TestGetLink_DefaultLinkLeadsToPageOfProgramme(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		program          pgtest.Row
		destination, url string
	}{
		"website":      {nil, website, website + "?via=jane"},
		"landing page": {pgtest.Row{"landing_url": website + "welcome?x=1"}, website + "welcome?x=1", website + "welcome?x=1&via=jane"},
		"no page":      {pgtest.Row{"website_url": nil}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			shop := f.in(f.NewShop(affiliate.ModeLive, tc.program))
			l, err := shop.getLink(shop.join("jane").Link.String())
			if err != nil {
				t.Fatal(err)
			}
			if l.GetDestinationUrl() != tc.destination || l.GetUrl() != tc.url || !l.GetIsDefault() {
				t.Errorf("GetLink returned %v, want a default link to %q with the URL %q", l, tc.destination, tc.url)
			}
		})
	}
}

func TestGetLink_WithoutLinkHostHasNoShortURL(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	f.service = linkservice.New(f.DB, "", f.clock.Now)
	if l, err := f.getLink(jane.Link.String()); err != nil || l.ShortUrl != nil {
		t.Errorf("GetLink returned %v, error %v, want a link without short URL", l, err)
	}
}

func TestCreateLink_Refusals(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	elsewhere := f.NewParticipant(f.Scope, f.NewProgram(f.Scope), f.NewPartner("Jane"), pgtest.Row{"referral_code": "elsewhere"})
	erased := f.Join("Erased", pgtest.Row{"erased_at": f.Now()})
	f.NewLink(jane, "taken")
	if err := f.deleteLink(f.NewLink(jane, "deleted").ID.String()); err != nil {
		t.Fatal(err)
	}
	destination := func(url string) func(*affiliatev1.CreateLinkRequest) {
		return func(r *affiliatev1.CreateLinkRequest) { r.DestinationUrl = url }
	}
	code := func(code string) func(*affiliatev1.CreateLinkRequest) {
		return func(r *affiliatev1.CreateLinkRequest) { r.Code = &code }
	}
	unchanged := func(*affiliatev1.CreateLinkRequest) {}

	for name, tc := range map[string]struct {
		participant pgtest.Participant
		change      func(*affiliatev1.CreateLinkRequest)
		reason      affiliate.Reason
		field       string
	}{
		"host of another site":           {jane, destination("https://shop.example.evil.example/"), affiliate.ReasonValidation, "destination_url"},
		"allowed host as user name":      {jane, destination("https://shop.example@evil.example/"), affiliate.ReasonValidation, "destination_url"},
		"not a web URL":                  {jane, destination("javascript:alert(1)"), affiliate.ReasonValidation, "destination_url"},
		"parent domain of a wildcard":    {jane, destination("https://brand.example"), affiliate.ReasonValidation, "destination_url"},
		"reserved code":                  {jane, code("Admin"), affiliate.ReasonValidation, "code"},
		"code with a space":              {jane, code("a b"), affiliate.ReasonValidation, servertest.Annotations},
		"code of another link":           {jane, code("TAKEN"), affiliate.ReasonReferralCodeTaken, ""},
		"code of another participant":    {jane, code("elsewhere"), affiliate.ReasonReferralCodeTaken, ""},
		"code of a deleted link":         {jane, code("deleted"), affiliate.ReasonReferralCodeTaken, ""},
		"participant of other programme": {elsewhere, unchanged, affiliate.ReasonValidation, "participant_id"},
		"unknown participant":            {pgtest.Participant{ID: affiliate.NewID[affiliate.ParticipantID](f.Now())}, unchanged, affiliate.ReasonValidation, "participant_id"},
		"participant with erased data":   {erased, unchanged, affiliate.ReasonParticipantErased, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.createLink(tc.participant, tc.change)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}
}

func TestCreateLink_DependsOnStatusOfParticipantAndProgramme(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		participant participant.Status
		program     program.Status
		want        affiliate.Reason
	}{
		{participant.Pending, program.Active, ""},
		{participant.Suspended, program.Active, ""},
		{participant.Approved, program.Active, ""},
		{participant.Rejected, program.Active, affiliate.ReasonParticipantState},
		{participant.Approved, program.Draft, ""},
		{participant.Approved, program.Paused, ""},
		{participant.Approved, program.Archived, affiliate.ReasonProgramStateInvalid},
	} {
		shop := f.in(f.NewShop(affiliate.ModeLive, pgtest.Row{"status": tc.program}))
		_, err := shop.createLink(shop.Join("Jane", pgtest.Row{"status": tc.participant}))
		if got := pgtest.ReasonOf(t, err); got != tc.want {
			t.Errorf("CreateLink for a participant that is %s in a programme that is %s: error code %q, want %q", tc.participant, tc.program, got, tc.want)
		}
	}
}

// More requests than the limit run in parallel. Exactly link.MaxLinks of them create
// a link.
func TestCreateLink_LimitHoldsInParallel(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	results := make(chan error, link.MaxLinks+10)
	for range cap(results) {
		go func() {
			_, err := f.createLink(jane)
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
	if created != link.MaxLinks {
		t.Errorf("%d requests created a link, want %d", created, link.MaxLinks)
	}
	ids, total := f.listLinks(&affiliatev1.ListLinksRequest{})
	if want := int64(link.MaxLinks + 1); total != want {
		t.Errorf("the participant has %d links, want %d with the default link", total, want)
	}
	if n := f.Count(`select count(*) from referral_codes`); n != link.MaxLinks+1 {
		t.Errorf("%d codes are stored, want one for each of %d links", n, link.MaxLinks+1)
	}
	// After a deletion, another link can be created.
	deleted := slices.IndexFunc(ids, func(id string) bool { return id != jane.Link.String() })
	if err := f.deleteLink(ids[deleted]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.createLink(jane); err != nil {
		t.Errorf("CreateLink after a deletion: %v", err)
	}
	_, err := f.createLink(jane)
	pgtest.RequireRefusal(t, err, affiliate.ReasonLinkLimitExceeded)
}

func TestCreateLink_SameCodeInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	participants := make([]pgtest.Participant, 20)
	for i := range participants {
		participants[i] = f.join(fmt.Sprint("partner-", i))
	}
	results := make(chan error, 2*len(participants))
	for i := range cap(results) {
		go func() {
			_, err := f.createLink(participants[i%len(participants)], func(r *affiliatev1.CreateLinkRequest) { r.Code = new("Summer") })
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
	if created != 1 {
		t.Errorf("%d requests created a link with the code, want 1", created)
	}
	if ids, total := f.listLinks(&affiliatev1.ListLinksRequest{Search: new("summer")}); total != 1 {
		t.Errorf("the links with the code are %v, total %d, want 1", ids, total)
	}
}

func TestUpdateLink(t *testing.T) {
	f := newFixture(t)
	l := f.NewLink(f.join("jane"), "sale")
	id := l.ID.String()
	f.clock.Advance(time.Minute)
	want, err := f.getLink(id)
	if err != nil {
		t.Fatal(err)
	}
	requireUpdate := func(req *affiliatev1.UpdateLinkRequest) {
		t.Helper()
		if got, err := f.updateLink(id, req); err != nil || !proto.Equal(got, want) {
			t.Fatalf("UpdateLink with %v returned %v, error %v\nwant %v", req, got, err, want)
		}
	}

	want.DestinationUrl, want.SubId, want.Utm = website+"b", new("s"), &affiliatev1.Utm{Source: new("a"), Term: new("b")}
	want.Url = website + "b?via=sale&sub_id=s&utm_source=a&utm_term=b"
	want.UpdatedAt = server.Timestamp(f.Now().Truncate(time.Millisecond))
	requireUpdate(&affiliatev1.UpdateLinkRequest{
		UpdateMask: mask("destination_url", "sub_id", "utm.source", "utm.term"), DestinationUrl: new(website + "b"), SubId: new("s"),
		Utm: &affiliatev1.Utm{Source: new("a"), Term: new("b")},
	})
	object, previous := f.LastEvent(affiliate.EventLinkUpdated)
	if object["version"] != 2.0 {
		t.Errorf("the event has version %v, want 2", object["version"])
	}
	if previous["destination_url"] != website || previous["sub_id"] != nil || len(previous) != 3 {
		t.Errorf("the event has the previous values %v, want destination_url %s, no sub_id, and utm", previous, website)
	}

	// The mask names two parameters of utm. The other parameters keep their values.
	f.clock.Advance(time.Minute)
	want.Utm, want.Url = &affiliatev1.Utm{Campaign: new("c"), Term: new("b")}, website+"b?via=sale&sub_id=s&utm_campaign=c&utm_term=b"
	want.UpdatedAt = server.Timestamp(f.Now().Truncate(time.Millisecond))
	requireUpdate(&affiliatev1.UpdateLinkRequest{UpdateMask: mask("utm.source", "utm.campaign"), Utm: &affiliatev1.Utm{Campaign: new("c")}})

	// An update that changes nothing is not recorded.
	for _, unchanged := range []*affiliatev1.UpdateLinkRequest{
		{},
		{Utm: &affiliatev1.Utm{}},
		{UpdateMask: mask("sub_id"), SubId: new("s")},
		{UpdateMask: mask("utm"), Utm: want.GetUtm()},
	} {
		f.clock.Advance(time.Minute)
		requireUpdate(unchanged)
	}
	wantRecords := records{[]string{"link.update", "link.update"}, []string{"link.updated", "link.updated"}, 2}
	if got := f.recordsOf(id); !reflect.DeepEqual(got, wantRecords) {
		t.Errorf("the records are %+v, want %+v", got, wantRecords)
	}

	want.SubId, want.Utm, want.Url = nil, &affiliatev1.Utm{}, website+"b?via=sale"
	want.UpdatedAt = server.Timestamp(f.Now().Truncate(time.Millisecond))
	requireUpdate(&affiliatev1.UpdateLinkRequest{UpdateMask: mask("utm", "sub_id")})
}

func TestUpdateLink_Refusals(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	id := f.NewLink(jane, "sale").ID.String()
	for name, tc := range map[string]struct {
		req   *affiliatev1.UpdateLinkRequest
		field string
	}{
		"host that is not allowed": {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: new("https://evil.example")}, "destination_url"},
		"empty URL":                {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: new("")}, "destination_url"},
		"no URL":                   {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url")}, "destination_url"},
		"code":                     {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("code")}, "update_mask"},
		"unknown UTM parameter":    {&affiliatev1.UpdateLinkRequest{UpdateMask: mask("utm.id")}, "update_mask"},
		"field not in the mask":    {&affiliatev1.UpdateLinkRequest{SubId: new("s")}, "update_mask"},
		"object not in the mask":   {&affiliatev1.UpdateLinkRequest{Utm: &affiliatev1.Utm{Term: new("t")}}, "update_mask"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.updateLink(id, tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
		})
	}

	change := &affiliatev1.UpdateLinkRequest{UpdateMask: mask("sub_id"), SubId: new("x")}
	f.Exec(`update programs set status = 'archived'`)
	_, err := f.updateLink(id, change)
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
	f.Exec(`update participants set erased_at = $1`, f.Now())
	_, err = f.updateLink(id, change)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	pgtest.RequireRefusal(t, f.deleteLink(id), affiliate.ReasonParticipantErased)
}

func TestDefaultLink_CanHaveDestinationAndCannotBeDeleted(t *testing.T) {
	f := newFixture(t)
	id := f.join("jane").Link.String()
	for _, tc := range []struct {
		destination *string
		wantURL     string
	}{
		{new(website + "own"), website + "own?via=jane"},
		{nil, website + "?via=jane"},
	} {
		f.clock.Advance(time.Minute)
		got, err := f.updateLink(id, &affiliatev1.UpdateLinkRequest{UpdateMask: mask("destination_url"), DestinationUrl: tc.destination})
		if err != nil || got.GetUrl() != tc.wantURL {
			t.Fatalf("UpdateLink returned URL %q, error %v, want URL %q", got.GetUrl(), err, tc.wantURL)
		}
	}
	if _, previous := f.LastEvent(affiliate.EventLinkUpdated); previous["destination_url"] != website+"own" {
		t.Errorf("the event has the previous destination %v, want %s", previous["destination_url"], website+"own")
	}
	pgtest.RequireRefusal(t, f.deleteLink(id), affiliate.ReasonValidation, "link_id")
}

// The merchant and the partner delete the same link in parallel. One request succeeds,
// the others return NOT_FOUND.
func TestDeleteLink_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	id := f.NewLink(jane, "sale").ID.String()
	f.clock.Advance(time.Minute)
	results := make(chan error, 12)
	for i := range cap(results) {
		go func() {
			if i%2 == 0 {
				_, err := f.service.DeletePartnerLink(f.asPartner(jane), &affiliatev1.DeletePartnerLinkRequest{LinkId: id})
				results <- err
				return
			}
			results <- f.deleteLink(id)
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
		t.Errorf("%d requests deleted the link, want 1", deleted)
	}
	if ids, total := f.listLinks(&affiliatev1.ListLinksRequest{}); total != 1 || !slices.Equal(ids, []string{jane.Link.String()}) {
		t.Errorf("after the deletion the links are %v, total %d, want only the default link %s", ids, total, jane.Link)
	}
	// The link and its code stay stored, because the link's clicks refer to them.
	if n := f.Count(`select count(*) from referral_codes c join links l on l.id = c.link_id where c.code = 'sale' and l.deleted_at is not null`); n != 1 {
		t.Errorf("%d deleted links with a code are stored, want 1", n)
	}
	got := f.recordsOf(id)
	if want := []string{"link.delete"}; !slices.Equal(got.AuditActions, want) {
		t.Errorf("the audit log has %q, want %q", got.AuditActions, want)
	}
	if len(got.Events) != 0 {
		t.Errorf("the events are %q, want none", got.Events)
	}
	_, err := f.getLink(id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	_, err = f.updateLink(id, &affiliatev1.UpdateLinkRequest{UpdateMask: mask("sub_id")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestLinkChanges_FailWithoutTheirAuditRecord(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	l := f.NewLink(jane, "sale")
	id := l.ID.String()
	before, err := f.getLink(id)
	if err != nil {
		t.Fatal(err)
	}
	f.Exec(`revoke insert on audit_log from tributary_app`)
	_, createErr := f.createLink(jane, func(r *affiliatev1.CreateLinkRequest) { r.Code = new("more") })
	_, updateErr := f.updateLink(id, &affiliatev1.UpdateLinkRequest{UpdateMask: mask("sub_id"), SubId: new("x")})
	for call, err := range map[string]error{"CreateLink": createErr, "UpdateLink": updateErr, "DeleteLink": f.deleteLink(id)} {
		if err == nil {
			t.Errorf("%s succeeded without an audit record", call)
		}
	}
	if after, err := f.getLink(id); err != nil || !proto.Equal(after, before) {
		t.Errorf("after failed changes the link is %v, error %v, want %v", after, err, before)
	}
	if ids, total := f.listLinks(&affiliatev1.ListLinksRequest{}); total != 2 || len(ids) != 2 {
		t.Errorf("after failed changes the links are %v, total %d, want 2", ids, total)
	}
	if n := f.Count(`select count(*) from referral_codes where code = 'more'`); n != 0 {
		t.Error("a failed CreateLink stored its code")
	}
	if types, _ := f.Events(); len(types) != 0 {
		t.Errorf("the events are %q, want none", types)
	}
}
