package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// world is a history with tables that match it. Tests change one of the two, so that
// they no longer match.
type world struct {
	history history
	tables  tables
	now     time.Time
}

// Indexes of the attempts of goodWorld.
const (
	withoutIDOne = iota
	proposedFirst
	proposedAgain
	refusedOne
	lostOne
	followedOne
	sentOnOne
	unsentOne
)

func goodWorld() *world {
	now := time.Now().Truncate(time.Millisecond)
	w := &world{now: now, history: history{end: now.Add(time.Minute).UnixMilli()}}
	for range 2 {
		w.history.targets = append(w.history.targets, target{participant: newID(now)})
	}
	minted, proposed, refusedID, lostID, followed := newID(now), newID(now), newID(now), newID(now), newID(now)
	start, end := now.UnixMilli(), now.Add(10*time.Millisecond).UnixMilli()
	w.history.attempts = []attempt{
		withoutIDOne:  {Request: 1, Way: postWithoutID, Outcome: acknowledged, Status: 201, Answered: minted},
		proposedFirst: {Request: 2, Way: postWithID, Outcome: noResponse, Proposed: proposed},
		proposedAgain: {Request: 2, Way: postWithID, Outcome: acknowledged, Status: 201, Proposed: proposed, Answered: proposed, Collector: 1},
		refusedOne:    {Request: 3, Way: postWithID, Outcome: refused, Status: 503, Proposed: refusedID},
		lostOne:       {Request: 4, Way: postWithoutID, Outcome: noResponse},
		followedOne:   {Request: 5, Way: getShortLink, Outcome: acknowledged, Status: 302, Answered: followed, Target: 1},
		sentOnOne:     {Request: 6, Way: getShortLink, Outcome: redirected, Status: 302},
		unsentOne:     {Request: 7, Way: postWithoutID, Outcome: unsent},
	}
	for i := range w.history.attempts {
		w.history.attempts[i].Start, w.history.attempts[i].End = start, end
	}
	w.store(minted, 1, 0)
	w.store(proposed, 2, 0)
	w.store(followed, 5, 1)
	w.store(lostID, 4, 0) // stored without a response
	w.row(2).IsUnique, w.row(5).IsUnique = true, true
	planted := planted{ID: newID(now), SubID: "planted-1", Target: 1, At: start, Acknowledged: true}
	key := planted
	key.ID, key.Dead = newID(now), string(affiliate.ClickKeyUnknown)
	noise := planted
	noise.ID, noise.Dead, noise.Record = uuid.Nil, string(affiliate.ClickMalformed), []byte{7, 1, 2}
	w.history.planted = append(w.history.planted, planted, key, noise)
	w.tables.clicks = append(w.tables.clicks, clickRow{ID: planted.ID, SubID: planted.SubID, ParticipantID: w.participant(1), ReceivedAt: now})
	w.tables.deadLetters = []deadLetterRow{
		{ID: key.ID, Reason: key.Dead},
		// Records without an id may be stored twice.
		{ID: newID(now), Reason: noise.Dead, Record: noise.Record},
		{ID: newID(now), Reason: noise.Dead, Record: noise.Record},
	}
	w.tables.counts = map[uuid.UUID]int64{w.participant(0): 3, w.participant(1): 2}
	return w
}

func newID(at time.Time) uuid.UUID { return affiliate.NewID[affiliate.Click](at).UUID }

func (w *world) participant(n int) uuid.UUID { return w.history.targets[n].participant }

// store adds the row of a request.
func (w *world) store(id uuid.UUID, request, target int) {
	w.tables.clicks = append(w.tables.clicks, clickRow{
		ID: id, SubID: subIDOf(request), ParticipantID: w.participant(target), ReceivedAt: w.now.Add(time.Millisecond),
		ReferralCode: "jane", IPHash: []byte("address"), UAHash: []byte("agent"),
	})
}

// row returns the row of a request.
func (w *world) row(request int) *clickRow {
	i := slices.IndexFunc(w.tables.clicks, func(row clickRow) bool { return row.SubID == subIDOf(request) })
	return &w.tables.clicks[i]
}

func (w *world) removeRow(request int) {
	w.tables.clicks = slices.DeleteFunc(w.tables.clicks, func(row clickRow) bool { return row.SubID == subIDOf(request) })
	w.tables.counts[w.participant(0)]--
}

func TestCheckClicks_MatchingHistoryHasNoViolations(t *testing.T) {
	v := checkClicks(goodWorld().history, goodWorld().tables)
	// Two worlds have different ids, so a history does not match the tables of another
	// world.
	if len(v.violations()) == 0 {
		t.Error("no violations although the tables belong to another history")
	}
	w := goodWorld()
	v = checkClicks(w.history, w.tables)
	if found := v.violations(); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	if v.requests != 7 || v.attempts != 8 || v.acknowledged != 5 || v.planted != 3 || v.rows != 5 || v.deadLetters != 3 || v.withoutResponse != 1 || v.unique != 2 {
		t.Errorf("%+v", v)
	}
}

