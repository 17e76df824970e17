package collector

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// fieldBatchClicks is the field number of edge.v1.ClickBatch.clicks.
const fieldBatchClicks protowire.Number = 1

// Field numbers of edge.v1.Click.
const (
	clickID protowire.Number = 1 + iota
	clickMode
	clickWorkspaceID
	clickProgramID
	clickParticipantID
	clickLinkID
	clickReferralCode
	clickPublicKey
	clickReceivedAtMs
	clickLandingURL
	clickReferrerDomain
	clickUTMSource
	clickUTMMedium
	clickUTMCampaign
	clickUTMTerm
	clickUTMContent
	clickSubID
	clickConsent
	clickLanguage
	clickScreen
	clickIPHash
	clickIPPrefix
	clickUAHash
	clickIsBot
	clickBotReason
	clickOccurredAtMs
	clickAttributionWindowDays
	clickForeignOrigin
	clickCountry
	clickRegion
	clickDevice
	clickBrowser
	clickOS
	clickPaidPlatform
)

// frame appends a marshalled click to dst as one element of ClickBatch.clicks.
// Concatenated framed clicks are a marshalled ClickBatch, so a batch is never marshalled
// as a whole.
func frame(dst, click []byte) []byte { return appendBytes(dst, fieldBatchClicks, click) }

// visitor holds the properties of the visitor that come from the request, not from its
// body.
type visitor struct {
	addr          netip.Addr
	agent         string
	foreignOrigin bool // the workspace does not allow the origin of the page
	prefetched    bool
	// paidPlatform is the platform of the ad that led to the click, or empty.
	paidPlatform string
}

// record appends the record of a click, a marshalled edge.v1.Click, to dst. If the
// visitor denied consent, the record contains no data that could identify the visitor. In
// that case it contains nothing that is derived from the address, not even the country.
// From the user agent and the screen size, the record then contains only the kind of
// device and the bot reason.
//
// record does not use proto.Marshal, because its reflection would take longer than
// everything else that record does. It writes the fields in the same order as
// proto.Marshal.
func (c *Collector) record(dst []byte, id affiliate.ClickID, receivedAt time.Time, caller apiCaller, codeEntry *edgev1.ReferralCodeEntry, b *body, v visitor) []byte {
	keepPersonal := b.consent != affiliate.ConsentDenied
	agent, monthHashes := c.agents.parse(v.agent), c.hashes.forMonth(receivedAt)
	dst = appendBytes(dst, clickID, id.UUID[:])
	dst = appendNumber(dst, clickMode, int64(edgeMode(caller.key.Mode)))
	if codeEntry != nil {
		dst = appendBytes(dst, clickWorkspaceID, caller.scope.Workspace.UUID[:])
		dst = appendBytes(dst, clickProgramID, codeEntry.ProgramId)
		dst = appendBytes(dst, clickParticipantID, codeEntry.ParticipantId)
		dst = appendBytes(dst, clickLinkID, codeEntry.LinkId)
	}
	dst = appendBytes(dst, clickReferralCode, b.code)
	if codeEntry == nil {
		dst = appendBytes(dst, clickPublicKey, caller.key.Reveal())
	}
	dst = appendNumber(dst, clickReceivedAtMs, receivedAt.UnixMilli())
	dst = appendBytes(dst, clickLandingURL, b.landing)
	dst = appendBytes(dst, clickReferrerDomain, b.referrer)
	dst = appendBytes(dst, clickUTMSource, b.text[fieldUTMSource])
	dst = appendBytes(dst, clickUTMMedium, b.text[fieldUTMMedium])
	dst = appendBytes(dst, clickUTMCampaign, b.text[fieldUTMCampaign])
	dst = appendBytes(dst, clickUTMTerm, b.text[fieldUTMTerm])
	dst = appendBytes(dst, clickUTMContent, b.text[fieldUTMContent])
	dst = appendBytes(dst, clickSubID, b.text[fieldSubID])
	dst = appendNumber(dst, clickConsent, int64(edgeConsent(b.consent)))
	if keepPersonal {
		dst = appendBytes(dst, clickLanguage, b.text[fieldLanguage])
		dst = appendBytes(dst, clickScreen, b.text[fieldScreen])
	}
	if keepPersonal && v.addr.IsValid() {
		hash := monthHashes.sum("ip", v.addr.AsSlice())
		dst = appendBytes(dst, clickIPHash, hash[:])
		dst = appendBytes(dst, clickIPPrefix, httpedge.AddressPrefix(v.addr))
	}
	if keepPersonal && agent.text != "" {
		hash := agent.hash(monthHashes)
		dst = appendBytes(dst, clickUAHash, hash[:])
	}
	bot := agent.bot
	if bot == "" && v.prefetched {
		bot = botPrefetch
	}
	if bot != "" {
		dst = appendNumber(dst, clickIsBot, 1)
		dst = appendBytes(dst, clickBotReason, bot)
	}
	if !b.occurredAt.IsZero() {
		dst = appendNumber(dst, clickOccurredAtMs, b.occurredAt.UnixMilli())
	}
	dst = appendNumber(dst, clickAttributionWindowDays, int64(codeEntry.GetAttributionWindowDays()))
	if v.foreignOrigin {
		dst = appendNumber(dst, clickForeignOrigin, 1)
	}
	device, os := agent.deviceAndSystem(b.text[fieldScreen])
	if keepPersonal {
		place := c.countries.lookup(v.addr)
		dst = appendBytes(dst, clickCountry, place.country)
		dst = appendBytes(dst, clickRegion, place.region)
	}
	dst = appendBytes(dst, clickDevice, device)
	if keepPersonal {
		dst = appendBytes(dst, clickBrowser, agent.browser)
		dst = appendBytes(dst, clickOS, os)
	}
	return appendBytes(dst, clickPaidPlatform, v.paidPlatform)
}

