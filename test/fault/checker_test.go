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

// world is a history with tables that agree with it, for tests to break.
type world struct {
	history history
	tables  tables
	now     time.Time
}

// The attempts of goodWorld that tests name.
const (
	mintedOne = iota
	proposedTwice
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
		mintedOne:     {Request: 1, Way: minting, Outcome: acknowledged, Status: 201, Answered: minted},
		proposedTwice: {Request: 2, Way: proposing, Outcome: lost, Proposed: proposed},
		proposedAgain: {Request: 2, Way: proposing, Outcome: acknowledged, Status: 201, Proposed: proposed, Answered: proposed, Collector: 1},
		refusedOne:    {Request: 3, Way: proposing, Outcome: refused, Status: 503, Proposed: refusedID},
		lostOne:       {Request: 4, Way: minting, Outcome: lost},
		followedOne:   {Request: 5, Way: following, Outcome: acknowledged, Status: 302, Answered: followed, Target: 1},
		sentOnOne:     {Request: 6, Way: following, Outcome: sentOn, Status: 302},
		unsentOne:     {Request: 7, Way: minting, Outcome: unsent},
	}
	for i := range w.history.attempts {
		w.history.attempts[i].Start, w.history.attempts[i].End = start, end
	}
	w.store(minted, 1, 0)
	w.store(proposed, 2, 0)
	w.store(followed, 5, 1)
	w.store(lostID, 4, 0) // nobody was told of it
	w.row(2).IsUnique, w.row(5).IsUnique = true, true
	planted := planted{ID: newID(now), SubID: "planted-1", Target: 1, At: start, Acknowledged: true}
	key := planted
	key.ID, key.Dead = newID(now), string(affiliate.ClickKeyUnknown)
	noise := planted
	noise.ID, noise.Dead, noise.Record = uuid.Nil, string(affiliate.ClickMalformed), []byte{7, 1, 2}
	w.history.planted = append(w.history.planted, planted, key, noise)
	w.tables.clicks = append(w.tables.clicks, clickRow{ID: planted.ID, SubID: planted.SubID, ParticipantID: w.participant(1), ReceivedAt: now})
	w.tables.letters = []letterRow{
		{ID: key.ID, Reason: key.Dead},
		// Bytes without an id may be kept twice.
		{ID: newID(now), Reason: noise.Dead, Record: noise.Record},
		{ID: newID(now), Reason: noise.Dead, Record: noise.Record},
	}
	w.tables.counts = map[uuid.UUID]int64{w.participant(0): 3, w.participant(1): 2}
	return w
}

func newID(at time.Time) uuid.UUID { return affiliate.NewID[affiliate.Click](at).UUID }

func (w *world) participant(n int) uuid.UUID { return w.history.targets[n].participant }

// store adds a row as a request makes it.
func (w *world) store(id uuid.UUID, request, target int) {
	w.tables.clicks = append(w.tables.clicks, clickRow{
		ID: id, SubID: subIDOf(request), ParticipantID: w.participant(target), ReceivedAt: w.now.Add(time.Millisecond),
		ReferralCode: "jane", IPHash: []byte("address"), UAHash: []byte("agent"),
	})
}

// row is the row of a request.
func (w *world) row(request int) *clickRow {
	i := slices.IndexFunc(w.tables.clicks, func(row clickRow) bool { return row.SubID == subIDOf(request) })
	return &w.tables.clicks[i]
}

func (w *world) without(request int) {
	w.tables.clicks = slices.DeleteFunc(w.tables.clicks, func(row clickRow) bool { return row.SubID == subIDOf(request) })
	w.tables.counts[w.participant(0)]--
}

func TestAHistoryThatAgreesHasNoViolations(t *testing.T) {
	v := judge(goodWorld().history, goodWorld().tables)
	// The two worlds differ in every id, so their comparison must fail.
	if len(v.violations()) == 0 {
		t.Error("the tables of another storm are taken for this one's")
	}
	w := goodWorld()
	v = judge(w.history, w.tables)
	if found := v.violations(); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	if v.requests != 7 || v.attempts != 8 || v.acknowledged != 5 || v.planted != 3 || v.rows != 5 || v.letters != 3 || v.unanswered != 1 || v.unique != 2 {
		t.Errorf("%+v", v)
	}
}

