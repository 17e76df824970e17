package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// history is everything that was asked of the system, and what it answered.
type history struct {
	attempts []attempt
	planted  []planted
	// targets are what clicks lead to, by attempt.Target.
	targets []target
	// end is after the last request and the last replay, Unix milliseconds.
	end int64
	// flushed: the storm made the service forget its visitors.
	flushed bool
}

// tables are what the database holds.
type tables struct {
	clicks  []clickRow
	letters []letterRow
	// counts are the clicks that the API tells of each participant.
	counts map[uuid.UUID]int64
}

type clickRow struct {
	ID            uuid.UUID
	SubID         string
	ParticipantID uuid.UUID
	ReceivedAt    time.Time
	IsBot         bool
	IsUnique      bool
	ReferralCode  string
	IPHash        []byte
	UAHash        []byte
}

type letterRow struct {
	ID     uuid.UUID
	Reason string
	Record []byte
}

// skew is how far a time of receipt may lie outside its request: both clocks are
// one, and one of them is cut to milliseconds.
const skew = 20 * time.Millisecond

// verdict is the comparison of the two.
type verdict struct {
	requests, attempts int
	outcomes           [outcomes]int
	// acknowledged counts distinct click ids, planted ones that Redis acknowledged
	// included; blind those that an edge without the directory took.
	acknowledged, planted, blind int
	// rows counts clicks, letters dead letters, unanswered those rows whose
	// requests nobody was told the outcome of, unique those that are first clicks.
	rows, letters, unanswered, unique int
	// forgot: who was unique was not compared, because the cache was flushed.
	forgot bool

	// What must not be. Each entry is a line for people.
	missing  []string // acknowledged, and nowhere
	doubled  []string // more than once
	invented []string // stored, and nobody asked for it
	mistaken []string // stored as something else than what was asked for
	bots     []string // a browser's click, stored as a bot's
	again    []string // another first click of one visitor
	buried   []string // a good click among the dead letters
	wrong    []string // answered as a good click never is
	renamed  []string // acknowledged under another id than the proposed one
	cutOff   []string // a connection ended by a graceful stop
	counts   []string // the API's counts against the rows
}

// violations are all that must not be.
func (v *verdict) violations() []finding {
	return slices.DeleteFunc([]finding{
		{"missing", v.missing},
		{"doubled", v.doubled},
		{"invented", v.invented},
		{"mistaken", v.mistaken},
		{"taken for bots", v.bots},
		{"unique again", v.again},
		{"buried", v.buried},
		{"wrong answers", v.wrong},
		{"renamed", v.renamed},
		{"cut off by a graceful stop", v.cutOff},
		{"counts", v.counts},
	}, func(f finding) bool { return len(f.lines) == 0 })
}

type finding struct {
	name  string
	lines []string
}

// known is what the history says about one click id.
type known struct {
	attempts     []int // of history.attempts
	planted      *planted
	acknowledged bool
	rows, graves int
}

// judgement is a verdict in the making.
type judgement struct {
	history history
	verdict verdict
	ids     map[uuid.UUID]*known
	// byRequest finds the one attempt of a request that proposed no id.
	byRequest map[int]int
	// traced are the requests that a row of unknown id was traced to.
	traced map[int]bool
	// garbage are planted records that have no id, by their bytes.
	garbage map[string]*known
	// visitors have the click that is unique.
	visitors map[visitor]uuid.UUID
}

// visitor is whose clicks are unique once in 24 hours, which no storm lasts.
type visitor struct {
	participant    uuid.UUID
	code           string
	address, agent string
}

// judge compares. It reads nothing but its arguments.
func judge(h history, t tables) *verdict {
	j := &judgement{
		history: h, ids: make(map[uuid.UUID]*known), byRequest: make(map[int]int),
		traced: make(map[int]bool), garbage: make(map[string]*known), visitors: make(map[visitor]uuid.UUID),
	}
	j.readAttempts()
	j.readPlanted()
	nonBots := make(map[uuid.UUID]int64)
	for i := range t.clicks {
		j.click(&t.clicks[i])
		if !t.clicks[i].IsBot {
			nonBots[t.clicks[i].ParticipantID]++
		}
	}
	for i := range t.letters {
		j.letter(&t.letters[i])
	}
	j.conclude()
	v := &j.verdict
	v.rows, v.letters, v.forgot = len(t.clicks), len(t.letters), h.flushed
	for _, participant := range sortedKeys(t.counts, nonBots) {
		if told, there := t.counts[participant], nonBots[participant]; told != there {
			v.counts = append(v.counts, fmt.Sprintf("participant %s: the API counts %d clicks, there are %d rows", participant, told, there))
		}
	}
	return v
}

