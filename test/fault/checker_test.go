package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// clickFixture contains a history and tables that match. Tests change the history or the
// tables, so that they no longer match.
type clickFixture struct {
	history history
	tables  tables
	now     time.Time
}

// These constants are the indexes of the attempts in newClickFixture. An attempt with a
// proposal is a request with an id that the client has chosen.
const (
	clickWithoutID = iota
	proposalLost
	proposalRepeated
	proposalRefused
	clickLost
	linkFollowed
	linkWithoutID
	clickUnsent
)

func newClickFixture() *clickFixture {
	now := time.Now().Truncate(time.Millisecond)
	f := &clickFixture{now: now, history: history{end: now.Add(time.Minute).UnixMilli()}}
	for range 2 {
		f.history.targets = append(f.history.targets, target{participant: newID(now)})
	}
	minted, proposed, refusedID, lostID, followed := newID(now), newID(now), newID(now), newID(now), newID(now)
	start, end := now.UnixMilli(), now.Add(10*time.Millisecond).UnixMilli()
	f.history.attempts = []attempt{
		clickWithoutID:   {Request: 1, Route: postWithoutID, Outcome: acknowledged, Status: 201, ResponseID: minted},
		proposalLost:     {Request: 2, Route: postWithID, Outcome: noResponse, Proposed: proposed},
		proposalRepeated: {Request: 2, Route: postWithID, Outcome: acknowledged, Status: 201, Proposed: proposed, ResponseID: proposed, Collector: 1},
		proposalRefused:  {Request: 3, Route: postWithID, Outcome: refused, Status: 503, Proposed: refusedID},
		clickLost:        {Request: 4, Route: postWithoutID, Outcome: noResponse},
		linkFollowed:     {Request: 5, Route: getShortLink, Outcome: acknowledged, Status: 302, ResponseID: followed, Target: 1},
		linkWithoutID:    {Request: 6, Route: getShortLink, Outcome: redirected, Status: 302},
		clickUnsent:      {Request: 7, Route: postWithoutID, Outcome: unsent},
	}
	f.history.starts = [][]int64{{start - 1000}, {start - 1000, start + 2000}}
	for i := range f.history.attempts {
		f.history.attempts[i].Start, f.history.attempts[i].End = start, end
	}
	f.store(minted, 1, 0)
	f.store(proposed, 2, 0)
	f.store(followed, 5, 1)
	f.store(lostID, 4, 0) // stored without a response
	f.row(2).IsUnique, f.row(5).IsUnique = true, true
	planted := plantedRecord{ID: newID(now), SubID: "planted-1", Target: 1, At: start, Acknowledged: true}
	unknownKey := planted
	unknownKey.ID, unknownKey.DeadLetterReason = newID(now), string(click.KeyUnknown)
	malformed := planted
	malformed.ID, malformed.DeadLetterReason, malformed.Record = uuid.Nil, string(click.Malformed), []byte{7, 1, 2}
	f.history.planted = append(f.history.planted, planted, unknownKey, malformed)
	f.tables.clicks = append(f.tables.clicks, clickRow{ID: planted.ID, SubID: planted.SubID, ParticipantID: f.participant(1), ReceivedAt: now})
	f.tables.deadLetters = []deadLetterRow{
		{ID: unknownKey.ID, Reason: unknownKey.DeadLetterReason},
		// Records without an id may be stored twice.
		{ID: newID(now), Reason: malformed.DeadLetterReason, Record: malformed.Record},
		{ID: newID(now), Reason: malformed.DeadLetterReason, Record: malformed.Record},
	}
	f.tables.counts = map[uuid.UUID]int64{f.participant(0): 3, f.participant(1): 2}
	return f
}

func newID(at time.Time) uuid.UUID { return affiliate.NewID[affiliate.ClickID](at).UUID }

func (f *clickFixture) participant(n int) uuid.UUID { return f.history.targets[n].participant }

// store adds a row for the click of a request.
func (f *clickFixture) store(id uuid.UUID, request, target int) {
	f.tables.clicks = append(f.tables.clicks, clickRow{
		ID: id, SubID: subIDOf(request), ParticipantID: f.participant(target), ReceivedAt: f.now.Add(time.Millisecond),
		ReferralCode: "jane", IPHash: []byte("address"), UAHash: []byte("agent"),
	})
}

