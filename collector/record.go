package collector

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

const batchFieldClicks protowire.Number = 1

// Field numbers of edge.v1.Click.
const (
	clickFieldID protowire.Number = 1 + iota
	clickFieldMode
	clickFieldWorkspaceID
	clickFieldProgramID
	clickFieldParticipantID
	clickFieldLinkID
	clickFieldReferralCode
	clickFieldPublicKey
	clickFieldReceivedAtMs
	clickFieldLandingURL
	clickFieldReferrerDomain
	clickFieldUTMSource
	clickFieldUTMMedium
	clickFieldUTMCampaign
	clickFieldUTMTerm
	clickFieldUTMContent
	clickFieldSubID
	clickFieldConsent
	clickFieldLanguage
	clickFieldScreen
	clickFieldIPHash
	clickFieldIPPrefix
	clickFieldUAHash
	clickFieldIsBot
	clickFieldBotReason
	clickFieldOccurredAtMs
	clickFieldAttributionWindowDays
	clickFieldForeignOrigin
	clickFieldCountry
	clickFieldRegion
	clickFieldDevice
	clickFieldBrowser
	clickFieldOS
	clickFieldPaidPlatform
	clickFieldTraceReference
)

// frame appends a record to dst as one element of ClickBatch.clicks. Concatenated framed
// records are a marshalled ClickBatch.
func frame(dst, record []byte) []byte { return appendBytes(dst, batchFieldClicks, record) }

// visitor holds the properties of a visit that are not in a clickBody. They come from the
// connection, the headers and, for paidPlatform, the URL.
type visitor struct {
	addr          netip.Addr
	agent         string
	foreignOrigin bool // the workspace does not allow the origin of the page
	prefetched    bool
	// paidPlatform is the platform of the ad that led to the click, or empty.
	paidPlatform string
	// trace refers to the recorded span of the request (package spans), or is nil.
	trace []byte
}

