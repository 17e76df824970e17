package collector

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// batchClicksField is ClickBatch.clicks.
const batchClicksField = 1

// frame appends click as one element of ClickBatch.clicks: the concatenation of
// framed clicks is a marshalled ClickBatch, so a batch needs no marshalling of
// its own.
func frame(dst []byte, click *edgev1.Click) ([]byte, error) {
	size := proto.Size(click)
	dst = protowire.AppendTag(dst, batchClicksField, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, click)
}

// visitor is what the request itself says about who clicked.
type visitor struct {
	addr  netip.Addr
	agent string
}

// record makes the stream's record of a click. Of a visitor who denied consent
// it holds nothing that could tell one visitor from another.
func (c *Collector) record(id affiliate.ClickID, at time.Time, who caller, target *edgev1.ReferralCodeEntry, b *body, from visitor) *edgev1.Click {
	click := &edgev1.Click{
		Id:             id.UUID[:],
		Mode:           edgeMode(who.key.Mode),
		ReferralCode:   b.code,
		ReceivedAtMs:   at.UnixMilli(),
		LandingUrl:     b.landing,
		ReferrerDomain: b.referrer,
		UtmSource:      b.text[fieldUTMSource],
		UtmMedium:      b.text[fieldUTMMedium],
		UtmCampaign:    b.text[fieldUTMCampaign],
		UtmTerm:        b.text[fieldUTMTerm],
		UtmContent:     b.text[fieldUTMContent],
		SubId:          b.text[fieldSubID],
		Consent:        edgeConsent(b.consent),
		Language:       b.text[fieldLanguage],
		Screen:         b.text[fieldScreen],
	}
	if !b.occurredAt.IsZero() {
		click.OccurredAtMs = b.occurredAt.UnixMilli()
	}
	if target != nil {
		click.WorkspaceId = who.scope.Workspace.UUID[:]
		click.ProgramId = target.ProgramId
		click.ParticipantId = target.ParticipantId
		click.LinkId = target.LinkId
		click.AttributionWindowDays = target.AttributionWindowDays
	} else {
		click.PublicKey = who.key.Reveal()
	}
	if b.consent != affiliate.ConsentDenied {
		if from.addr.IsValid() {
			click.IpHash = c.hashes.sum(at, "ip", from.addr.AsSlice())
			click.IpPrefix = prefixOf(from.addr)
		}
		if from.agent != "" {
			click.UaHash = c.hashes.sum(at, "ua", []byte(from.agent))
		}
	}
	return click
}

// prefixOf is the part of an address that is kept in clear.
func prefixOf(addr netip.Addr) string {
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
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

// hashes turns addresses and agents into 128 bit values that are equal within a
// calendar month (UTC) and mean nothing after it: each month has a key of its
// own, derived from the deployment's.
type hashes struct {
	key []byte

	mu    sync.Mutex
	month int // since year 0
	macs  *sync.Pool
}

const hashSize = 16

func (h *hashes) sum(at time.Time, kind string, what []byte) []byte {
	pool := h.pool(at)
	mac := pool.Get().(hash.Hash)
	defer pool.Put(mac)
	mac.Reset()
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(what)
	return mac.Sum(nil)[:hashSize]
}

func (h *hashes) pool(at time.Time) *sync.Pool {
	year, inYear, _ := at.UTC().Date()
	month := year*12 + int(inYear)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.macs == nil || h.month != month {
		derive := hmac.New(sha256.New, h.key)
		derive.Write([]byte("clicks " + at.UTC().Format("2006-01")))
		monthly := derive.Sum(nil)
		h.month = month
		h.macs = &sync.Pool{New: func() any { return hmac.New(sha256.New, monthly) }}
	}
	return h.macs
}