// row returns the row for the click of a request.
func (f *clickFixture) row(request int) *clickRow {
	i := slices.IndexFunc(f.tables.clicks, func(row clickRow) bool { return row.SubID == subIDOf(request) })
	return &f.tables.clicks[i]
}

func (f *clickFixture) removeRow(request int) {
	f.tables.clicks = slices.DeleteFunc(f.tables.clicks, func(row clickRow) bool { return row.SubID == subIDOf(request) })
	f.tables.counts[f.participant(0)]--
}

func TestCheckClicks_MatchingHistoryHasNoViolations(t *testing.T) {
	v := checkClicks(newClickFixture().history, newClickFixture().tables)
	// Two fixtures have different ids, so the history of one does not match the tables of
	// the other.
	if len(v.violations()) == 0 {
		t.Error("checkClicks found no violation in the tables of another history")
	}
	f := newClickFixture()
	v = checkClicks(f.history, f.tables)
	if found := v.violations(); len(found) > 0 {
		t.Fatalf("checkClicks found violations in tables that match: %+v", found)
	}
	if v.requests != 7 || v.attempts != 8 || v.acknowledged != 5 || v.planted != 3 || v.rows != 5 || v.deadLetters != 3 || v.withoutResponse != 1 || v.unique != 2 {
		t.Errorf("the counts are wrong: %+v", v)
	}
}

// TestCheckClicks_ClickWithoutResponseMayBeStored checks that the row of a click without
// a response may exist or be missing.
func TestCheckClicks_ClickWithoutResponseMayBeStored(t *testing.T) {
	f := newClickFixture()
	f.store(f.history.attempts[proposalRefused].Proposed, 3, 0)
	f.store(newID(f.now), 6, 0)
	// This click was received after its client had stopped waiting.
	f.row(4).ReceivedAt = f.now.Add(10 * time.Second)
	f.tables.counts[f.participant(0)] += 2
	if v := checkClicks(f.history, f.tables); len(v.violations()) > 0 || v.withoutResponse != 3 {
		t.Errorf("%d rows without a response, want 3; violations %+v, want none", v.withoutResponse, v.violations())
	}
	f = newClickFixture()
	f.removeRow(4)
	if v := checkClicks(f.history, f.tables); len(v.violations()) > 0 || v.withoutResponse != 0 {
		t.Errorf("%d rows without a response, want 0; violations %+v, want none", v.withoutResponse, v.violations())
	}
}