func (j *judgement) of(id uuid.UUID) *known {
	k := j.ids[id]
	if k == nil {
		k = &known{}
		j.ids[id] = k
	}
	return k
}

func (j *judgement) readAttempts() {
	v := &j.verdict
	requests := make(map[int]bool)
	for i := range j.history.attempts {
		a := &j.history.attempts[i]
		requests[a.Request] = true
		v.outcomes[a.Outcome]++
		switch a.Outcome {
		case wrong:
			v.wrong = append(v.wrong, describe(a))
		case lost:
			if a.CutOff {
				v.cutOff = append(v.cutOff, describe(a))
			}
		default:
		}
		if a.Way != proposing {
			j.byRequest[a.Request] = i
		}
		id := a.id()
		if id == uuid.Nil {
			continue
		}
		k := j.of(id)
		k.attempts = append(k.attempts, i)
		if a.Outcome == acknowledged {
			k.acknowledged = true
			if a.Proposed != uuid.Nil && a.Proposed != a.Answered {
				v.renamed = append(v.renamed, fmt.Sprintf("%s proposed, %s answered: %s", a.Proposed, a.Answered, describe(a)))
			}
			if a.Blind {
				v.blind++
			}
		}
	}
	v.requests, v.attempts = len(requests), len(j.history.attempts)
}

func (j *judgement) readPlanted() {
	for i := range j.history.planted {
		p := &j.history.planted[i]
		if p.Acknowledged {
			j.verdict.planted++
		}
		k := &known{planted: p, acknowledged: p.Acknowledged}
		if p.ID == uuid.Nil {
			j.garbage[string(p.Record)] = k
		} else {
			j.ids[p.ID] = k
		}
	}
}

func (j *judgement) click(row *clickRow) {
	v := &j.verdict
	if row.IsBot {
		v.bots = append(v.bots, row.ID.String())
	}
	j.first(row)
	k := j.ids[row.ID]
	if k == nil {
		j.trace(row)
		return
	}
	k.rows++
	if !k.acknowledged {
		v.unanswered++
	}
	if wrong := j.mistaken(row, k); wrong != "" {
		v.mistaken = append(v.mistaken, fmt.Sprintf("%s: %s", row.ID, wrong))
	}
}

// first looks for a unique click of a visitor who has one.
func (j *judgement) first(row *clickRow) {
	v := &j.verdict
	if !row.IsUnique {
		return
	}
	v.unique++
	of := visitor{row.ParticipantID, row.ReferralCode, string(row.IPHash), string(row.UAHash)}
	if other, there := j.visitors[of]; there && !j.history.flushed {
		v.again = append(v.again, fmt.Sprintf("%s and %s, of one visitor to code %s", other, row.ID, row.ReferralCode))
	}
	j.visitors[of] = row.ID
}

// trace explains a row whose id no client has: a request without an answer may
// have made one, and only one, because no client sends such a request twice.
func (j *judgement) trace(row *clickRow) {
	v := &j.verdict
	request, ok := requestOf(row.SubID)
	i, there := j.byRequest[request]
	if !ok || !there {
		v.invented = append(v.invented, fmt.Sprintf("%s with sub id %q: no request was about it", row.ID, row.SubID))
		return
	}
	a := &j.history.attempts[i]
	switch {
	case a.Outcome == acknowledged || a.Outcome == unsent || a.Outcome == wrong:
		v.invented = append(v.invented, fmt.Sprintf("%s: %s", row.ID, describe(a)))
	case j.traced[request]:
		v.doubled = append(v.doubled, fmt.Sprintf("%s: another click of %s", row.ID, describe(a)))
	default:
		j.traced[request] = true
		v.unanswered++
		if wrong := j.mistaken(row, &known{attempts: []int{i}}); wrong != "" {
			v.mistaken = append(v.mistaken, fmt.Sprintf("%s: %s", row.ID, wrong))
		}
	}
}

