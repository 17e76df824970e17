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
	planted  []plantedRecord
	// targets are the click targets, by attempt.Target.
	targets []target
	// starts contains the times at which the processes of each collector were started, in
	// Unix milliseconds.
	starts [][]int64
	// end is the time at which the storm was over, in Unix milliseconds. All requests and
	// all replays of journals had ended by then.
	end int64
	// cacheFlushed reports that a fault has flushed the cache. The service stores the
	// known visitors in the cache.
	cacheFlushed bool
}

// tables contains the rows of the database and the click counts of the API.
type tables struct {
	clicks      []clickRow
	deadLetters []deadLetterRow
	// counts maps a participant to the click count that the API returns.
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

// clickState is the state of one click id: its attempts in the history and the number of
// its rows.
type clickState struct {
	attempts          []int // indexes in history.attempts
	planted           *plantedRecord
	acknowledged      bool
	rows, deadLetters int
}

// clickCheck is the state of the comparison in checkClicks.
type clickCheck struct {
	history history
	verdict verdict
	ids     map[uuid.UUID]*clickState
	// byRequest maps the number of a request without a proposed id to the index of its
	// only attempt.
	byRequest map[int]int
	// traced contains the requests to which a row was assigned because of the row's sub
	// id.
	traced map[int]bool
	// garbage maps the bytes of each planted record that has no click id to the state of
	// the record.
	garbage map[string]*clickState
	// visitors maps a visitor to the visitor's unique click.
	visitors map[visitor]uuid.UUID
}

// visitor identifies a visitor who uses one referral code. The first click of a visitor
// in 24 hours is unique. A storm is shorter, so a visitor has at most one unique click.
type visitor struct {
	participant    uuid.UUID
	code           string
	address, agent string
}

// checkClicks compares the history with the tables. It reads nothing except its
// arguments.
func checkClicks(h history, t tables) *verdict {
	c := &clickCheck{
		history: h, ids: make(map[uuid.UUID]*clickState), byRequest: make(map[int]int),
		traced: make(map[int]bool), garbage: make(map[string]*clickState), visitors: make(map[visitor]uuid.UUID),
	}
	c.readAttempts()
	c.checkLinks()
	c.readPlanted()
	nonBots := make(map[uuid.UUID]int64)
	for i := range t.clicks {
		c.checkClick(&t.clicks[i])
		if !t.clicks[i].IsBot {
			nonBots[t.clicks[i].ParticipantID]++
		}
	}
	for i := range t.deadLetters {
		c.checkDeadLetter(&t.deadLetters[i])
	}
	c.checkIDs()
	v := &c.verdict
	v.rows, v.deadLetters, v.cacheFlushed = len(t.clicks), len(t.deadLetters), h.cacheFlushed
	for _, participant := range sortedKeys(t.counts, nonBots) {
		if counted, stored := t.counts[participant], nonBots[participant]; counted != stored {
			v.counts = append(v.counts, fmt.Sprintf("participant %s: the API counts %d clicks, the database has %d rows", participant, counted, stored))
		}
	}
	return v
}

func (c *clickCheck) state(id uuid.UUID) *clickState {
	k := c.ids[id]
	if k == nil {
		k = &clickState{}
		c.ids[id] = k
	}
	return k
}

func (c *clickCheck) readAttempts() {
	v := &c.verdict
	requests := make(map[int]bool)
	for i := range c.history.attempts {
		a := &c.history.attempts[i]
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
		if a.Route != postWithID {
			c.byRequest[a.Request] = i
		}
		id := a.id()
		if id == uuid.Nil {
			continue
		}
		k := c.state(id)
		k.attempts = append(k.attempts, i)
		if a.Outcome == acknowledged {
			k.acknowledged = true
			if a.Proposed != uuid.Nil && a.Proposed != a.ResponseID {
				v.renamed = append(v.renamed, fmt.Sprintf("%s was proposed, but the response has %s: %s", a.Proposed, a.ResponseID, describe(a)))
			}
			if a.WithoutDirectory {
				v.withoutDirectory++
			}
		}
	}
	v.requests, v.attempts = len(requests), len(c.history.attempts)
}

// linkRun identifies a short link and one run of a collector's process.
type linkRun struct {
	collector, target int
	start             int64 // of the process
}

// run returns the link of an attempt and the run of the process that responded.
func (c *clickCheck) run(a *attempt) linkRun {
	run := linkRun{collector: a.Collector, target: a.Target}
	for _, start := range c.history.starts[a.Collector] {
		if start <= a.Start {
			run.start = start
		}
	}
	return run
}

// checkLinks finds visitors of short links who got a 503, although the same process had
// redirected a visitor of the link before. The links do not change during a storm, so a
// collector must still know them, whatever happens to Redis.
func (c *clickCheck) checkLinks() {
	knownAt := make(map[linkRun]int64) // the end of the first redirect
	for i := range c.history.attempts {
		if a := &c.history.attempts[i]; a.Route == getShortLink && (a.Outcome == acknowledged || a.Outcome == redirected) {
			if first, ok := knownAt[c.run(a)]; !ok || a.End < first {
				knownAt[c.run(a)] = a.End
			}
		}
	}
	for i := range c.history.attempts {
		if a := &c.history.attempts[i]; a.Route == getShortLink && a.Outcome == refused {
			if first, ok := knownAt[c.run(a)]; ok && first < a.Start {
				c.verdict.unknownLinks = append(c.verdict.unknownLinks, describe(a))
			}
		}
	}
}

func (c *clickCheck) readPlanted() {
	for i := range c.history.planted {
		p := &c.history.planted[i]
		if p.Acknowledged {
			c.verdict.planted++
		}
		k := &clickState{planted: p, acknowledged: p.Acknowledged}
		if p.ID == uuid.Nil {
			c.garbage[string(p.Record)] = k
		} else {
			c.ids[p.ID] = k
		}
	}
}

func (c *clickCheck) checkClick(row *clickRow) {
	v := &c.verdict
	if row.IsBot {
		v.bots = append(v.bots, row.ID.String())
	}
	c.checkUnique(row)
	k := c.ids[row.ID]
	if k == nil {
		c.assignToRequest(row)
		return
	}
	k.rows++
	if !k.acknowledged {
		v.withoutResponse++
	}
	if wrong := c.mismatch(row, k); wrong != "" {
		v.mismatched = append(v.mismatched, fmt.Sprintf("%s: %s", row.ID, wrong))
	}
}

// checkUnique checks that a unique click is the visitor's only unique click.
func (c *clickCheck) checkUnique(row *clickRow) {
	v := &c.verdict
	if !row.IsUnique {
		return
	}
	v.unique++
	who := visitor{row.ParticipantID, row.ReferralCode, string(row.IPHash), string(row.UAHash)}
	if other, found := c.visitors[who]; found && !c.history.cacheFlushed {
		v.uniqueTwice = append(v.uniqueTwice, fmt.Sprintf("%s and %s have the same visitor and the code %s", other, row.ID, row.ReferralCode))
	}
	c.visitors[who] = row.ID
}

// assignToRequest checks a row whose click id is not in the history. The sub id of the
// row identifies the request. A request without a response may have stored one row, but
// not two, because the client has sent it only once.
func (c *clickCheck) assignToRequest(row *clickRow) {
	v := &c.verdict
	request, ok := requestOf(row.SubID)
	i, found := c.byRequest[request]
	if !ok || !found {
		v.unexplained = append(v.unexplained, fmt.Sprintf("%s with sub id %q: no request has this sub id", row.ID, row.SubID))
		return
	}
	a := &c.history.attempts[i]
	switch {
	case a.Outcome == acknowledged || a.Outcome == unsent || a.Outcome == unexpected:
		v.unexplained = append(v.unexplained, fmt.Sprintf("%s: %s", row.ID, describe(a)))
	case c.traced[request]:
		v.duplicated = append(v.duplicated, fmt.Sprintf("%s: another click of %s", row.ID, describe(a)))
	default:
		c.traced[request] = true
		v.withoutResponse++
		if wrong := c.mismatch(row, &clickState{attempts: []int{i}}); wrong != "" {
			v.mismatched = append(v.mismatched, fmt.Sprintf("%s: %s", row.ID, wrong))
		}
	}
}

// mismatch returns the difference between a row and its request, or "" if they match.
func (c *clickCheck) mismatch(row *clickRow, k *clickState) string {
	if p := k.planted; p != nil {
		switch {
		case p.DeadLetterReason != "":
			return fmt.Sprintf("stored as a click, want a dead letter with the reason %s", p.DeadLetterReason)
		case row.ParticipantID != c.history.targets[p.Target].participant:
			return fmt.Sprintf("stored for participant %s", row.ParticipantID)
		case row.SubID != p.SubID || row.ReceivedAt.UnixMilli() != p.At:
			return fmt.Sprintf("sub id %q, received at %s", row.SubID, row.ReceivedAt)
		}
		return ""
	}
	for _, i := range k.attempts {
		a := &c.history.attempts[i]
		if c.matchesAttempt(row, a) {
			return ""
		}
	}
	return fmt.Sprintf("participant %s, sub id %q, received at %d: matches none of its %d attempts, for example %s",
		row.ParticipantID, row.SubID, row.ReceivedAt.UnixMilli(), len(k.attempts), describe(&c.history.attempts[k.attempts[0]]))
}

// matchesAttempt reports whether the attempt can have stored the row. A collector that
// was paused can receive a request long after the client has stopped waiting.
func (c *clickCheck) matchesAttempt(row *clickRow, a *attempt) bool {
	until := a.End
	if a.Outcome == noResponse {
		until = c.history.end
	}
	at := row.ReceivedAt.UnixMilli()
	return a.Outcome != unsent && row.SubID == subIDOf(a.Request) && row.ParticipantID == c.history.targets[a.Target].participant &&
		at >= a.Start-skew.Milliseconds() && at <= until+skew.Milliseconds()
}

func (c *clickCheck) checkDeadLetter(row *deadLetterRow) {
	v := &c.verdict
	k := c.ids[row.ID]
	if k == nil {
		k = c.garbage[string(row.Record)]
	}
	switch {
	case k == nil:
		// The record may be a valid click whose id was in no response.
		var click edgev1.Click
		subID := ""
		if proto.Unmarshal(row.Record, &click) == nil {
			subID = click.SubId
		}
		v.unexplained = append(v.unexplained, fmt.Sprintf("dead letter %s (%s) with sub id %q", row.ID, row.Reason, subID))
	case k.planted == nil || k.planted.DeadLetterReason == "":
		k.deadLetters++
		v.deadLettered = append(v.deadLettered, fmt.Sprintf("%s: %s", row.ID, row.Reason))
	default:
		k.deadLetters++
		if row.Reason != k.planted.DeadLetterReason {
			v.mismatched = append(v.mismatched, fmt.Sprintf("dead letter %s: reason %s, want %s", row.ID, row.Reason, k.planted.DeadLetterReason))
		}
	}
}

// checkIDs checks the number of rows of every click id in the history.
func (c *clickCheck) checkIDs() {
	v := &c.verdict
	for _, id := range sortedKeys(c.ids) {
		k := c.ids[id]
		if k.acknowledged {
			v.acknowledged++
		}
		what := "planted"
		if len(k.attempts) > 0 {
			what = describe(&c.history.attempts[k.attempts[len(k.attempts)-1]])
		}
		switch {
		case k.rows+k.deadLetters > 1:
			v.duplicated = append(v.duplicated, fmt.Sprintf("%s: %d clicks and %d dead letters: %s", id, k.rows, k.deadLetters, what))
		case k.rows+k.deadLetters == 0 && k.acknowledged:
			v.missing = append(v.missing, fmt.Sprintf("%s: %s", id, what))
		}
	}
	// A record that is not a click has no id, so duplicates of it cannot be found. It
	// must be a dead letter at least once.
	for _, record := range slices.Sorted(maps.Keys(c.garbage)) {
		if k := c.garbage[record]; k.acknowledged && k.deadLetters == 0 {
			v.missing = append(v.missing, fmt.Sprintf("the poison record %x is not a dead letter", record))
		}
	}
}
