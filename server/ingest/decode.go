package ingest

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// record is one click of an entry.
type record struct {
	click affiliate.Click
	// raw is the marshalled edge.v1.Click.
	raw []byte
	// source is set while the click is unresolved.
	source *affiliate.ClickSource
}

// parcel is one entry taken apart.
type parcel struct {
	entry   clickstream.Entry
	records []record
	dead    []letter
}

// letter is a record that will not be stored.
type letter struct {
	id     affiliate.ClickID
	reason affiliate.ClickDeadReason
	raw    []byte
	// why is for people; it goes to the log.
	why error
}

// batchClicksField is ClickBatch.clicks.
const batchClicksField = 1

// unpack takes an entry apart record by record, so that one that cannot be read
// costs no other. What does not decode now never will, so it is dead at once.
func unpack(entry clickstream.Entry) parcel {
	p := parcel{entry: entry, records: make([]record, 0, weight(entry))}
	// One message for all records: what a click keeps of it is never written again.
	var edge edgev1.Click
	rest := entry.Batch
	if len(rest) == 0 {
		p.dead = append(p.dead, letter{reason: affiliate.ClickMalformed, raw: rest, why: errors.New("the entry holds no batch")})
	}
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			p.dead = append(p.dead, letter{reason: affiliate.ClickMalformed, raw: rest, why: protowire.ParseError(n)})
			break
		}
		if number != batchClicksField || kind != protowire.BytesType {
			// A field of a later release.
			skipped := protowire.ConsumeFieldValue(number, kind, rest[n:])
			if skipped < 0 {
				p.dead = append(p.dead, letter{reason: affiliate.ClickMalformed, raw: rest, why: protowire.ParseError(skipped)})
				break
			}
			rest = rest[n+skipped:]
			continue
		}
		raw, used := protowire.ConsumeBytes(rest[n:])
		if used < 0 {
			p.dead = append(p.dead, letter{reason: affiliate.ClickMalformed, raw: rest, why: protowire.ParseError(used)})
			break
		}
		rest = rest[n+used:]
		p.add(raw, &edge)
	}
	return p
}

func (p *parcel) add(raw []byte, edge *edgev1.Click) {
	if err := proto.Unmarshal(raw, edge); err != nil {
		p.dead = append(p.dead, letter{reason: affiliate.ClickMalformed, raw: raw, why: err})
		return
	}
	r, err := fromEdge(edge)
	if err != nil {
		reason := affiliate.ClickMalformed
		if errors.Is(err, errNoKey) {
			reason = affiliate.ClickKeyUnknown
		}
		p.dead = append(p.dead, letter{id: r.click.ID, reason: reason, raw: raw, why: err})
		return
	}
	r.raw = raw
	p.records = append(p.records, r)
}

var errNoKey = errors.New("the public key is malformed")