// mistaken says what of a row is not as it was asked for, or nothing.
func (j *judgement) mistaken(row *clickRow, k *known) string {
	if p := k.planted; p != nil {
		switch {
		case p.Dead != "":
			return fmt.Sprintf("stored, and should be dead: %s", p.Dead)
		case row.ParticipantID != j.history.targets[p.Target].participant:
			return fmt.Sprintf("of participant %s", row.ParticipantID)
		case row.SubID != p.SubID || row.ReceivedAt.UnixMilli() != p.At:
			return fmt.Sprintf("sub id %q, received at %s", row.SubID, row.ReceivedAt)
		}
		return ""
	}
	for _, i := range k.attempts {
		a := &j.history.attempts[i]
		if j.cameFrom(row, a) {
			return ""
		}
	}
	return fmt.Sprintf("participant %s, sub id %q, received at %d: none of its %d attempts, such as %s",
		row.ParticipantID, row.SubID, row.ReceivedAt.UnixMilli(), len(k.attempts), describe(&j.history.attempts[k.attempts[0]]))
}

// cameFrom says that a row may be what an attempt made. A collector that stood
// still may receive a request long after its client gave up.
func (j *judgement) cameFrom(row *clickRow, a *attempt) bool {
	until := a.End
	if a.Outcome == lost {
		until = j.history.end
	}
	at := row.ReceivedAt.UnixMilli()
	return a.Outcome != unsent && row.SubID == subIDOf(a.Request) && row.ParticipantID == j.history.targets[a.Target].participant &&
		at >= a.Start-skew.Milliseconds() && at <= until+skew.Milliseconds()
}

func (j *judgement) letter(row *letterRow) {
	v := &j.verdict
	k := j.ids[row.ID]
	if k == nil {
		k = j.garbage[string(row.Record)]
	}
	switch {
	case k == nil:
		// A good click may be here under an id that only its edge knows.
		var click edgev1.Click
		subID := ""
		if proto.Unmarshal(row.Record, &click) == nil {
			subID = click.SubId
		}
		v.invented = append(v.invented, fmt.Sprintf("dead letter %s (%s) with sub id %q", row.ID, row.Reason, subID))
	case k.planted == nil || k.planted.Dead == "":
		k.graves++
		v.buried = append(v.buried, fmt.Sprintf("%s: %s", row.ID, row.Reason))
	default:
		k.graves++
		if row.Reason != k.planted.Dead {
			v.mistaken = append(v.mistaken, fmt.Sprintf("dead letter %s: %s, and should be %s", row.ID, row.Reason, k.planted.Dead))
		}
	}
}

// conclude looks at every id from the history's side.
func (j *judgement) conclude() {
	v := &j.verdict
	for _, id := range sortedKeys(j.ids) {
		k := j.ids[id]
		if k.acknowledged {
			v.acknowledged++
		}
		what := "planted"
		if len(k.attempts) > 0 {
			what = describe(&j.history.attempts[k.attempts[len(k.attempts)-1]])
		}
		switch {
		case k.rows+k.graves > 1:
			v.doubled = append(v.doubled, fmt.Sprintf("%s: %d clicks and %d dead letters: %s", id, k.rows, k.graves, what))
		case k.rows+k.graves == 0 && k.acknowledged:
			v.missing = append(v.missing, fmt.Sprintf("%s: %s", id, what))
		}
	}
	// Bytes that are no click have no id that could make them one letter: they are
	// kept at least once.
	for _, record := range slices.Sorted(maps.Keys(j.garbage)) {
		if k := j.garbage[record]; k.acknowledged && k.graves == 0 {
			v.missing = append(v.missing, fmt.Sprintf("the poison %x is no dead letter", record))
		}
	}
}

func describe(a *attempt) string {
	return fmt.Sprintf("request %d to collector %d at %s, %s after %d ms, status %d %s", a.Request, a.Collector,
		time.UnixMilli(a.Start).UTC().Format("15:04:05.000"), outcomeNames[a.Outcome], a.End-a.Start, a.Status, a.Error)
}

// sortedKeys makes verdicts of equal histories equal.
func sortedKeys[V any](of ...map[uuid.UUID]V) []uuid.UUID {
	all := make(map[uuid.UUID]bool)
	for _, m := range of {
		for id := range m {
			all[id] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
