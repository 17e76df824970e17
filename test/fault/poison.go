package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// spoilt is a way in which a record cannot be stored.
type spoilt int

const (
	// garbage: bytes that are no click.
	garbage spoilt = iota
	// notText: a click with a character that Postgres refuses.
	notText
	// nobodysKey and nobodysCode: taken by a blind edge, and leading nowhere.
	nobodysKey
	nobodysCode
	// torn: the batch breaks off in the middle of its last record.
	torn
	// noBatch: the entry is bytes and nothing else.
	noBatch
	spoiltWays
)

// batchClicks is ClickBatch.clicks.
const batchClicks = 1

// brew makes a marshalled edge.v1.ClickBatch with one spoilt record among good
// ones, and says what has to become of each.
func brew(r *rand.Rand, targets []target, now time.Time) (batch []byte, records []planted) {
	way := spoilt(r.IntN(int(spoiltWays)))
	if way == noBatch {
		raw := noise(r)
		return raw, []planted{{Record: raw, Dead: string(affiliate.ClickMalformed), At: now.UnixMilli()}}
	}
	good := 2 + r.IntN(6)
	bad := r.IntN(good + 1)
	if way == torn {
		bad = good
	}
	for n := range good + 1 {
		record, raw := brewRecord(r, targets, now)
		if n == bad {
			record, raw = spoil(r, way, record, raw)
		}
		framed := protowire.AppendBytes(protowire.AppendTag(nil, batchClicks, protowire.BytesType), raw)
		if n == bad && way == torn {
			framed = framed[:len(framed)-1-r.IntN(len(raw)-1)]
			record = planted{Record: framed, Dead: string(affiliate.ClickMalformed), At: record.At}
		}
		batch = append(batch, framed...)
		records = append(records, record)
	}
	return batch, records
}

// brewRecord makes a good click, as a collector writes it that knows the
// directory, or as one that does not.
func brewRecord(r *rand.Rand, targets []target, now time.Time) (planted, []byte) {
	which := r.IntN(len(targets))
	to := targets[which]
	id := affiliate.NewID[affiliate.Click](now)
	click := &edgev1.Click{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE, ReferralCode: affiliate.FoldCode(to.code), ReceivedAtMs: now.UnixMilli(),
		SubId: fmt.Sprintf("planted-%d", r.Uint32()), Consent: edgev1.Consent_CONSENT_UNKNOWN,
	}
	if r.IntN(2) == 0 {
		click.PublicKey = to.key
	} else {
		click.WorkspaceId, click.ProgramId, click.ParticipantId, click.LinkId = to.workspace[:], to.program[:], to.participant[:], to.link[:]
		click.AttributionWindowDays = 30
	}
	return planted{ID: id.UUID, SubID: click.SubId, Target: which, At: now.UnixMilli()}, marshal(click)
}

// spoil makes of a good record one that cannot be stored.
func spoil(r *rand.Rand, way spoilt, record planted, raw []byte) (planted, []byte) {
	var click edgev1.Click
	if err := proto.Unmarshal(raw, &click); err != nil {
		panic(err) // it was marshalled a line ago
	}
	switch way {
	case garbage:
		raw := noise(r)
		return planted{Record: raw, Dead: string(affiliate.ClickMalformed), At: record.At}, raw
	case notText:
		click.SubId += "\x00"
		record.Dead = string(affiliate.ClickRejected)
	case nobodysKey:
		click.WorkspaceId, click.ProgramId, click.ParticipantId, click.LinkId, click.AttributionWindowDays = nil, nil, nil, nil, 0
		click.PublicKey = affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive).Reveal()
		record.Dead = string(affiliate.ClickKeyUnknown)
	case nobodysCode:
		if click.PublicKey == "" {
			return record, raw // a resolved click needs no code: it is good
		}
		click.ReferralCode = fmt.Sprintf("nobodys-%d", r.Uint32())
		record.Dead = string(affiliate.ClickCodeUnknown)
	default:
		return record, raw
	}
	record.SubID = click.SubId
	return record, marshal(&click)
}

// noise is bytes that begin with a tag that no message has.
func noise(r *rand.Rand) []byte {
	raw := []byte{0x07}
	for range 4 + r.IntN(40) {
		raw = append(raw, byte(r.Uint32()))
	}
	return slices.Clip(raw)
}

func marshal(click *edgev1.Click) []byte {
	raw, err := proto.Marshal(click)
	if err != nil {
		panic(err) // its text is ours
	}
	return raw
}