// record appends a click to dst as a marshalled edge.v1.Click. If the visitor denied
// consent, the click contains no data that could identify the visitor and nothing that is
// derived from the address, not even the country. From the user agent and the screen size,
// the click then contains only the kind of device and the bot reason.
//
// record does not use proto.Marshal, because the reflection of proto.Marshal would take
// longer than everything else here. The fields have the same order as in proto.Marshal.
func (c *Collector) record(
	dst []byte, id affiliate.ClickID, receivedAt time.Time, caller apiCaller, codeEntry *edgev1.ReferralCodeEntry, body *clickBody, v visitor,
) []byte {
	keepPersonal := body.consent != click.ConsentDenied
	agent, monthHashes := c.agents.parse(v.agent), c.hashes.forMonth(receivedAt)
	dst = appendBytes(dst, clickFieldID, id.UUID[:])
	dst = appendNumber(dst, clickFieldMode, int64(edgeMode(caller.key.Mode)))
	if codeEntry != nil {
		dst = appendBytes(dst, clickFieldWorkspaceID, caller.scope.Workspace.UUID[:])
		dst = appendBytes(dst, clickFieldProgramID, codeEntry.ProgramId)
		dst = appendBytes(dst, clickFieldParticipantID, codeEntry.ParticipantId)
		dst = appendBytes(dst, clickFieldLinkID, codeEntry.LinkId)
	}
	dst = appendBytes(dst, clickFieldReferralCode, body.code)
	if codeEntry == nil {
		dst = appendBytes(dst, clickFieldPublicKey, caller.key.Reveal())
	}
	dst = appendNumber(dst, clickFieldReceivedAtMs, receivedAt.UnixMilli())
	dst = appendBytes(dst, clickFieldLandingURL, body.landing)
	dst = appendBytes(dst, clickFieldReferrerDomain, body.referrer)
	dst = appendBytes(dst, clickFieldUTMSource, body.text[fieldUTMSource])
	dst = appendBytes(dst, clickFieldUTMMedium, body.text[fieldUTMMedium])
	dst = appendBytes(dst, clickFieldUTMCampaign, body.text[fieldUTMCampaign])
	dst = appendBytes(dst, clickFieldUTMTerm, body.text[fieldUTMTerm])
	dst = appendBytes(dst, clickFieldUTMContent, body.text[fieldUTMContent])
	dst = appendBytes(dst, clickFieldSubID, body.text[fieldSubID])
	dst = appendNumber(dst, clickFieldConsent, int64(edgeConsent(body.consent)))
	if keepPersonal {
		dst = appendBytes(dst, clickFieldLanguage, body.text[fieldLanguage])
		dst = appendBytes(dst, clickFieldScreen, body.text[fieldScreen])
	}
	if keepPersonal && v.addr.IsValid() {
		hash := monthHashes.sum("ip", v.addr.AsSlice())
		dst = appendBytes(dst, clickFieldIPHash, hash[:])
		dst = appendBytes(dst, clickFieldIPPrefix, httpedge.AddressPrefix(v.addr))
	}
	if keepPersonal && agent.text != "" {
		hash := agent.hash(monthHashes)
		dst = appendBytes(dst, clickFieldUAHash, hash[:])
	}
	bot := agent.bot
	if bot == "" && v.prefetched {
		bot = botPrefetch
	}
	if bot != "" {
		dst = appendNumber(dst, clickFieldIsBot, 1)
		dst = appendBytes(dst, clickFieldBotReason, bot)
	}
	if !body.occurredAt.IsZero() {
		dst = appendNumber(dst, clickFieldOccurredAtMs, body.occurredAt.UnixMilli())
	}
	dst = appendNumber(dst, clickFieldAttributionWindowDays, int64(codeEntry.GetAttributionWindowDays()))
	if v.foreignOrigin {
		dst = appendNumber(dst, clickFieldForeignOrigin, 1)
	}
	device, os := agent.deviceAndSystem(body.text[fieldScreen])
	if keepPersonal {
		place := c.deps.countries.lookup(v.addr)
		dst = appendBytes(dst, clickFieldCountry, place.country)
		dst = appendBytes(dst, clickFieldRegion, place.region)
	}
	dst = appendBytes(dst, clickFieldDevice, device)
	if keepPersonal {
		dst = appendBytes(dst, clickFieldBrowser, agent.browser)
		dst = appendBytes(dst, clickFieldOS, os)
	}
	dst = appendBytes(dst, clickFieldPaidPlatform, v.paidPlatform)
	if keepPersonal {
		// The page may have chosen the trace id, so the id could identify the visitor.
		dst = appendBytes(dst, clickFieldTraceReference, v.trace)
	}
	return dst
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

func edgeConsent(consent click.Consent) edgev1.Consent {
	switch consent {
	case click.ConsentGranted:
		return edgev1.Consent_CONSENT_GRANTED
	case click.ConsentDenied:
		return edgev1.Consent_CONSENT_DENIED
	case click.ConsentUnknown:
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

type monthHasher struct {
	number int // months since year 0
	macs   sync.Pool
}

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

// paidPlatform returns the ad platform that led the visitor to a URL with the given
// query, or "". Ad platforms add a parameter with a click id of their own to the URL of
// an ad. The first such parameter decides. Its value is neither stored nor logged. The
// parameter fbclid is ignored, because Facebook adds it to every shared link.
func paidPlatform(query string) string {
	for query != "" {
		var param string
		param, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(param, "=")
		if platform := adPlatform(name); platform != "" {
			return platform
		}
	}
	return ""
}

func queryOf(url string) string {
	url, _, _ = strings.Cut(url, "#")
	_, query, _ := strings.Cut(url, "?")
	return query
}

// adPlatform returns the ad platform that uses a parameter of this name for its click
// ids, or "".
func adPlatform(name string) string {
	switch name {
	case "gclid", "gbraid", "wbraid", "dclid":
		return "google"
	case "msclkid":
		return "microsoft"
	case "ttclid":
		return "tiktok"
	case "twclid":
		return "x"
	case "li_fat_id":
		return "linkedin"
	case "epik":
		return "pinterest"
	case "rdt_cid":
		return "reddit"
	case "ScCid", "sccid":
		return "snapchat"
	case "yclid":
		return "yandex"
	}
	return ""
}