// TestCheckClicks_FindsViolations checks that each kind of difference is reported.
func TestCheckClicks_FindsViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		tamper func(*clickFixture)
		want   []string
	}{
		"a removed row":                        {func(f *clickFixture) { f.removeRow(1) }, []string{"missing"}},
		"a removed row of a repeated proposal": {func(f *clickFixture) { f.removeRow(2) }, []string{"missing"}},
		"a removed row of a redirect": {func(f *clickFixture) {
			f.removeRow(5)
			f.tables.counts[f.participant(0)]++
			f.tables.counts[f.participant(1)]--
		}, []string{"missing"}},
		"a planted click that is not stored": {func(f *clickFixture) {
			f.tables.clicks = f.tables.clicks[:len(f.tables.clicks)-1]
			f.tables.counts[f.participant(1)]--
		}, []string{"missing"}},
		"a malformed record that is not stored": {func(f *clickFixture) { f.tables.deadLetters = f.tables.deadLetters[:1] }, []string{"missing"}},
		"a missing dead letter":                 {func(f *clickFixture) { f.tables.deadLetters = f.tables.deadLetters[1:] }, []string{"missing"}},
		"a duplicated row": {func(f *clickFixture) {
			f.store(f.history.attempts[clickWithoutID].ResponseID, 1, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"duplicated"}},
		"a click stored as a row and as a dead letter": {func(f *clickFixture) {
			f.tables.deadLetters = append(f.tables.deadLetters, deadLetterRow{ID: f.history.attempts[clickWithoutID].ResponseID, Reason: "rejected"})
		}, []string{"duplicated", "dead-lettered"}},
		"two rows of one request without a response": {func(f *clickFixture) {
			f.store(newID(f.now), 4, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"duplicated"}},
		"an unexplained row": {func(f *clickFixture) {
			f.store(newID(f.now), 99, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"unexplained"}},
		"a second row of a request with a response": {func(f *clickFixture) {
			f.store(newID(f.now), 1, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"unexplained"}},
		"a row of a request that was never sent": {func(f *clickFixture) {
			f.store(newID(f.now), 7, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"unexplained"}},
		"a second row of a proposal, under another id": {func(f *clickFixture) {
			f.store(newID(f.now), 2, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"unexplained"}},
		"an unexplained dead letter": {func(f *clickFixture) {
			f.tables.deadLetters = append(f.tables.deadLetters, deadLetterRow{ID: newID(f.now), Reason: "malformed", Record: []byte("?")})
		}, []string{"unexplained"}},
		"a valid click among the dead letters": {func(f *clickFixture) {
			f.removeRow(1)
			f.tables.deadLetters = append(f.tables.deadLetters, deadLetterRow{ID: f.history.attempts[clickWithoutID].ResponseID, Reason: "malformed"})
		}, []string{"dead-lettered"}},
		"a dead letter with another reason": {func(f *clickFixture) { f.tables.deadLetters[0].Reason = "malformed" }, []string{"mismatched"}},
		"a stored click that must be a dead letter": {func(f *clickFixture) {
			p := f.history.planted[1]
			f.tables.deadLetters = f.tables.deadLetters[1:]
			f.tables.clicks = append(f.tables.clicks, clickRow{ID: p.ID, SubID: p.SubID, ParticipantID: f.participant(1), ReceivedAt: f.now})
			f.tables.counts[f.participant(1)]++
		}, []string{"mismatched"}},
		"another participant's click": {func(f *clickFixture) {
			f.row(1).ParticipantID = f.participant(1)
			f.tables.counts = map[uuid.UUID]int64{f.participant(0): 2, f.participant(1): 3}
		}, []string{"mismatched"}},
		"another request's sub id":               {func(f *clickFixture) { f.row(1).SubID = subIDOf(2) }, []string{"mismatched"}},
		"received before the request":            {func(f *clickFixture) { f.row(1).ReceivedAt = f.now.Add(-time.Second) }, []string{"mismatched"}},
		"received after the response":            {func(f *clickFixture) { f.row(2).ReceivedAt = f.now.Add(time.Hour) }, []string{"mismatched"}},
		"a response with status 404":             {func(f *clickFixture) { f.history.attempts[clickUnsent].Outcome = unexpected }, []string{"wrong responses"}},
		"a connection closed by a graceful stop": {func(f *clickFixture) { f.history.attempts[clickLost].CutOff = true }, []string{"cut off by a graceful stop"}},
		"a count too low":                        {func(f *clickFixture) { f.tables.counts[f.participant(0)]-- }, []string{"counts"}},
		"a participant without count":            {func(f *clickFixture) { delete(f.tables.counts, f.participant(0)) }, []string{"counts"}},
		"a bot's click that is counted":          {func(f *clickFixture) { f.row(1).IsBot = true }, []string{"stored as bots", "counts"}},
		"a browser's click stored as a bot's": {func(f *clickFixture) {
			f.row(1).IsBot = true
			f.tables.counts[f.participant(0)]--
		}, []string{"stored as bots"}},
		"a planted click stored as a bot's": {func(f *clickFixture) {
			f.tables.clicks[len(f.tables.clicks)-1].IsBot = true
			f.tables.counts[f.participant(1)]--
		}, []string{"stored as bots"}},
		"a visitor's second unique click":   {func(f *clickFixture) { f.row(4).IsUnique = true }, []string{"unique twice"}},
		"a refused visitor of a known link": {func(f *clickFixture) { f.refuseLink(0, time.Second) }, []string{"known links that did not redirect"}},
		"a response with another id": {func(f *clickFixture) {
			// Here the first attempt gets a response with the id that the client proposed. The
			// repeated attempt gets a response with another id.
			f.history.attempts[proposalLost].Outcome, f.history.attempts[proposalLost].ResponseID = acknowledged, f.history.attempts[proposalLost].Proposed
			f.history.attempts[proposalRepeated].ResponseID = newID(f.now)
			f.store(f.history.attempts[proposalRepeated].ResponseID, 2, 0)
			f.tables.counts[f.participant(0)]++
		}, []string{"renamed"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newClickFixture()
			tc.tamper(f)
			var got []string
			for _, violation := range checkClicks(f.history, f.tables).violations() {
				got = append(got, violation.name)
				if len(violation.lines) != 1 {
					t.Errorf("unexpected violation %s: %q", violation.name, violation.lines)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("checkClicks found the violations %v, want %v", got, tc.want)
			}
		})
	}
}

// refuseLink adds a visitor of the link that another visitor has followed before. A collector
// refuses the visitor with a 503.
func (f *clickFixture) refuseLink(collector int, later time.Duration) {
	at := f.now.Add(later).UnixMilli()
	f.history.attempts[linkWithoutID].Collector = collector
	f.history.attempts = append(f.history.attempts, attempt{Request: 8, Route: getShortLink, Outcome: refused, Status: 503, Collector: collector, Start: at, End: at + 1})
}

// A collector that was restarted, or another collector, need not know a link.
func TestCheckClicks_AllowsUnknownLinks(t *testing.T) {
	for name, change := range map[string]func(*clickFixture){
		"after a restart": func(f *clickFixture) { f.refuseLink(1, 3*time.Second) },
		"another collector": func(f *clickFixture) {
			f.refuseLink(1, time.Second)
			f.history.attempts[linkWithoutID].Collector = 0
		},
		"before the first redirect": func(f *clickFixture) { f.refuseLink(0, -100*time.Millisecond) },
	} {
		f := newClickFixture()
		change(f)
		if v := checkClicks(f.history, f.tables); len(v.violations()) > 0 {
			t.Errorf("%s: checkClicks found %+v, want no violations", name, v.violations())
		}
	}
}

// TestCheckClicks_AllowsOneUniqueClickPerVisitorAndCode checks that two unique clicks are
// allowed if their visitors or codes differ, or if the cache was flushed.
func TestCheckClicks_AllowsOneUniqueClickPerVisitorAndCode(t *testing.T) {
	for name, change := range map[string]func(*clickFixture){
		"another address":   func(f *clickFixture) { f.row(4).IPHash = []byte("another") },
		"another agent":     func(f *clickFixture) { f.row(4).UAHash = []byte("another") },
		"another code":      func(f *clickFixture) { f.row(4).ReferralCode = "another" },
		"the cache flushed": func(f *clickFixture) { f.history.cacheFlushed = true },
	} {
		f := newClickFixture()
		f.row(4).IsUnique = true
		change(f)
		if v := checkClicks(f.history, f.tables); len(v.violations()) > 0 || v.cacheFlushed != f.history.cacheFlushed {
			t.Errorf("with %s checkClicks found %+v, want no violations", name, v.violations())
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
		t.Error("plan returned different plans for the same seed, or the same plan for different seeds")
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
					t.Fatalf("seed %d: two faults affect the same component: %s at %s and %s at %s", seed, other, other.at, one, one.at)
				}
			}
		}
		for _, k := range kinds {
			if !slices.Contains(seen, k) {
				t.Fatalf("seed %d: the plan has no %s", seed, k)
			}
		}
	}
	if overlaps == 0 {
		t.Error("no plan has two faults that overlap")
	}
}

// TestPoisonBatch_UsesEveryDefect checks that every defect occurs and that a batch has at
// most one invalid record. It also checks that the field Record contains the bytes of a
// record if and only if the record has no id.
func TestPoisonBatch_UsesEveryDefect(t *testing.T) {
	now := time.Now()
	targets := []target{{key: account.NewKey(account.PublicKey, affiliate.ModeLive).Reveal(), code: "jane", workspace: newID(now)}}
	dead := map[string]int{}
	for seed := range uint64(500) {
		batch, records := poisonBatch(rand.New(rand.NewPCG(seed, 0)), targets, now)
		invalid := 0
		for _, p := range records {
			if p.DeadLetterReason != "" {
				invalid++
				dead[p.DeadLetterReason]++
			}
			if (p.ID == uuid.Nil) != (len(p.Record) > 0) {
				t.Fatalf("seed %d: the record must have either an id or its bytes: %+v", seed, p)
			}
		}
		if len(batch) == 0 || invalid > 1 {
			t.Fatalf("seed %d: %d of %d records are invalid", seed, invalid, len(records))
		}
	}
	for _, reason := range []click.DeadReason{click.Malformed, click.Rejected, click.KeyUnknown, click.CodeUnknown} {
		if dead[string(reason)] == 0 {
			t.Errorf("no record becomes a dead letter with reason %s", reason)
		}
	}
}