// TestAnUnansweredClickMayBeStored: what a client was not told may be there or not.
func TestAnUnansweredClickMayBeStored(t *testing.T) {
	w := goodWorld()
	w.store(w.history.attempts[refusedOne].Proposed, 3, 0)
	w.store(newID(w.now), 6, 0)
	// A collector that stood still received this one after its client had gone.
	w.row(4).ReceivedAt = w.now.Add(10 * time.Second)
	w.tables.counts[w.participant(0)] += 2
	if v := judge(w.history, w.tables); len(v.violations()) > 0 || v.unanswered != 3 {
		t.Errorf("%d unanswered, %+v", v.unanswered, v.violations())
	}
	w = goodWorld()
	w.without(4)
	if v := judge(w.history, w.tables); len(v.violations()) > 0 || v.unanswered != 0 {
		t.Errorf("%d unanswered, %+v", v.unanswered, v.violations())
	}
}

// TestTheCheckerFails: a proof that cannot fail proves nothing.
func TestTheCheckerFails(t *testing.T) {
	for name, tc := range map[string]struct {
		tamper func(*world)
		want   []string
	}{
		"a removed row":                        {func(w *world) { w.without(1) }, []string{"missing"}},
		"a removed row of a repeated proposal": {func(w *world) { w.without(2) }, []string{"missing"}},
		"a removed row of a redirect": {func(w *world) {
			w.without(5)
			w.tables.counts[w.participant(0)]++
			w.tables.counts[w.participant(1)]--
		}, []string{"missing"}},
		"a planted click that is nowhere": {func(w *world) {
			w.tables.clicks = w.tables.clicks[:len(w.tables.clicks)-1]
			w.tables.counts[w.participant(1)]--
		}, []string{"missing"}},
		"poison that is nowhere":     {func(w *world) { w.tables.letters = w.tables.letters[:1] }, []string{"missing"}},
		"a dead letter that is gone": {func(w *world) { w.tables.letters = w.tables.letters[1:] }, []string{"missing"}},
		"a doubled row": {func(w *world) {
			w.store(w.history.attempts[mintedOne].Answered, 1, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"doubled"}},
		"a row that is a dead letter too": {func(w *world) {
			w.tables.letters = append(w.tables.letters, letterRow{ID: w.history.attempts[mintedOne].Answered, Reason: "rejected"})
		}, []string{"doubled", "buried"}},
		"two rows of one unanswered request": {func(w *world) {
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
			w.tables.letters = append(w.tables.letters, letterRow{ID: newID(w.now), Reason: "malformed", Record: []byte("?")})
		}, []string{"invented"}},
		"a good click among the dead": {func(w *world) {
			w.without(1)
			w.tables.letters = append(w.tables.letters, letterRow{ID: w.history.attempts[mintedOne].Answered, Reason: "malformed"})
		}, []string{"buried"}},
		"a dead letter of another reason": {func(w *world) { w.tables.letters[0].Reason = "malformed" }, []string{"mistaken"}},
		"a stored click that should be dead": {func(w *world) {
			p := w.history.planted[1]
			w.tables.letters = w.tables.letters[1:]
			w.tables.clicks = append(w.tables.clicks, clickRow{ID: p.ID, SubID: p.SubID, ParticipantID: w.participant(1), ReceivedAt: w.now})
			w.tables.counts[w.participant(1)]++
		}, []string{"mistaken"}},
		"another participant's click": {func(w *world) {
			w.row(1).ParticipantID = w.participant(1)
			w.tables.counts = map[uuid.UUID]int64{w.participant(0): 2, w.participant(1): 3}
		}, []string{"mistaken"}},
		"another request's sub id":    {func(w *world) { w.row(1).SubID = subIDOf(2) }, []string{"mistaken"}},
		"received before the request": {func(w *world) { w.row(1).ReceivedAt = w.now.Add(-time.Second) }, []string{"mistaken"}},
		"received after the answer":   {func(w *world) { w.row(2).ReceivedAt = w.now.Add(time.Hour) }, []string{"mistaken"}},
		"an answer of 404":            {func(w *world) { w.history.attempts[unsentOne].Outcome = wrong }, []string{"wrong answers"}},
		"a request cut off":           {func(w *world) { w.history.attempts[lostOne].CutOff = true }, []string{"cut off by a graceful stop"}},
		"a count too low":             {func(w *world) { w.tables.counts[w.participant(0)]-- }, []string{"counts"}},
		"a participant without count": {func(w *world) { delete(w.tables.counts, w.participant(0)) }, []string{"counts"}},
		"a bot that is counted":       {func(w *world) { w.row(1).IsBot = true }, []string{"taken for bots", "counts"}},
		"a browser taken for a bot": {func(w *world) {
			w.row(1).IsBot = true
			w.tables.counts[w.participant(0)]--
		}, []string{"taken for bots"}},
		"a planted click taken for a bot": {func(w *world) {
			w.tables.clicks[len(w.tables.clicks)-1].IsBot = true
			w.tables.counts[w.participant(1)]--
		}, []string{"taken for bots"}},
		"a visitor's second unique click": {func(w *world) { w.row(4).IsUnique = true }, []string{"unique again"}},
		"an answer under another id": {func(w *world) {
			// The proposal is still acknowledged, by the attempt before.
			w.history.attempts[proposedTwice].Outcome, w.history.attempts[proposedTwice].Answered = acknowledged, w.history.attempts[proposedTwice].Proposed
			w.history.attempts[proposedAgain].Answered = newID(w.now)
			w.store(w.history.attempts[proposedAgain].Answered, 2, 0)
			w.tables.counts[w.participant(0)]++
		}, []string{"renamed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := goodWorld()
			tc.tamper(w)
			var got []string
			for _, f := range judge(w.history, w.tables).violations() {
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

// Who is unique depends on the visitor and the code, and on a cache that lasts.
func TestVisitorsMayBeUniqueOnceEach(t *testing.T) {
	for name, change := range map[string]func(*world){
		"another address":   func(w *world) { w.row(4).IPHash = []byte("another") },
		"another agent":     func(w *world) { w.row(4).UAHash = []byte("another") },
		"another code":      func(w *world) { w.row(4).ReferralCode = "another" },
		"the cache flushed": func(w *world) { w.history.flushed = true },
	} {
		w := goodWorld()
		w.row(4).IsUnique = true
		change(w)
		if v := judge(w.history, w.tables); len(v.violations()) > 0 || v.forgot != w.history.flushed {
			t.Errorf("%s: %+v", name, v.violations())
		}
	}
}

func TestAPlanFollowsFromItsSeed(t *testing.T) {
	s := scale{length: 2 * time.Minute, whole: true, outage: time.Minute, pause: 5 * time.Second, restart: 3 * time.Second, hold: 4 * time.Second, collectors: 3, smallDisk: true}
	text := func(steps []step) string {
		var b strings.Builder
		for _, one := range steps {
			b.WriteString(one.at.String() + " " + one.String() + "\n")
		}
		return b.String()
	}
	if first, again := text(plan(1, s)), text(plan(1, s)); first != again || first == text(plan(2, s)) {
		t.Error("the plan does not follow from the seed")
	}
	overlaps := 0
	for seed := range uint64(200) {
		steps := plan(seed, s)
		var seen []kind
		for n, one := range steps {
			seen = append(seen, one.kind)
			for _, other := range steps[:n] {
				if other.at+other.lasts <= one.at || one.at+one.lasts <= other.at {
					continue
				}
				overlaps++
				if other.lane == one.lane || overlap(other.victims(3), one.victims(3)) {
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

// TestPoisonIsWhatItSays: every way to spoil a batch is drawn, and only planted
// records without an id are named by their bytes.
func TestPoisonIsWhatItSays(t *testing.T) {
	now := time.Now()
	targets := []target{{key: affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive).Reveal(), code: "jane", workspace: newID(now)}}
	dead := map[string]int{}
	for seed := range uint64(500) {
		batch, records := brew(rand.New(rand.NewPCG(seed, 0)), targets, now)
		spoilt := 0
		for _, p := range records {
			if p.Dead != "" {
				spoilt++
				dead[p.Dead]++
			}
			if (p.ID == uuid.Nil) != (len(p.Record) > 0) {
				t.Fatalf("seed %d: %+v", seed, p)
			}
		}
		if len(batch) == 0 || spoilt > 1 {
			t.Fatalf("seed %d: %d of %d records spoilt", seed, spoilt, len(records))
		}
	}
	for _, reason := range []affiliate.ClickDeadReason{affiliate.ClickMalformed, affiliate.ClickRejected, affiliate.ClickKeyUnknown, affiliate.ClickCodeUnknown} {
		if dead[string(reason)] == 0 {
			t.Errorf("nothing ends as %s", reason)
		}
	}
}