// appendBytes appends a field of bytes or text. It appends nothing if value is empty.
func appendBytes[T string | []byte](dst []byte, field protowire.Number, value T) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// appendNumber appends an integer or an enum. It appends nothing if value is zero.
func appendNumber(dst []byte, field protowire.Number, value int64) []byte {
	if value == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, field, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(value))
}

func edgeMode(mode affiliate.Mode) edgev1.Mode {
	if mode == affiliate.ModeLive {
		return edgev1.Mode_MODE_LIVE
	}
	return edgev1.Mode_MODE_TEST
}

func edgeConsent(consent affiliate.Consent) edgev1.Consent {
	switch consent {
	case affiliate.ConsentGranted:
		return edgev1.Consent_CONSENT_GRANTED
	case affiliate.ConsentDenied:
		return edgev1.Consent_CONSENT_DENIED
	case affiliate.ConsentUnknown:
	}
	return edgev1.Consent_CONSENT_UNKNOWN
}

// hasher computes 128-bit hashes of addresses and agents. Each calendar month (UTC) has a
// key of its own, derived from the deployment's key, so hashes of different months cannot
// be compared.
type hasher struct {
	key     []byte
	current atomic.Pointer[monthHasher]
}

// monthHasher computes the hashes of one month.
type monthHasher struct {
	number int // months since year 0
	macs   sync.Pool
}

// mac is an HMAC with buffers for its input and its result.
type mac struct {
	hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

const hashSize = 16

func (m *monthHasher) sum(kind string, data []byte) [hashSize]byte {
	h := m.macs.Get().(*mac)
	defer m.macs.Put(h)
	h.text = append(append(append(h.text[:0], kind...), 0), data...)
	h.Reset()
	h.Write(h.text)
	h.Sum(h.sum[:0])
	return [hashSize]byte(h.sum[:])
}

// forMonth returns the hasher of the calendar month that contains the given time.
func (h *hasher) forMonth(at time.Time) *monthHasher {
	at = at.UTC()
	year, monthOfYear, _ := at.Date()
	month := year*12 + int(monthOfYear)
	if current := h.current.Load(); current != nil && current.number == month {
		return current
	}
	keyMAC := hmac.New(sha256.New, h.key)
	keyMAC.Write([]byte("clicks " + at.Format("2006-01")))
	key := keyMAC.Sum(nil)
	next := &monthHasher{number: month}
	next.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	h.current.Store(next)
	return next
}
