package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// defect is a reason why a record cannot be stored.
type defect int

const (
	// garbage means bytes that are not a click.
	garbage defect = iota
	// notText means a click with a character that Postgres does not accept.
	notText
	// unknownKey and unknownCode mean a click with an unknown public key or referral
	// code. A collector that cannot read the edge directory accepts such clicks.
	unknownKey
	unknownCode
	// truncated means that the batch ends in the middle of its last record.
	truncated
	// notABatch means that the entry of the stream is not a batch.
	notABatch
	defectCount
)

// batchClicks is the field number of ClickBatch.clicks.
const batchClicks = 1

// poisonBatch returns a marshalled edge.v1.ClickBatch with valid records and one invalid
// record. It also returns the expected result for each record.
func poisonBatch(r *rand.Rand, targets []target, now time.Time) (batch []byte, records []plantedRecord) {
	chosen := defect(r.IntN(int(defectCount)))
	if chosen == notABatch {
		raw := randomBytes(r)
		return raw, []plantedRecord{{Record: raw, DeadLetterReason: string(click.Malformed), At: now.UnixMilli()}}
	}
	good := 2 + r.IntN(6)
	bad := r.IntN(good + 1)
	if chosen == truncated {
		bad = good
	}
	for n := range good + 1 {
		record, raw := validRecord(r, targets, now)
		if n == bad {
			record, raw = corrupt(r, chosen, record, raw)
		}
		framed := protowire.AppendBytes(protowire.AppendTag(nil, batchClicks, protowire.BytesType), raw)
		if n == bad && chosen == truncated {
			framed = framed[:len(framed)-1-r.IntN(len(raw)-1)]
			record = plantedRecord{Record: framed, DeadLetterReason: string(click.Malformed), At: record.At}
		}
		batch = append(batch, framed...)
		records = append(records, record)
	}
	return batch, records
}

// validRecord returns a valid click. A random half of the clicks have no ids of the
// programme and participant, as if the collector could not read the edge directory.
func validRecord(r *rand.Rand, targets []target, now time.Time) (plantedRecord, []byte) {
	index := r.IntN(len(targets))
	t := targets[index]
	id := affiliate.NewID[affiliate.ClickID](now)
	click := &edgev1.Click{
		Id: id.UUID[:], Mode: edgev1.Mode_MODE_LIVE, ReferralCode: click.FoldCode(t.code), ReceivedAtMs: now.UnixMilli(),
		SubId: fmt.Sprintf("planted-%d", r.Uint32()), Consent: edgev1.Consent_CONSENT_UNKNOWN,
	}
	if r.IntN(2) == 0 {
		click.PublicKey = t.key
	} else {
		click.WorkspaceId, click.ProgramId, click.ParticipantId, click.LinkId = t.workspace[:], t.program[:], t.participant[:], t.link[:]
		click.AttributionWindowDays = 30
	}
	return plantedRecord{ID: id.UUID, SubID: click.SubId, Target: index, At: now.UnixMilli()}, marshal(click)
}

// corrupt changes a valid record so that it cannot be stored.
func corrupt(r *rand.Rand, chosen defect, record plantedRecord, raw []byte) (plantedRecord, []byte) {
	var decoded edgev1.Click
	if err := proto.Unmarshal(raw, &decoded); err != nil {
		panic(err) // cannot happen, because the caller has just marshalled the record
	}
	switch chosen {
	case garbage:
		raw := randomBytes(r)
		return plantedRecord{Record: raw, DeadLetterReason: string(click.Malformed), At: record.At}, raw
	case notText:
		decoded.SubId += "\x00"
		record.DeadLetterReason = string(click.Rejected)
	case unknownKey:
		decoded.WorkspaceId, decoded.ProgramId, decoded.ParticipantId, decoded.LinkId, decoded.AttributionWindowDays = nil, nil, nil, nil, 0
		decoded.PublicKey = account.NewKey(account.PublicKey, affiliate.ModeLive).Reveal()
		record.DeadLetterReason = string(click.KeyUnknown)
	case unknownCode:
		if decoded.PublicKey == "" {
			return record, raw // a click with a resolved target needs no code, so it is valid
		}
		decoded.ReferralCode = fmt.Sprintf("nobodys-%d", r.Uint32())
		record.DeadLetterReason = string(click.CodeUnknown)
	default:
		return record, raw
	}
	record.SubID = decoded.SubId
	return record, marshal(&decoded)
}

// randomBytes returns random bytes. The first byte is a tag that no message has.
func randomBytes(r *rand.Rand) []byte {
	raw := []byte{0x07}
	for range 4 + r.IntN(40) {
		raw = append(raw, byte(r.Uint32()))
	}
	return slices.Clip(raw)
}

func marshal(click *edgev1.Click) []byte {
	raw, err := proto.Marshal(click)
	if err != nil {
		panic(err) // cannot happen, because the text is valid UTF-8
	}
	return raw
}