// TestCheckClicks_ClickWithoutResponseMayBeStored checks that the row of a click
// without a response may exist or not.
func TestCheckClicks_ClickWithoutResponseMayBeStored(t *testing.T) {
	w := goodWorld()
	w.store(w.history.attempts[refusedOne].Proposed, 3, 0)
	w.store(newID(w.now), 6, 0)
	// This click was received after its client had stopped waiting.
	w.row(4).ReceivedAt = w.now.Add(10 * time.Second)
	w.tables.counts[w.participant(0)] += 2
	if v := checkClicks(w.history, w.tables); len(v.violations()) > 0 || v.withoutResponse != 3 {
		t.Errorf("%d unanswered, %+v", v.withoutResponse, v.violations())
	}
	w = goodWorld()
	w.removeRow(4)
	if v := checkClicks(w.history, w.tables); len(v.violations()) > 0 || v.withoutResponse != 0 {
		t.Errorf("%d unanswered, %+v", v.withoutResponse, v.violations())
	}
}

// TestCheckClicks_FindsViolations checks that each kind of difference is reported.
func TestCheckClicks_FindsViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		tamper func(*world)
		want   []string
	}{
		"a removed row":                        {func(w *world) { w.removeRow(1) }, []string{"missing"}},
		"a removed row of a repeated proposal": {func(w *world) { w.removeRow(2) }, []string{"missing"}},
		"a removed row of a redirect": {func(w *world) {
			w.removeRow(5)
			w.tables.counts[w.participant(0)]++
			w.tables.counts[w.participant(1)]--
		}, []string{"missing"}},
		"a planted click that is not stored": {func(w *world) {
			w.tables.clicks = w.tables.clicks[:len(w.tables.clicks)-1]
			w.tables.counts[w.participant(1)]--
		}, []string{"missing"}},
		"poison that is not stored": {func(w *world) { w.tables.deadLetters = w.tables.deadLetters[:1] }, []string{"missing"}},
		"a missing dead letter":     {func(w *world) { w.tables.deadLetters = w.tables.deadLetters[1:] }, []string{"missing"}},
		"a doubled row": {func(w *world) {
			w.store(w.history.attempts[withoutIDOne].Answered, 1, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"doubled"}},
		"a click stored as a row and as a dead letter": {func(w *world) {
			w.tables.deadLetters = append(w.tables.deadLetters, deadLetterRow{ID: w.history.attempts[withoutIDOne].Answered, Reason: "rejected"})
		}, []string{"doubled", "dead-lettered"}},
		"two rows of one request without a response": {func(w *world) {
			w.store(newID(w.now), 4, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"doubled"}},
		"an invented row": {func(w *world) {
			w.store(newID(w.now), 99, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"invented"}},
		"a second row of an answered request": {func(w *world) {
			w.store(newID(w.now), 1, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"invented"}},
		"a row of a request that was never sent": {func(w *world) {
			w.store(newID(w.now), 7, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"invented"}},
		"a second row of a proposal, under another id": {func(w *world) {
			w.store(newID(w.now), 2, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"invented"}},
		"an invented dead letter": {func(w *world) {
			w.tables.deadLetters = append(w.tables.deadLetters, deadLetterRow{ID: newID(w.now), Reason: "malformed", Record: []byte("?")})
		}, []string{"invented"}},
		"a valid click among the dead letters": {func(w *world) {
			w.removeRow(1)
			w.tables.deadLetters = append(w.tables.deadLetters, deadLetterRow{ID: w.history.attempts[withoutIDOne].Answered, Reason: "malformed"})
		}, []string{"dead-lettered"}},
		"a dead letter with another reason": {func(w *world) { w.tables.deadLetters[0].Reason = "malformed" }, []string{"mistaken"}},
		"a stored click that must be a dead letter": {func(w *world) {
			p := w.history.planted[1]
			w.tables.deadLetters = w.tables.deadLetters[1:]
			w.tables.clicks = append(w.tables.clicks, clickRow{ID: p.ID, SubID: p.SubID, ParticipantID: w.participant(1), ReceivedAt: w.now})
			w.tables.counts[w.participant(1)]++
		}, []string{"mistaken"}},
		"another participant's click": {func(w *world) {
			w.row(1).ParticipantID = w.participant(1)
			w.tables.counts = map[uuid.UUID]int64{w.participant(0): 2, w.participant(1): 3}
		}, []string{"mistaken"}},
		"another request's sub id":               {func(w *world) { w.row(1).SubID = subIDOf(2) }, []string{"mistaken"}},
		"received before the request":            {func(w *world) { w.row(1).ReceivedAt = w.now.Add(-time.Second) }, []string{"mistaken"}},
		"received after the response":            {func(w *world) { w.row(2).ReceivedAt = w.now.Add(time.Hour) }, []string{"mistaken"}},
		"a response with status 404":             {func(w *world) { w.history.attempts[unsentOne].Outcome = unexpected }, []string{"wrong responses"}},
		"a connection closed by a graceful stop": {func(w *world) { w.history.attempts[lostOne].CutOff = true }, []string{"cut off by a graceful stop"}},
		"a count too low":                        {func(w *world) { w.tables.counts[w.participant(0)]-- }, []string{"counts"}},
		"a participant without count":            {func(w *world) { delete(w.tables.counts, w.participant(0)) }, []string{"counts"}},
		"a bot's click that is counted":          {func(w *world) { w.row(1).IsBot = true }, []string{"taken for bots", "counts"}},
		"a browser's click stored as a bot's": {func(w *world) {
			w.row(1).IsBot = true
			w.tables.counts[w.participant(0)]--
		}, []string{"taken for bots"}},
		"a planted click stored as a bot's": {func(w *world) {
			w.tables.clicks[len(w.tables.clicks)-1].IsBot = true
			w.tables.counts[w.participant(1)]--
		}, []string{"taken for bots"}},
		"a visitor's second unique click": {func(w *world) { w.row(4).IsUnique = true }, []string{"unique again"}},
		"a response with another id": {func(w *world) {
			// The first attempt still acknowledges the proposed id.
			w.history.attempts[proposedFirst].Outcome, w.history.attempts[proposedFirst].Answered = acknowledged, w.history.attempts[proposedFirst].Proposed
			w.history.attempts[proposedAgain].Answered = newID(w.now)
			w.store(w.history.attempts[proposedAgain].Answered, 2, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"renamed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := goodWorld()
			tc.tamper(w)
			var got []string
			for _, f := range checkClicks(w.history, w.tables).violations() {
				got = append(got, f.name)
				if len(f.lines) != 1 {
					t.Errorf("%s: %q", f.name, f.lines)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %v, want %v", got, tc.want)
			}
		})
	}
}

// A click is unique per visitor and referral code, as long as the cache is not flushed.
func TestCheckClicks_AllowsOneUniqueClickPerVisitorAndCode(t *testing.T) {
	for name, change := range map[string]func(*world){
		"another address":   func(w *world) { w.row(4).IPHash = []byte("another") },
		"another agent":     func(w *world) { w.row(4).UAHash = []byte("another") },
		"another code":      func(w *world) { w.row(4).ReferralCode = "another" },
		"the cache flushed": func(w *world) { w.history.cacheFlushed = true },
	} {
		w := goodWorld()
		w.row(4).IsUnique = true
		change(w)
		if v := checkClicks(w.history, w.tables); len(v.violations()) > 0 || v.cacheFlushed != w.history.cacheFlushed {
			t.Errorf("%s: %+v", name, v.violations())
		}
	}
}

func TestPlan_DependsOnlyOnSeed(t *testing.T) {
	s := scale{length: 2 * time.Minute, everyKind: true, outage: time.Minute, maxPause: 5 * time.Second, maxRestart: 3 * time.Second, maxOther: 4 * time.Second, collectors: 3, hasSmallDisk: true}
	text := func(steps []step) string {
		var b strings.Builder
		for _, one := range steps {
			b.WriteString(one.at.String() + " " + one.String() + "\n")
		}
		return b.String()
	}
	if first, again := text(plan(1, s)), text(plan(1, s)); first != again || first == text(plan(2, s)) {
		t.Error("equal seeds gave different plans, or different seeds gave equal plans")
	}
	overlaps := 0
	for seed := range uint64(200) {
		steps := plan(seed, s)
		var seen []kind
		for n, one := range steps {
			seen = append(seen, one.kind)
			for _, other := range steps[:n] {
				if other.at+other.duration <= one.at || one.at+one.duration <= other.at {
					continue
				}
				overlaps++
				if other.lane == one.lane || overlap(other.components(3), one.components(3)) {
					t.Fatalf("seed %d: %s at %s and %s at %s", seed, other, other.at, one, one.at)
				}
			}
		}
		for _, k := range kinds {
			if !slices.Contains(seen, k) {
				t.Fatalf("seed %d: no %s", seed, k)
			}
		}
	}
	if overlaps == 0 {
		t.Error("no two faults overlap")
	}
}

// TestPoisonBatch_UsesEveryDefect checks that every defect occurs, that a batch has at
// most one invalid record, and that exactly the records without an id are identified by
// their bytes.
func TestPoisonBatch_UsesEveryDefect(t *testing.T) {
	now := time.Now()
	targets := []target{{key: affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive).Reveal(), code: "jane", workspace: newID(now)}}
	dead := map[string]int{}
	for seed := range uint64(500) {
		batch, records := poisonBatch(rand.New(rand.NewPCG(seed, 0)), targets, now)
		invalid := 0
		for _, p := range records {
			if p.Dead != "" {
				invalid++
				dead[p.Dead]++
			}
			if (p.ID == uuid.Nil) != (len(p.Record) > 0) {
				t.Fatalf("seed %d: %+v", seed, p)
			}
		}
		if len(batch) == 0 || invalid > 1 {
			t.Fatalf("seed %d: %d of %d records are invalid", seed, invalid, len(records))
		}
	}
	for _, reason := range []affiliate.ClickDeadReason{affiliate.ClickMalformed, affiliate.ClickRejected, affiliate.ClickKeyUnknown, affiliate.ClickCodeUnknown} {
		if dead[string(reason)] == 0 {
			t.Errorf("no record becomes a dead letter with reason %s", reason)
		}
	}
}
