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
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

type record struct {
	click click.Click
	// raw is the marshalled edge.v1.Click.
	raw []byte
	// source contains the public key and the referral code of the click. They are used to
	// look up the click's target, which consists of a workspace, a programme, a
	// participant and a link. source is nil if the collector has already looked up the
	// target.
	source *click.Source
	// fromFuture is true if the collector's time of receipt was in the future.
	fromFuture bool
	// trace refers to the recorded span of the click's request (package spans). It is empty
	// for most clicks.
	trace []byte
}

type decodedEntry struct {
	entry      clickstream.Entry
	records    []record
	dead       []deadRecord
	fromFuture int // number of records with fromFuture
}

// deadRecord is a record that cannot be stored as a click.
type deadRecord struct {
	id     affiliate.ClickID
	reason click.DeadReason
	raw    []byte
	cause  error // for the log; can be nil
}

const batchClicksField = 1

// maxClockLead is the time by which the clock of a collector may be ahead. Clocks always
// differ a little.
const maxClockLead = 2 * time.Second

// decodeEntry decodes an entry record by record, so that a malformed record does not
// affect the others. A malformed record becomes a dead record immediately, because it
// would be malformed in each further attempt. latest is the latest possible time of receipt
// of the entry's clicks.
func decodeEntry(entry clickstream.Entry, latest time.Time) decodedEntry {
	p := decodedEntry{entry: entry, records: make([]record, 0, weight(entry))}
	// All records are decoded into the same message, which saves allocations. This is
	// safe, because Unmarshal does not overwrite the strings and slices that earlier
	// clicks refer to.
	var edge edgev1.Click
	rest := entry.Batch
	if len(rest) == 0 {
		p.dead = append(p.dead, deadRecord{reason: click.Malformed, raw: rest, cause: errors.New("the entry has no batch")})
	}
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			p.dead = append(p.dead, deadRecord{reason: click.Malformed, raw: rest, cause: protowire.ParseError(n)})
			break
		}
		if number != batchClicksField || kind != protowire.BytesType {
			// A newer version of the collector may have added this field. Skip it.
			skipped := protowire.ConsumeFieldValue(number, kind, rest[n:])
			if skipped < 0 {
				p.dead = append(p.dead, deadRecord{reason: click.Malformed, raw: rest, cause: protowire.ParseError(skipped)})
				break
			}
			rest = rest[n+skipped:]
			continue
		}
		raw, used := protowire.ConsumeBytes(rest[n:])
		if used < 0 {
			p.dead = append(p.dead, deadRecord{reason: click.Malformed, raw: rest, cause: protowire.ParseError(used)})
			break
		}
		rest = rest[n+used:]
		p.add(raw, &edge, latest)
	}
	return p
}

// latestReceipt returns the latest possible time of receipt of a click that Redis stored at
// storedAt. The current time is a second limit, because the clock of Redis may be wrong too.
func latestReceipt(storedAt, now time.Time) time.Time {
	if storedAt.After(now) {
		storedAt = now
	}
	return storedAt.UTC().Truncate(time.Millisecond)
}

func (p *decodedEntry) add(raw []byte, edge *edgev1.Click, latest time.Time) {
	if err := proto.Unmarshal(raw, edge); err != nil {
		p.dead = append(p.dead, deadRecord{reason: click.Malformed, raw: raw, cause: err})
		return
	}
	r, err := fromEdge(edge, latest)
	if err != nil {
		reason := click.Malformed
		if errors.Is(err, errMalformedKey) {
			reason = click.KeyUnknown
		}
		p.dead = append(p.dead, deadRecord{id: r.click.ID, reason: reason, raw: raw, cause: err})
		return
	}
	if r.fromFuture {
		p.fromFuture++
	}
	r.raw, r.trace = raw, edge.TraceReference
	p.records = append(p.records, r)
}

var errMalformedKey = errors.New("the public key is malformed")

