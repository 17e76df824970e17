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

// history contains all requests of the storm and their responses.
type history struct {
	attempts []attempt
	planted  []planted
	// targets are the click targets, by attempt.Target.
	targets []target
	// end is a time after the last request and the last replay, in Unix milliseconds.
	end int64
	// cacheFlushed reports that the storm deleted the cache, in which the service stores
	// the known visitors.
	cacheFlushed bool
}

// tables contains the rows of the database and the click counts of the API.
type tables struct {
	clicks      []clickRow
	deadLetters []deadLetterRow
	// counts maps a participant to its click count as the API reports it.
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

type deadLetterRow struct {
	ID     uuid.UUID
	Reason string
	Record []byte
}

// skew is the tolerance when a time of receipt is compared with the times of its
// request. Both use the same clock, but the time of receipt is truncated to
// milliseconds.
const skew = 20 * time.Millisecond

// verdict is the result of the comparison of history and tables.
type verdict struct {
	requests, attempts int
	outcomes           [outcomeCount]int
	// acknowledged counts the distinct click ids that were acknowledged, including
	// planted ones that Redis acknowledged. planted counts the latter. blind counts the
	// clicks that were acknowledged by a collector that could not read the edge
	// directory.
	acknowledged, planted, blind int
	// rows counts the stored clicks, deadLetters the dead letters. withoutResponse
	// counts the rows whose request never got a response with the click's id. unique
	// counts the rows that are a visitor's first click.
	rows, deadLetters, withoutResponse, unique int
	// cacheFlushed reports that unique clicks were not compared because the cache was
	// flushed.
	cacheFlushed bool

	// The violations. Each entry describes one violation.
	missing      []string // acknowledged but not stored
	doubled      []string // stored more than once
	invented     []string // stored without a request
	mistaken     []string // the stored row differs from the request
	bots         []string // a click of a browser was stored as a bot's click
	uniqueAgain  []string // a second click of one visitor was stored as unique
	deadLettered []string // a valid click is a dead letter
	wrong        []string // a valid click got a response that it must never get
	renamed      []string // the response has another click id than the request
	cutOff       []string // a graceful stop closed the connection before the response
	counts       []string // the API's click count differs from the rows
}

// violations returns the violations, grouped by kind. Kinds without violations are left
// out.
func (v *verdict) violations() []finding {
	return slices.DeleteFunc([]finding{
		{"missing", v.missing},
		{"doubled", v.doubled},
		{"invented", v.invented},
		{"mistaken", v.mistaken},
		{"taken for bots", v.bots},
		{"unique again", v.uniqueAgain},
		{"dead-lettered", v.deadLettered},
		{"wrong responses", v.wrong},
		{"renamed", v.renamed},
		{"cut off by a graceful stop", v.cutOff},
		{"counts", v.counts},
	}, func(f finding) bool { return len(f.lines) == 0 })
}

type finding struct {
	name  string
	lines []string
}

// clickState is the state of one click id: its attempts in the history and its rows.
type clickState struct {
	attempts          []int // indexes in history.attempts
	planted           *planted
	acknowledged      bool
	rows, deadLetters int
}

// clickCheck is the state of a comparison.
type clickCheck struct {
	history history
	verdict verdict
	ids     map[uuid.UUID]*clickState
	// byRequest maps a request without a proposed id to its only attempt.
	byRequest map[int]int
	// traced contains the requests to which a row with an unknown id was assigned.
	traced map[int]bool
	// garbage contains the planted records without a click id, by their bytes.
	garbage map[string]*clickState
	// visitors maps a visitor to its unique click.
	visitors map[visitor]uuid.UUID
}

// visitor identifies a visitor of one referral code. Only the first click of a visitor
// in 24 hours is unique, and no storm takes that long.
type visitor struct {
	participant    uuid.UUID
	code           string
	address, agent string
}

// checkClicks compares the history with the tables. It reads nothing except its
// arguments.
func checkClicks(h history, t tables) *verdict {
	j := &clickCheck{
		history: h, ids: make(map[uuid.UUID]*clickState), byRequest: make(map[int]int),
		traced: make(map[int]bool), garbage: make(map[string]*clickState), visitors: make(map[visitor]uuid.UUID),
	}
	j.readAttempts()
	j.readPlanted()
	nonBots := make(map[uuid.UUID]int64)
	for i := range t.clicks {
		j.checkClick(&t.clicks[i])
		if !t.clicks[i].IsBot {
			nonBots[t.clicks[i].ParticipantID]++
		}
	}
	for i := range t.deadLetters {
		j.checkDeadLetter(&t.deadLetters[i])
	}
	j.checkIDs()
	v := &j.verdict
	v.rows, v.deadLetters, v.cacheFlushed = len(t.clicks), len(t.deadLetters), h.cacheFlushed
	for _, participant := range sortedKeys(t.counts, nonBots) {
		if counted, stored := t.counts[participant], nonBots[participant]; counted != stored {
			v.counts = append(v.counts, fmt.Sprintf("participant %s: the API counts %d clicks, the database has %d rows", participant, counted, stored))
		}
	}
	return v
}

func (j *clickCheck) state(id uuid.UUID) *clickState {
	k := j.ids[id]
	if k == nil {
		k = &clickState{}
		j.ids[id] = k
	}
	return k
}

func (j *clickCheck) readAttempts() {
	v := &j.verdict
	requests := make(map[int]bool)
	for i := range j.history.attempts {
		a := &j.history.attempts[i]
		requests[a.Request] = true
		v.outcomes[a.Outcome]++
		switch a.Outcome {
		case unexpected:
			v.wrong = append(v.wrong, describe(a))
		case noResponse:
			if a.CutOff {
				v.cutOff = append(v.cutOff, describe(a))
			}
		default:
		}
		if a.Way != postWithID {
			j.byRequest[a.Request] = i
		}
		id := a.id()
		if id == uuid.Nil {
			continue
		}
		k := j.state(id)
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

func (j *clickCheck) readPlanted() {
	for i := range j.history.planted {
		p := &j.history.planted[i]
		if p.Acknowledged {
			j.verdict.planted++
		}
		k := &clickState{planted: p, acknowledged: p.Acknowledged}
		if p.ID == uuid.Nil {
			j.garbage[string(p.Record)] = k
		} else {
			j.ids[p.ID] = k
		}
	}
}

func (j *clickCheck) checkClick(row *clickRow) {
	v := &j.verdict
	if row.IsBot {
		v.bots = append(v.bots, row.ID.String())
	}
	j.checkUnique(row)
	k := j.ids[row.ID]
	if k == nil {
		j.assignToRequest(row)
		return
	}
	k.rows++
	if !k.acknowledged {
		v.withoutResponse++
	}
	if wrong := j.mismatch(row, k); wrong != "" {
		v.mistaken = append(v.mistaken, fmt.Sprintf("%s: %s", row.ID, wrong))
	}
}

// checkUnique checks that a unique click is the visitor's only unique click.
func (j *clickCheck) checkUnique(row *clickRow) {
	v := &j.verdict
	if !row.IsUnique {
		return
	}
	v.unique++
	of := visitor{row.ParticipantID, row.ReferralCode, string(row.IPHash), string(row.UAHash)}
	if other, found := j.visitors[of]; found && !j.history.cacheFlushed {
		v.uniqueAgain = append(v.uniqueAgain, fmt.Sprintf("%s and %s, of one visitor to code %s", other, row.ID, row.ReferralCode))
	}
	j.visitors[of] = row.ID
}

// assignToRequest checks a row whose click id is not in the history. Its sub id
// identifies the request. A request without a response may have stored one row, and not
// more, because a client sends such a request only once.
func (j *clickCheck) assignToRequest(row *clickRow) {
	v := &j.verdict
	request, ok := requestOf(row.SubID)
	i, found := j.byRequest[request]
	if !ok || !found {
		v.invented = append(v.invented, fmt.Sprintf("%s with sub id %q: no request has this sub id", row.ID, row.SubID))
		return
	}
	a := &j.history.attempts[i]
	switch {
	case a.Outcome == acknowledged || a.Outcome == unsent || a.Outcome == unexpected:
		v.invented = append(v.invented, fmt.Sprintf("%s: %s", row.ID, describe(a)))
	case j.traced[request]:
		v.doubled = append(v.doubled, fmt.Sprintf("%s: another click of %s", row.ID, describe(a)))
	default:
		j.traced[request] = true
		v.withoutResponse++
		if wrong := j.mismatch(row, &clickState{attempts: []int{i}}); wrong != "" {
			v.mistaken = append(v.mistaken, fmt.Sprintf("%s: %s", row.ID, wrong))
		}
	}
}

// mismatch returns how the row differs from the request, or "" if it does not.
func (j *clickCheck) mismatch(row *clickRow, k *clickState) string {
	if p := k.planted; p != nil {
		switch {
		case p.Dead != "":
			return fmt.Sprintf("stored, but expected as a dead letter: %s", p.Dead)
		case row.ParticipantID != j.history.targets[p.Target].participant:
			return fmt.Sprintf("stored for participant %s", row.ParticipantID)
		case row.SubID != p.SubID || row.ReceivedAt.UnixMilli() != p.At:
			return fmt.Sprintf("sub id %q, received at %s", row.SubID, row.ReceivedAt)
		}
		return ""
	}
	for _, i := range k.attempts {
		a := &j.history.attempts[i]
		if j.matchesAttempt(row, a) {
			return ""
		}
	}
	return fmt.Sprintf("participant %s, sub id %q, received at %d: matches none of its %d attempts, for example %s",
		row.ParticipantID, row.SubID, row.ReceivedAt.UnixMilli(), len(k.attempts), describe(&j.history.attempts[k.attempts[0]]))
}

// matchesAttempt reports whether the attempt may have stored the row. A collector that
// was paused may receive a request long after its client stopped waiting.
func (j *clickCheck) matchesAttempt(row *clickRow, a *attempt) bool {
	until := a.End
	if a.Outcome == noResponse {
		until = j.history.end
	}
	at := row.ReceivedAt.UnixMilli()
	return a.Outcome != unsent && row.SubID == subIDOf(a.Request) && row.ParticipantID == j.history.targets[a.Target].participant &&
		at >= a.Start-skew.Milliseconds() && at <= until+skew.Milliseconds()
}

func (j *clickCheck) checkDeadLetter(row *deadLetterRow) {
	v := &j.verdict
	k := j.ids[row.ID]
	if k == nil {
		k = j.garbage[string(row.Record)]
	}
	switch {
	case k == nil:
		// The record may be a valid click with an id that only its collector knew.
		var click edgev1.Click
		subID := ""
		if proto.Unmarshal(row.Record, &click) == nil {
			subID = click.SubId
		}
		v.invented = append(v.invented, fmt.Sprintf("dead letter %s (%s) with sub id %q", row.ID, row.Reason, subID))
	case k.planted == nil || k.planted.Dead == "":
		k.deadLetters++
		v.deadLettered = append(v.deadLettered, fmt.Sprintf("%s: %s", row.ID, row.Reason))
	default:
		k.deadLetters++
		if row.Reason != k.planted.Dead {
			v.mistaken = append(v.mistaken, fmt.Sprintf("dead letter %s: reason %s, expected %s", row.ID, row.Reason, k.planted.Dead))
		}
	}
}

// checkIDs checks the number of rows of every click id in the history.
func (j *clickCheck) checkIDs() {
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
		case k.rows+k.deadLetters > 1:
			v.doubled = append(v.doubled, fmt.Sprintf("%s: %d clicks and %d dead letters: %s", id, k.rows, k.deadLetters, what))
		case k.rows+k.deadLetters == 0 && k.acknowledged:
			v.missing = append(v.missing, fmt.Sprintf("%s: %s", id, what))
		}
	}
	// A record that is not a click has no id by which duplicates could be found. So it
	// must be stored at least once, not exactly once.
	for _, record := range slices.Sorted(maps.Keys(j.garbage)) {
		if k := j.garbage[record]; k.acknowledged && k.deadLetters == 0 {
			v.missing = append(v.missing, fmt.Sprintf("the poison record %x is not a dead letter", record))
		}
	}
}

func describe(a *attempt) string {
	return fmt.Sprintf("request %d to collector %d at %s, %s after %d ms, status %d %s", a.Request, a.Collector,
		time.UnixMilli(a.Start).UTC().Format("15:04:05.000"), outcomeNames[a.Outcome], a.End-a.Start, a.Status, a.Error)
}

// sortedKeys returns the keys of all maps in order, so that equal histories give equal
// verdicts.
func sortedKeys[V any](of ...map[uuid.UUID]V) []uuid.UUID {
	all := make(map[uuid.UUID]bool)
	for _, m := range of {
		for id := range m {
			all[id] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
