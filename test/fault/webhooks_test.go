package main

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// toldWorld is what shops and endpoints were told, with an outbox that agrees with
// it, for tests to break.
type toldWorld struct {
	told   told
	outbox outbox
	now    time.Time
}

// The sales of goodToldWorld that tests name, by their first attempts.
const (
	soldOnce = iota
	soldUnsure
	soldAgain
	soldTwiceLost
	soldTwiceAgain
	soldElsewhere
)

// The endpoints of goodToldWorld.
const (
	followsAll = iota
	followsSome
	elsewhere
)

func goodToldWorld() *toldWorld {
	w := &toldWorld{now: time.Now().Truncate(time.Millisecond)}
	w.told.targets = []target{
		{workspace: uuid.New(), participant: newID(w.now)},
		{workspace: uuid.New(), participant: newID(w.now), merchant: 1},
	}
	first, second := w.told.targets[0].workspace, w.told.targets[1].workspace
	w.told.endpoints = []endpoint{
		followsAll:  {id: uuid.New(), workspace: first, follows: []string{"*"}},
		followsSome: {id: uuid.New(), workspace: first, follows: []string{conversionCreated, "commission.*"}},
		elsewhere:   {id: uuid.New(), workspace: second, follows: []string{"*"}, merchant: 1},
	}
	sold := newID(w.now)
	w.told.sales = []saleAttempt{
		soldOnce:       {External: "a", Amount: 500, Outcome: acknowledged, Status: 201, Answered: sold},
		soldUnsure:     {External: "b", Amount: 600, Outcome: refused, Status: 503},
		soldAgain:      {External: "b", Amount: 600, Outcome: acknowledged, Status: 409},
		soldTwiceLost:  {External: "c", Amount: 700, Click: newID(w.now), Outcome: lost},
		soldTwiceAgain: {External: "c", Amount: 700, Click: newID(w.now), Outcome: acknowledged, Status: 201},
		soldElsewhere:  {External: "a", Target: 1, Amount: 800, Outcome: acknowledged, Status: 201},
	}
	w.told.sales[soldTwiceAgain].Answered, w.told.sales[soldElsewhere].Answered = newID(w.now), newID(w.now)
	w.convert(soldOnce, sold)
	w.convert(soldAgain, newID(w.now))
	w.convert(soldTwiceAgain, w.told.sales[soldTwiceAgain].Answered)
	w.convert(soldElsewhere, w.told.sales[soldElsewhere].Answered)
	w.outbox.conversions[2].ParticipantID = nil // its click is still on its way
	w.publish(first, "link.created", "")
	w.publish(first, "commission.created", "")
	// What was sent by a core that was killed came again.
	w.told.arrivals[0].Unheard = true
	w.told.arrivals = append(w.told.arrivals, w.told.arrivals[0])
	w.told.arrivals[len(w.told.arrivals)-1].Unheard = false
	return w
}

// convert stores a conversion and its event.
func (w *toldWorld) convert(attempt int, id uuid.UUID) {
	a := w.told.sales[attempt]
	to := w.told.targets[a.Target]
	w.outbox.conversions = append(w.outbox.conversions, conversionRow{
		WorkspaceID: to.workspace, ID: id, ExternalTransactionID: a.External, AmountCents: a.Amount, ParticipantID: &to.participant,
	})
	w.publish(to.workspace, conversionCreated, a.External)
}

// publish stores an event, delivers it and lets it arrive.
func (w *toldWorld) publish(workspace uuid.UUID, eventType, external string) {
	id := affiliate.NewID[affiliate.Event](w.now)
	body := []byte(id.String())
	w.outbox.events = append(w.outbox.events, eventRow{WorkspaceID: workspace, ID: id.UUID, Type: eventType, Body: body})
	for n, e := range w.told.endpoints {
		if e.workspace != workspace || n == followsSome && eventType == "link.created" {
			continue
		}
		w.outbox.deliveries = append(w.outbox.deliveries, deliveryRow{WorkspaceID: workspace, EndpointID: e.id, EventID: id.UUID, Status: "delivered"})
		w.told.arrivals = append(w.told.arrivals, arrival{
			Endpoint: n, ID: affiliate.WireID(id), Attempt: "1", Type: eventType, Body: sha256.Sum256(body), External: external,
		})
	}
}

// arrived is the arrival of an endpoint's last event.
func (w *toldWorld) arrived(endpoint int) *arrival {
	n := len(w.told.arrivals) - 1
	for w.told.arrivals[n].Endpoint != endpoint || w.told.arrivals[n].ID == w.told.arrivals[0].ID {
		n--
	}
	return &w.told.arrivals[n]
}

// lose takes an endpoint's last arrival away.
func (w *toldWorld) lose(endpoint int) {
	gone := *w.arrived(endpoint)
	w.told.arrivals = slices.DeleteFunc(w.told.arrivals, func(a arrival) bool { return a == gone })
}

