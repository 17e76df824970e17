package attribution_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// attributedClick returns a click as the API shows it.
func (f *fixture) attributedClick(id affiliate.ClickID) *affiliatev1.AttributedClick {
	f.Helper()
	c, err := f.service.GetAttributedClick(f.asKey(), &affiliatev1.GetAttributedClickRequest{ClickId: id.String()})
	if err != nil {
		f.Fatalf("GetAttributedClick(%s): %v", id, err)
	}
	return c
}

func TestGetAttributedClick_HidesVisitor(t *testing.T) {
	f := newFixture(t)
	withVisitor := func(c *click.Click) {
		c.IPHash, c.IPPrefix, c.UAHash = []byte("hash"), "203.0.113.0/24", []byte("agent")
		c.CreatedAt = c.ReceivedAt.Add(time.Second)
	}
	stored := f.NewClick(f.pat, withVisitor, func(c *click.Click) {
		c.LandingURL, c.ReferrerDomain, c.SubID, c.Language = "https://shop.example/a", "blog.example", "sub", "de"
		c.UTM = click.UTM{Source: "s", Medium: "m", Campaign: "c", Term: "t", Content: "n"}
		c.IsBot, c.BotReason, c.Unique, c.PaidPlatform = true, "agent", true, "google"
		c.Country, c.Region, c.Device, c.Browser, c.OS = "DE", "BE", "mobile", "Firefox", "Android"
	})
	got := f.attributedClick(stored.ID)
	want := &affiliatev1.AttributedClick{
		Id: stored.ID.String(), WorkspaceId: f.Scope.Workspace.String(), ProgramId: f.Program.String(), ParticipantId: f.pat.ID.String(),
		ProgramName: new("P"), PartnerName: new("Pat"), LinkId: new(f.pat.Link.String()), ReferralCode: f.pat.Code, Mode: affiliatev1.Mode_MODE_TEST,
		LandingUrl: new("https://shop.example/a"), ReferrerDomain: new("blog.example"), SubId: new("sub"), Language: new("de"),
		UtmSource: new("s"), UtmMedium: new("m"), UtmCampaign: new("c"), UtmTerm: new("t"), UtmContent: new("n"),
		IsBot: true, BotReason: new("agent"), IsUnique: true, PaidPlatform: new("google"), Consent: "granted",
		Country: new("DE"), Region: new("BE"), Device: new("mobile"), Browser: new("Firefox"), Os: new("Android"),
		ReceivedAt: server.Timestamp(stored.ReceivedAt), CreatedAt: server.Timestamp(stored.CreatedAt), ExpiresAt: server.Timestamp(stored.ExpiresAt),
	}
	if !proto.Equal(got, want) {
		t.Errorf("GetAttributedClick returned\n%v, want\n%v", got, want)
	}
	text, err := protojson.Marshal(got)
	if err != nil || strings.Contains(string(text), "203.0.113") {
		t.Errorf("the click is %s, %v; want no data of the visitor", text, err)
	}

	stored = f.NewClick(f.pat, withVisitor)
	want = &affiliatev1.AttributedClick{
		Id: stored.ID.String(), WorkspaceId: f.Scope.Workspace.String(), ProgramId: f.Program.String(), ParticipantId: f.pat.ID.String(),
		ProgramName: new("P"), PartnerName: new("Pat"), LinkId: new(f.pat.Link.String()), ReferralCode: f.pat.Code, Mode: affiliatev1.Mode_MODE_TEST, Consent: "granted",
		ReceivedAt: server.Timestamp(stored.ReceivedAt), CreatedAt: server.Timestamp(stored.CreatedAt), ExpiresAt: server.Timestamp(stored.ExpiresAt),
	}
	if got := f.attributedClick(stored.ID); !proto.Equal(got, want) {
		t.Errorf("GetAttributedClick of a click without optional data returned\n%v, want\n%v", got, want)
	}
}

func TestGetAttributedClick_ListsConversionsOldestFirst(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.report(saleWithClick("order of another click", f.NewClick(f.pat).ID))
	var reported []*affiliatev1.ReportConversionResponse
	for i := range attribution.MaxClickConversions + 1 {
		f.clock.Advance(time.Second)
		reported = append(reported, f.report(saleWithClick(fmt.Sprint("order-", i), click.ID)))
	}
	// Later changes of the programme do not change its decisions.
	f.Exec(`update programs set status = 'paused'`)
	got := f.attributedClick(click.ID)
	if !proto.Equal(got.GetConvertedAt(), reported[0].GetCreatedAt()) {
		t.Errorf("the click converted at %v, want %v", got.GetConvertedAt(), reported[0].GetCreatedAt())
	}
	if n := len(got.GetConversions()); n != attribution.MaxClickConversions {
		t.Fatalf("the click has %d conversions, want %d", n, attribution.MaxClickConversions)
	}
	for i, c := range got.GetConversions() {
		want := &affiliatev1.ClickConversion{
			Id: reported[i].GetId(), ExternalTransactionId: reported[i].GetExternalTransactionId(), Attributed: true,
			ReasonCode: "CLICK_MATCHED", DecisionId: reported[i].GetAttribution().GetDecisionId(), CreatedAt: reported[i].GetCreatedAt(),
		}
		if !proto.Equal(c, want) {
			t.Errorf("conversion %d of the click is %v, want %v", i, c, want)
		}
	}
}

func TestGetAttributedClick_ExpiredClickHasNoConversionTime(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat, f.expired)
	r := f.report(saleWithClick("order-1", click.ID))
	got := f.attributedClick(click.ID)
	if got.GetConvertedAt() != nil {
		t.Errorf("the expired click converted at %v, want no time", got.GetConvertedAt())
	}
	want := &affiliatev1.ClickConversion{
		Id: r.GetId(), ExternalTransactionId: "order-1", ReasonCode: "CLICK_EXPIRED",
		DecisionId: r.GetAttribution().GetDecisionId(), CreatedAt: r.GetCreatedAt(),
	}
	if c := got.GetConversions(); len(c) != 1 || !proto.Equal(c[0], want) {
		t.Errorf("the conversions of the expired click are %v, want %v", c, want)
	}
}