// fromEdge reads the stream's record. With an error, the record has at least
// the click's id if there was one.
func fromEdge(edge *edgev1.Click) (record, error) {
	var r record
	id, ok := affiliate.IDFromBytes[affiliate.Click](edge.Id)
	clickedAt, isV7 := id.Time()
	if !ok || !isV7 {
		return r, errors.New("the id is no UUIDv7")
	}
	r.click = affiliate.Click{
		ID:             id,
		ReferralCode:   edge.ReferralCode,
		ClickedAt:      clickedAt,
		ReceivedAt:     time.UnixMilli(edge.ReceivedAtMs).UTC(),
		LandingURL:     edge.LandingUrl,
		ReferrerDomain: edge.ReferrerDomain,
		UTM: affiliate.UTM{
			Source: edge.UtmSource, Medium: edge.UtmMedium, Campaign: edge.UtmCampaign,
			Term: edge.UtmTerm, Content: edge.UtmContent,
		},
		SubID:     edge.SubId,
		Consent:   consentOf(edge.Consent),
		Language:  edge.Language,
		Screen:    edge.Screen,
		IPHash:    edge.IpHash,
		IPPrefix:  edge.IpPrefix,
		UAHash:    edge.UaHash,
		IsBot:     edge.IsBot,
		BotReason: name(edge.BotReason),

		Country:      country(edge.Country),
		Region:       region(edge.Country, edge.Region),
		Device:       device(edge.Device),
		Browser:      name(edge.Browser),
		OS:           name(edge.Os),
		PaidPlatform: name(edge.PaidPlatform),

		ForeignOrigin: edge.ForeignOrigin,
	}
	if edge.OccurredAtMs != 0 {
		at := time.UnixMilli(edge.OccurredAtMs).UTC()
		r.click.OccurredAt = &at
	}
	if edge.ReceivedAtMs <= 0 {
		return r, errors.New("the time of receipt is missing")
	}
	switch edge.Mode {
	case edgev1.Mode_MODE_TEST:
		r.click.Scope.Mode = affiliate.ModeTest
	case edgev1.Mode_MODE_LIVE:
		r.click.Scope.Mode = affiliate.ModeLive
	default:
		return r, fmt.Errorf("the mode is %v", edge.Mode)
	}
	if len(edge.WorkspaceId) == 0 {
		key, ok := affiliate.ParseKey(edge.PublicKey)
		if !ok || key.Kind != affiliate.PublicKey {
			return r, errNoKey
		}
		r.source = &affiliate.ClickSource{KeyDigest: key.Digest(), Code: affiliate.FoldCode(edge.ReferralCode)}
		return r, nil
	}
	var okWorkspace, okProgram, okParticipant bool
	r.click.Scope.Workspace, okWorkspace = affiliate.IDFromBytes[affiliate.Workspace](edge.WorkspaceId)
	r.click.Program, okProgram = affiliate.IDFromBytes[affiliate.Program](edge.ProgramId)
	r.click.Participant, okParticipant = affiliate.IDFromBytes[affiliate.Participant](edge.ParticipantId)
	if !okWorkspace || !okProgram || !okParticipant || edge.AttributionWindowDays <= 0 {
		return r, errors.New("a resolved click lacks an id or its window")
	}
	if len(edge.LinkId) > 0 {
		if r.click.Link, ok = affiliate.IDFromBytes[affiliate.Link](edge.LinkId); !ok {
			return r, errors.New("the link's id is no UUID")
		}
	}
	r.click.ExpiresAt = affiliate.WindowEnd(r.click.ReceivedAt, int(edge.AttributionWindowDays))
	return r, nil
}

func consentOf(consent edgev1.Consent) affiliate.Consent {
	switch consent {
	case edgev1.Consent_CONSENT_GRANTED:
		return affiliate.ConsentGranted
	case edgev1.Consent_CONSENT_DENIED:
		return affiliate.ConsentDenied
	case edgev1.Consent_CONSENT_UNKNOWN, edgev1.Consent_CONSENT_UNSPECIFIED:
	}
	return affiliate.ConsentUnknown
}

// The edge finds these out by itself, so an odd one is the edge's fault, and
// dropped rather than the click.

// country is ISO 3166-1 alpha-2, or nothing.
func country(code string) string {
	if len(code) != 2 || strings.ContainsFunc(code, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		return ""
	}
	return code
}

// region is the part of ISO 3166-2 behind the dash, or nothing; it is none
// without its country.
func region(of, code string) string {
	odd := func(c rune) bool { return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') }
	if country(of) == "" || len(code) > 3 || strings.ContainsFunc(code, odd) {
		return ""
	}
	return code
}

func device(kind string) string {
	switch kind {
	case "desktop", "mobile", "tablet":
		return kind
	}
	return ""
}

// maxName bounds, in bytes, what the edge calls a browser, a system, an ad
// platform or a reason.
const maxName = 40

func name(text string) string {
	if len(text) > maxName || strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}

// FromEdge reads a resolved click of the stream's tail (clickstream.Tail), for
// a conversion that cannot wait for its row; false for one that ingestion has
// yet to resolve or will never store.
func FromEdge(edge *edgev1.Click) (affiliate.Click, bool) {
	r, err := fromEdge(edge)
	return r.click, err == nil && r.source == nil
}

// resolve puts the target of a source into the click.
func (r *record) resolve(target affiliate.ClickTarget) {
	r.click.Scope = target.Scope
	r.click.Program = target.Program
	r.click.Participant = target.Participant
	r.click.Link = target.Link
	r.click.ExpiresAt = affiliate.WindowEnd(r.click.ReceivedAt, target.WindowDays)
	r.source = nil
}