func TestWhatWasToldAgreesWithTheOutbox(t *testing.T) {
	w := goodToldWorld()
	v := judgeTold(w.told, w.outbox)
	if found := v.violations(); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	if v.reported != 4 || v.attempts != 6 || v.repeated != 1 || v.conversions != 4 || v.events != 6 || v.deliveries != 10 ||
		v.arrivals != 11 || v.repetitions != 1 || v.unheard != 1 {
		t.Errorf("%+v", v)
	}
	// The two worlds differ in every id, so their comparison must fail.
	if v := judgeTold(goodToldWorld().told, goodToldWorld().outbox); len(v.violations()) == 0 {
		t.Error("the outbox of another storm is taken for this one's")
	}
}

// TestTheWebhookCheckerFails: a proof that cannot fail proves nothing.
func TestTheWebhookCheckerFails(t *testing.T) {
	for name, tc := range map[string]struct {
		tamper func(*toldWorld)
		want   []string
	}{
		"a conversion that is nowhere": {func(w *toldWorld) { w.outbox.conversions = w.outbox.conversions[1:] }, []string{"conversions missing"}},
		"a conversion that a 409 vouched for is nowhere": {func(w *toldWorld) {
			w.outbox.conversions = slices.Delete(w.outbox.conversions, 1, 2)
		}, []string{"conversions missing"}},
		"a doubled conversion": {func(w *toldWorld) {
			w.outbox.conversions = append(w.outbox.conversions, w.outbox.conversions[1])
		}, []string{"conversions doubled"}},
		"a conversion that nobody reported": {func(w *toldWorld) {
			other := w.outbox.conversions[0]
			other.ExternalTransactionID = "z"
			w.outbox.conversions = append(w.outbox.conversions, other)
		}, []string{"conversions invented"}},
		"a conversion of another workspace": {func(w *toldWorld) {
			w.outbox.conversions[1].WorkspaceID = w.told.targets[1].workspace
		}, []string{"conversions missing", "conversions invented"}},
		"a conversion of a report that was never sent": {func(w *toldWorld) {
			other := w.outbox.conversions[0]
			other.ExternalTransactionID = "d"
			w.outbox.conversions = append(w.outbox.conversions, other)
			w.told.sales = append(w.told.sales, saleAttempt{External: "d", Outcome: unsent})
		}, []string{"conversions invented", "conversions left open"}},
		"a conversion under another id than was answered": {func(w *toldWorld) { w.outbox.conversions[0].ID = newID(w.now) }, []string{"conversions mistaken"}},
		"a conversion of another amount":                  {func(w *toldWorld) { w.outbox.conversions[1].AmountCents++ }, []string{"conversions mistaken"}},
		"a conversion of another participant": {func(w *toldWorld) {
			w.outbox.conversions[2].ParticipantID = &w.told.targets[1].participant
		}, []string{"conversions mistaken"}},
		"a promo code that attributes nothing":     {func(w *toldWorld) { w.outbox.conversions[1].ParticipantID = nil }, []string{"conversions mistaken"}},
		"a report whose end nobody was told":       {func(w *toldWorld) { w.told.sales[soldAgain].Outcome = refused }, []string{"conversions left open"}},
		"an answer of 500":                         {func(w *toldWorld) { w.told.sales[soldUnsure].Outcome = wrong }, []string{"wrong answers to conversions"}},
		"a 409 to the first report":                {func(w *toldWorld) { w.told.sales[soldUnsure].Outcome = unsent }, []string{"wrong answers to conversions"}},
		"a 201 behind a 201":                       {func(w *toldWorld) { w.told.sales = append(w.told.sales, w.told.sales[soldOnce]) }, []string{"wrong answers to conversions"}},
		"an event that did not arrive":             {func(w *toldWorld) { w.lose(followsSome) }, []string{"events missing"}},
		"an event that did not arrive everywhere":  {func(w *toldWorld) { w.lose(followsAll) }, []string{"events missing"}},
		"a conversion without an event":            {func(w *toldWorld) { w.forget(elsewhere) }, []string{"events missing"}},
		"a conversion that was told under two ids": {func(w *toldWorld) { w.publish(w.told.targets[1].workspace, conversionCreated, "a") }, []string{"events doubled"}},
		"an arrival that is no event": {func(w *toldWorld) {
			w.repeat(followsAll).ID = affiliate.WireID(affiliate.NewID[affiliate.Event](w.now))
		}, []string{"events invented"}},
		"an arrival without an id":                   {func(w *toldWorld) { w.repeat(followsAll).ID = "" }, []string{"events invented"}},
		"an arrival at no endpoint":                  {func(w *toldWorld) { w.repeat(followsAll).Endpoint = -1 }, []string{"events invented"}},
		"an arrival at another workspace's endpoint": {func(w *toldWorld) { w.repeat(followsAll).Endpoint = elsewhere }, []string{"events invented"}},
		"an arrival of what is not followed": {func(w *toldWorld) {
			w.publish(w.told.targets[0].workspace, "link.created", "")
			w.repeat(followsAll).Endpoint = followsSome
		}, []string{"events invented"}},
		"another body":                         {func(w *toldWorld) { w.arrived(followsAll).Body[0]++ }, []string{"events changed"}},
		"another body at the repetition":       {func(w *toldWorld) { w.repeat(followsAll).Body[0]++ }, []string{"events changed"}},
		"a bad signature":                      {func(w *toldWorld) { w.arrived(followsAll).Forged = "no" }, []string{"events forged"}},
		"a bad signature of what is no event":  {func(w *toldWorld) { a := w.repeat(followsAll); a.ID, a.Forged = "x", "no" }, []string{"events invented", "events forged"}},
		"an event without a delivery":          {func(w *toldWorld) { w.outbox.deliveries = w.outbox.deliveries[1:] }, []string{"deliveries"}},
		"a delivery that waits":                {func(w *toldWorld) { w.outbox.deliveries[0].Status = "pending" }, []string{"deliveries"}},
		"a delivery that was given up":         {func(w *toldWorld) { w.outbox.deliveries[0].Status = "dead_lettered" }, []string{"deliveries"}},
		"two deliveries of one event":          {func(w *toldWorld) { w.outbox.deliveries = append(w.outbox.deliveries, w.outbox.deliveries[0]) }, []string{"deliveries"}},
		"a delivery of no event":               {func(w *toldWorld) { w.deliver(followsAll, newID(w.now)) }, []string{"deliveries"}},
		"a delivery of what is not followed":   {func(w *toldWorld) { w.deliver(followsSome, w.outbox.events[4].ID) }, []string{"deliveries"}},
		"a lost send that did not come again":  {func(w *toldWorld) { w.told.arrivals = w.told.arrivals[:len(w.told.arrivals)-1] }, []string{"lost sends not repeated"}},
		"a lost send whose repetition is lost": {func(w *toldWorld) { w.told.arrivals[len(w.told.arrivals)-1].Unheard = true }, []string{"lost sends not repeated"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := goodToldWorld()
			tc.tamper(w)
			var got []string
			for _, f := range judgeTold(w.told, w.outbox).violations() {
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

// repeat lets an endpoint's last event arrive again.
func (w *toldWorld) repeat(endpoint int) *arrival {
	w.told.arrivals = append(w.told.arrivals, *w.arrived(endpoint))
	return &w.told.arrivals[len(w.told.arrivals)-1]
}

// deliver adds a delivery.
func (w *toldWorld) deliver(endpoint int, event uuid.UUID) {
	e := w.told.endpoints[endpoint]
	w.outbox.deliveries = append(w.outbox.deliveries, deliveryRow{WorkspaceID: e.workspace, EndpointID: e.id, EventID: event, Status: "delivered"})
}

// forget removes an endpoint's last event as if it had never been.
func (w *toldWorld) forget(endpoint int) {
	id, _ := affiliate.ParseWireID(w.arrived(endpoint).ID)
	w.lose(endpoint)
	w.outbox.events = slices.DeleteFunc(w.outbox.events, func(e eventRow) bool { return e.ID == id.UUID })
	w.outbox.deliveries = slices.DeleteFunc(w.outbox.deliveries, func(d deliveryRow) bool { return d.EventID == id.UUID })
}

// TestTheReceiverTellsForgeriesAndWhatItHolds: it knows a body that was changed, and
// lets those wait whose sender is to be killed.
func TestTheReceiverTellsForgeriesAndWhatItHolds(t *testing.T) {
	r, err := startReceiver(t.Context(), filepath.Join(t.TempDir(), authorityName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stop() })
	if err := r.open(endpoint{follows: []string{"*"}}, "whsec_"+secret("w")); err != nil {
		t.Fatal(err)
	}
	send := func(path, signed, sent string) {
		at := time.Now()
		signature, err := r.endpoints[0].verify.Sign("evt_1", at, []byte(signed))
		if err != nil {
			t.Error(err)
		}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(sent))
		request.Header.Set("Webhook-Id", "evt_1")
		request.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
		request.Header.Set("Webhook-Signature", signature)
		answer := httptest.NewRecorder()
		if r.ServeHTTP(answer, request); answer.Code != http.StatusNoContent {
			t.Errorf("answered %d", answer.Code)
		}
	}
	const body = `{"type":"conversion.created","data":{"object":{"external_transaction_id":"a"}}}`
	send("/0", body, body)
	send("/0", body, body+" ")
	send("/1", body, body)
	caught := r.hold()
	done := make(chan struct{})
	go func() { defer close(done); send("/0", body, body) }()
	<-caught
	r.release(true)
	<-done
	_, got := r.received()
	if len(got) != 4 || got[0].Forged != "" || got[0].External != "a" || got[1].Forged == "" || got[2].Endpoint != -1 || got[0].Unheard || !got[3].Unheard {
		t.Errorf("%+v", got)
	}
}
