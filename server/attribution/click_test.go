package attribution_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (w *world) see(click affiliate.ClickID) *affiliatev1.AttributedClick {
	w.Helper()
	c, err := w.service.GetAttributedClick(as(w.scope), &affiliatev1.GetAttributedClickRequest{ClickId: click.String()})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func TestGetAttributedClick_HidesVisitor(t *testing.T) {
	w := newWorld(t)
	link := affiliate.NewID[affiliate.Link](w.now())
	full := w.clickIn(w.scope, w.program, w.participant, pgtest.Row{
		"link_id": link, "landing_url": "https://shop.example/a", "referrer_domain": "blog.example", "utm_source": "s", "utm_medium": "m",
		"utm_campaign": "c", "utm_term": "t", "utm_content": "n", "sub_id": "sub", "language": "de", "is_bot": true, "bot_reason": "agent",
		"country": "DE", "region": "BE", "device": "mobile", "browser": "Firefox", "os": "Android", "is_unique": true, "paid_platform": "google",
	})
	got := w.see(full)
	received, _ := full.Time()
	want := &affiliatev1.AttributedClick{
		Id: full.String(), WorkspaceId: w.scope.Workspace.String(), ProgramId: w.program.String(), ParticipantId: w.participant.String(),
		LinkId: ptr(link.String()), ReferralCode: "pat", Mode: affiliatev1.Mode_MODE_TEST, LandingUrl: ptr("https://shop.example/a"),
		ReferrerDomain: ptr("blog.example"), UtmSource: ptr("s"), UtmMedium: ptr("m"), UtmCampaign: ptr("c"), UtmTerm: ptr("t"), UtmContent: ptr("n"),
		SubId: ptr("sub"), Language: ptr("de"), IsBot: true, BotReason: ptr("agent"), Consent: "granted",
		Country: ptr("DE"), Region: ptr("BE"), Device: ptr("mobile"), Browser: ptr("Firefox"), Os: ptr("Android"), IsUnique: true, PaidPlatform: ptr("google"),
		ReceivedAt: server.Timestamp(received), CreatedAt: server.Timestamp(received.Add(time.Second)),
		ExpiresAt: server.Timestamp(affiliate.WindowEnd(received, 30)),
	}
	if !proto.Equal(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	text, err := protojson.Marshal(got)
	if err != nil || strings.Contains(string(text), "203.0.113") {
		t.Errorf("%s, %v", text, err)
	}

	bare := w.see(w.click())
	if bare.LinkId != nil || bare.LandingUrl != nil || bare.ReferrerDomain != nil || bare.UtmSource != nil || bare.UtmMedium != nil || bare.UtmCampaign != nil ||
		bare.UtmTerm != nil || bare.UtmContent != nil || bare.SubId != nil || bare.Language != nil || bare.BotReason != nil || bare.GetIsBot() ||
		bare.Country != nil || bare.Region != nil || bare.Device != nil || bare.Browser != nil || bare.Os != nil || bare.PaidPlatform != nil ||
		bare.GetIsUnique() || bare.GetConvertedAt() != nil {
		t.Errorf("an unknown field is not null: %v", bare)
	}
}

func TestGetAttributedClick_ListsConversionsOldestFirst(t *testing.T) {
	w := newWorld(t)
	click := w.click()
	w.report(named("elsewhere", w.click()))
	var wanted []*affiliatev1.ReportConversionResponse
	for i := range affiliate.MaxClickConversions + 1 {
		w.offset += time.Second
		wanted = append(wanted, w.report(named(fmt.Sprint("order-", i), click)))
	}
	w.Exec(`update programs set status = 'paused'`)
	seen := w.see(click)
	got := seen.GetConversions()
	if !seen.GetConvertedAt().AsTime().Equal(wanted[0].GetCreatedAt().AsTime()) {
		t.Errorf("converted at %v, want %v", seen.GetConvertedAt(), wanted[0].GetCreatedAt())
	}
	if len(got) != affiliate.MaxClickConversions {
		t.Fatalf("%d conversions", len(got))
	}
	for i, c := range got {
		if want := wanted[i]; c.GetId() != want.GetId() || c.GetExternalTransactionId() != want.GetExternalTransactionId() || !c.GetAttributed() ||
			c.GetReasonCode() != "CLICK_MATCHED" || c.GetDecisionId() != want.GetAttribution().GetDecisionId() ||
			!c.GetCreatedAt().AsTime().Equal(want.GetCreatedAt().AsTime()) {
			t.Errorf("%d: %v", i, c)
		}
	}

	// The conversions of a click show their decisions in force.
	expired := w.clickIn(w.scope, w.program, w.participant, pgtest.Row{"expires_at": w.now().Add(-time.Hour)})
	r := w.report(named("late", expired))
	if at := w.see(expired).GetConvertedAt(); at != nil {
		t.Errorf("a click that attributes nothing converted at %v", at)
	}
	if c := w.see(expired).GetConversions(); len(c) != 1 || c[0].GetAttributed() || c[0].GetReasonCode() != "CLICK_EXPIRED" || c[0].GetDecisionId() != r.GetAttribution().GetDecisionId() {
		t.Errorf("%v", c)
	}
}
