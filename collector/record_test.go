package collector

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"net/netip"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter/mmdbtype"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Method record does not use proto.Marshal, but must return the same bytes.
func TestRecord_EqualsMarshalledMessage(t *testing.T) {
	at := time.Date(2026, 3, 31, 23, 59, 59, 999e6, time.UTC)
	id := affiliate.NewID[affiliate.ClickID](at)
	workspace := affiliate.NewID[affiliate.WorkspaceID](at)
	key := account.NewKey(account.PublicKey, affiliate.ModeLive)
	c := &Collector{
		hashes: &hasher{key: []byte("deployment")}, agents: newAgentCache(),
		deps: Deps{countries: countriesWith(t, "GeoLite2-City", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord("CH", "ZH")})},
	}
	expectedHash := func(month, kind, value string) []byte {
		sum := func(key []byte, text string) []byte {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(text))
			return mac.Sum(nil)
		}
		return sum(sum([]byte("deployment"), "clicks "+month), kind+"\x00"+value)[:16]
	}

	caller := apiCaller{status: keyValid, parsedKey: newParsedKey(key), scope: affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}}
	codeEntry := &edgev1.ReferralCodeEntry{ProgramId: []byte("program"), ParticipantId: []byte("participant"), LinkId: []byte("link"), AttributionWindowDays: 300}
	complete := &clickBody{
		code: "anna", landing: "https://shop.example/ü", referrer: "news.example",
		consent: click.ConsentGranted, occurredAt: time.UnixMilli(-5),
	}
	for field := range complete.text {
		complete.text[field] = fieldNames[field]
	}
	const phone = iphone + "Version/17.3.1 Mobile/15E148 Safari/604.1"
	v := visitor{addr: netip.MustParseAddr("203.0.113.9"), agent: phone, paidPlatform: "google", trace: bytes.Repeat([]byte{5}, 24)}
	message := func() *edgev1.Click {
		return &edgev1.Click{
			Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE,
			WorkspaceId: workspace.UUID[:], ProgramId: codeEntry.ProgramId, ParticipantId: codeEntry.ParticipantId, LinkId: codeEntry.LinkId,
			ReferralCode: "anna", ReceivedAtMs: at.UnixMilli(), LandingUrl: complete.landing, ReferrerDomain: complete.referrer,
			UtmSource: "utm.source", UtmMedium: "utm.medium", UtmCampaign: "utm.campaign", UtmTerm: "utm.term", UtmContent: "utm.content",
			SubId: "sub_id", Consent: edgev1.Consent_CONSENT_GRANTED, Language: "language", Screen: "screen",
			IpHash: expectedHash("2026-03", "ip", "\xcb\x00\x71\x09"), IpPrefix: "203.0.113.0/24", UaHash: expectedHash("2026-03", "ua", phone),
			OccurredAtMs: -5, AttributionWindowDays: 300, PaidPlatform: "google",
			Country: "CH", Region: "ZH", Device: "mobile", Browser: "Safari", Os: "iOS", TraceReference: v.trace,
		}
	}

	unresolved := message()
	unresolved.WorkspaceId, unresolved.ProgramId, unresolved.ParticipantId, unresolved.LinkId = nil, nil, nil, nil
	unresolved.AttributionWindowDays, unresolved.PublicKey = 0, key.Reveal()
	denied := message()
	denied.Consent, denied.IpHash, denied.IpPrefix, denied.UaHash = edgev1.Consent_CONSENT_DENIED, nil, "", nil
	denied.TraceReference = nil
	denied.Language, denied.Screen, denied.Country, denied.Region, denied.Browser, denied.Os = "", "", "", "", "", ""
	withoutConsent := *complete
	withoutConsent.consent = click.ConsentDenied
	nextMonth := message()
	nextMonth.ReceivedAtMs++
	nextMonth.IpHash, nextMonth.UaHash = expectedHash("2026-04", "ip", "\xcb\x00\x71\x09"), expectedHash("2026-04", "ua", phone)
	deniedBot := proto.Clone(denied).(*edgev1.Click)
	deniedBot.Device = ""
	deniedBot.IsBot, deniedBot.BotReason = true, "library"
	prefetched := message()
	prefetched.IsBot, prefetched.BotReason = true, "prefetch"
	prefetchingVisitor := v
	prefetchingVisitor.prefetched = true
	foreign := message()
	foreign.ForeignOrigin = true
	foreignVisitor := v
	foreignVisitor.foreignOrigin = true
	minimal := &edgev1.Click{Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE, WorkspaceId: workspace.UUID[:], ReferralCode: "a", ReceivedAtMs: at.UnixMilli(), Consent: edgev1.Consent_CONSENT_UNKNOWN, IsBot: true, BotReason: "no_agent"}

	for _, r := range []struct {
		name      string
		want      *edgev1.Click
		at        time.Time
		codeEntry *edgev1.ReferralCodeEntry
		body      *clickBody
		visitor   visitor
	}{
		{"complete", message(), at, codeEntry, complete, v},
		{"unresolved", unresolved, at, nil, complete, v},
		{"consent denied", denied, at, codeEntry, &withoutConsent, v},
		{"consent denied, a bot", deniedBot, at, codeEntry, &withoutConsent, visitor{addr: v.addr, agent: "curl/8.5.0", prefetched: true, paidPlatform: "google"}},
		{"prefetched", prefetched, at, codeEntry, complete, prefetchingVisitor},
		{"next month", nextMonth, at.Add(time.Millisecond), codeEntry, complete, v},
		{"the first month again", message(), at, codeEntry, complete, v},
		{"foreign origin", foreign, at, codeEntry, complete, foreignVisitor},
		{"minimal", minimal, at, &edgev1.ReferralCodeEntry{}, &clickBody{code: "a", consent: click.ConsentUnknown}, visitor{}},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := frame(nil, c.record(nil, id, r.at, caller, r.codeEntry, r.body, r.visitor))
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{r.want}})
			check(t, err)
			if !bytes.Equal(got, want) {
				var read edgev1.ClickBatch
				err := proto.Unmarshal(got, &read)
				t.Errorf("record:\ngot  %x\nwant %x\ngot is decoded as %v (error %v)", got, want, &read, err)
			}
		})
	}
}