// fromEdge converts a click of the stream to a record. If it returns an error, the record
// contains the click's id, unless the id itself is invalid. If the time of receipt is more than
// maxClockLead after latest, the clock of the collector is wrong, and the click gets the time latest.
// With the wrong time, sales that the click led to would be earlier than the click and not attributed.
func fromEdge(edge *edgev1.Click, latest time.Time) (record, error) {
	var r record
	id, ok := affiliate.IDFromBytes[affiliate.ClickID](edge.Id)
	clickedAt, isV7 := id.Time()
	if !ok || !isV7 {
		return r, errors.New("the id is not a UUIDv7")
	}
	r.click = click.Click{
		ID:             id,
		ReferralCode:   edge.ReferralCode,
		ClickedAt:      clickedAt,
		ReceivedAt:     time.UnixMilli(edge.ReceivedAtMs).UTC(),
		LandingURL:     edge.LandingUrl,
		ReferrerDomain: edge.ReferrerDomain,
		UTM: click.UTM{
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
	if r.click.ReceivedAt.Sub(latest) > maxClockLead {
		r.fromFuture, r.click.ReceivedAt = true, latest
	}
	if edge.OccurredAtMs != 0 {
		at := time.UnixMilli(edge.OccurredAtMs).UTC()
		r.click.OccurredAt = &at
	}
	if edge.ReceivedAtMs <= 0 {
		return r, errors.New("received_at_ms is missing")
	}
	switch edge.Mode {
	case edgev1.Mode_MODE_TEST:
		r.click.Mode = affiliate.ModeTest
	case edgev1.Mode_MODE_LIVE:
		r.click.Mode = affiliate.ModeLive
	default:
		return r, fmt.Errorf("the mode is %v", edge.Mode)
	}
	if len(edge.WorkspaceId) == 0 {
		key, ok := account.ParseKey(edge.PublicKey)
		if !ok || key.Kind != account.PublicKey {
			return r, errMalformedKey
		}
		r.source = &click.Source{KeyDigest: key.Digest(), Code: click.FoldCode(edge.ReferralCode)}
		return r, nil
	}
	var okWorkspace, okProgram, okParticipant, okLink bool
	r.click.Workspace, okWorkspace = affiliate.IDFromBytes[affiliate.WorkspaceID](edge.WorkspaceId)
	r.click.Program, okProgram = affiliate.IDFromBytes[affiliate.ProgramID](edge.ProgramId)
	r.click.Participant, okParticipant = affiliate.IDFromBytes[affiliate.ParticipantID](edge.ParticipantId)
	r.click.Link, okLink = affiliate.IDFromBytes[affiliate.LinkID](edge.LinkId)
	if !okWorkspace || !okProgram || !okParticipant || !okLink || edge.AttributionWindowDays <= 0 {
		return r, errors.New("a resolved click has no valid workspace, program, participant or link id, or no attribution window")
	}
	r.click.ExpiresAt = click.WindowEnd(r.click.ReceivedAt, int(edge.AttributionWindowDays))
	return r, nil
}

func consentOf(consent edgev1.Consent) click.Consent {
	switch consent {
	case edgev1.Consent_CONSENT_GRANTED:
		return click.ConsentGranted
	case edgev1.Consent_CONSENT_DENIED:
		return click.ConsentDenied
	case edgev1.Consent_CONSENT_UNKNOWN, edgev1.Consent_CONSENT_UNSPECIFIED:
	}
	return click.ConsentUnknown
}

// The following functions check values that come from the collector and not from the
// browser. An invalid value is therefore the result of a bug in the collector. The click
// is stored without the value.

// country returns code if it has the form of an ISO 3166-1 alpha-2 code. Otherwise it
// returns "".
func country(code string) string {
	if len(code) != 2 || strings.ContainsFunc(code, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		return ""
	}
	return code
}

// region returns code if it has the form of the second part of an ISO 3166-2 code and
// countryCode is valid. Otherwise it returns "".
func region(countryCode, code string) string {
	invalid := func(c rune) bool { return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') }
	if country(countryCode) == "" || len(code) > 3 || strings.ContainsFunc(code, invalid) {
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

// maxNameBytes is the maximum length in bytes of the names of browsers, operating
// systems, ad platforms and bot reasons.
const maxNameBytes = 40

// name returns text if it is not too long and contains no control characters. Otherwise
// it returns "".
func name(text string) string {
	if len(text) > maxNameBytes || strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}

// FromEdge converts a click that was read directly from the click stream
// (clickstream.Tail). Package conversion needs such clicks if they are not stored in the
// database yet. storedAt is the time at which Redis has stored the click, and now is the
// current time. FromEdge returns false if the click is malformed or if its target must
// still be looked up.
func FromEdge(edge *edgev1.Click, storedAt, now time.Time) (click.Click, bool) {
	r, err := fromEdge(edge, latestReceipt(storedAt, now))
	return r.click, err == nil && r.source == nil
}

// resolve sets the target of the click, after the database has found the target for the
// record's source.
func (r *record) resolve(target click.Target) {
	r.click.Scope = target.Scope
	r.click.Program = target.Program
	r.click.Participant = target.Participant
	r.click.Link = target.Link
	r.click.ExpiresAt = click.WindowEnd(r.click.ReceivedAt, target.WindowDays)
	r.source = nil
}
