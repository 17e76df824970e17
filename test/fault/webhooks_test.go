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

// salesWorld is a history of sales and webhooks with an outbox that matches it. Tests
// change one of the two, so that they no longer match.
type salesWorld struct {
	history salesHistory
	outbox  outbox
	now     time.Time
}

// Indexes of the reports of goodSalesWorld.
const (
	soldOnce = iota
	soldUnsure
	soldAgain
	soldTwiceLost
	soldTwiceAgain
	soldElsewhere
)

// Indexes of the endpoints of goodSalesWorld.
const (
	followsAll = iota
	followsSome
	elsewhere
)

func goodSalesWorld() *salesWorld {
	w := &salesWorld{now: time.Now().Truncate(time.Millisecond)}
	w.history.targets = []target{
		{workspace: uuid.New(), participant: newID(w.now)},
		{workspace: uuid.New(), participant: newID(w.now), merchant: 1},
	}
	first, second := w.history.targets[0].workspace, w.history.targets[1].workspace
	w.history.endpoints = []endpoint{
		followsAll:  {id: uuid.New(), workspace: first, subscriptions: []string{"*"}},
		followsSome: {id: uuid.New(), workspace: first, subscriptions: []string{conversionCreated, "commission.*"}},
		elsewhere:   {id: uuid.New(), workspace: second, subscriptions: []string{"*"}, merchant: 1},
	}
	sold := newID(w.now)
	w.history.sales = []saleAttempt{
		soldOnce:       {External: "a", Amount: 500, Outcome: acknowledged, Status: 201, Answered: sold},
		soldUnsure:     {External: "b", Amount: 600, Outcome: refused, Status: 503},
		soldAgain:      {External: "b", Amount: 600, Outcome: acknowledged, Status: 409},
		soldTwiceLost:  {External: "c", Amount: 700, Click: newID(w.now), Outcome: noResponse},
		soldTwiceAgain: {External: "c", Amount: 700, Click: newID(w.now), Outcome: acknowledged, Status: 201},
		soldElsewhere:  {External: "a", Target: 1, Amount: 800, Outcome: acknowledged, Status: 201},
	}
	w.history.sales[soldTwiceAgain].Answered, w.history.sales[soldElsewhere].Answered = newID(w.now), newID(w.now)
	w.addConversion(soldOnce, sold)
	w.addConversion(soldAgain, newID(w.now))
	w.addConversion(soldTwiceAgain, w.history.sales[soldTwiceAgain].Answered)
	w.addConversion(soldElsewhere, w.history.sales[soldElsewhere].Answered)
	w.outbox.conversions[2].ParticipantID = nil // its click is not stored yet
	w.addEvent(first, "link.created", "")
	w.addEvent(first, "commission.created", "")
	// A send of a killed core was repeated.
	w.history.arrivals[0].SenderKilled = true
	w.history.arrivals = append(w.history.arrivals, w.history.arrivals[0])
	w.history.arrivals[len(w.history.arrivals)-1].SenderKilled = false
	return w
}

// addConversion stores a conversion and publishes its event.
func (w *salesWorld) addConversion(attempt int, id uuid.UUID) {
	a := w.history.sales[attempt]
	to := w.history.targets[a.Target]
	w.outbox.conversions = append(w.outbox.conversions, conversionRow{
		WorkspaceID: to.workspace, ID: id, ExternalTransactionID: a.External, AmountCents: a.Amount, ParticipantID: &to.participant,
	})
	w.addEvent(to.workspace, conversionCreated, a.External)
}

// addEvent stores an event and its deliveries, and adds its arrivals.
func (w *salesWorld) addEvent(workspace uuid.UUID, eventType, external string) {
	id := affiliate.NewID[affiliate.Event](w.now)
	body := []byte(id.String())
	w.outbox.events = append(w.outbox.events, eventRow{WorkspaceID: workspace, ID: id.UUID, Type: eventType, Body: body})
	for n, e := range w.history.endpoints {
		if e.workspace != workspace || n == followsSome && eventType == "link.created" {
			continue
		}
		w.outbox.deliveries = append(w.outbox.deliveries, deliveryRow{WorkspaceID: workspace, EndpointID: e.id, EventID: id.UUID, Status: "delivered"})
		w.history.arrivals = append(w.history.arrivals, arrival{
			Endpoint: n, ID: affiliate.WireID(id), Attempt: "1", Type: eventType, Body: sha256.Sum256(body), External: external,
		})
	}
}

// lastArrival returns the last arrival of an endpoint.
func (w *salesWorld) lastArrival(endpoint int) *arrival {
	n := len(w.history.arrivals) - 1
	for w.history.arrivals[n].Endpoint != endpoint || w.history.arrivals[n].ID == w.history.arrivals[0].ID {
		n--
	}
	return &w.history.arrivals[n]
}

// removeArrival removes an endpoint's last arrival.
func (w *salesWorld) removeArrival(endpoint int) {
	gone := *w.lastArrival(endpoint)
	w.history.arrivals = slices.DeleteFunc(w.history.arrivals, func(a arrival) bool { return a == gone })
}

func TestCheckSales_MatchingHistoryHasNoViolations(t *testing.T) {
	w := goodSalesWorld()
	v := checkSales(w.history, w.outbox)
	if found := v.violations(); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	if v.reported != 4 || v.attempts != 6 || v.repeated != 1 || v.conversions != 4 || v.events != 6 || v.deliveries != 10 ||
		v.arrivals != 11 || v.repetitions != 1 || v.senderKilled != 1 {
		t.Errorf("%+v", v)
	}
	// Two worlds have different ids, so a history does not match the outbox of another
	// world.
	if v := checkSales(goodSalesWorld().history, goodSalesWorld().outbox); len(v.violations()) == 0 {
		t.Error("no violations although the outbox belongs to another history")
	}
}

// TestCheckSales_FindsViolations checks that each kind of difference is reported.
func TestCheckSales_FindsViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		tamper func(*salesWorld)
		want   []string
	}{
		"a conversion that is not stored": {func(w *salesWorld) { w.outbox.conversions = w.outbox.conversions[1:] }, []string{"conversions missing"}},
		"a conversion acknowledged by a 409 that is not stored": {func(w *salesWorld) {
			w.outbox.conversions = slices.Delete(w.outbox.conversions, 1, 2)
		}, []string{"conversions missing"}},
		"a doubled conversion": {func(w *salesWorld) {
			w.outbox.conversions = append(w.outbox.conversions, w.outbox.conversions[1])
		}, []string{"conversions doubled"}},
		"a conversion without a report": {func(w *salesWorld) {
			other := w.outbox.conversions[0]
			other.ExternalTransactionID = "z"
			w.outbox.conversions = append(w.outbox.conversions, other)
		}, []string{"conversions invented"}},
		"a conversion of another workspace": {func(w *salesWorld) {
			w.outbox.conversions[1].WorkspaceID = w.history.targets[1].workspace
		}, []string{"conversions missing", "conversions invented"}},
		"a conversion of a report that was never sent": {func(w *salesWorld) {
			other := w.outbox.conversions[0]
			other.ExternalTransactionID = "d"
			w.outbox.conversions = append(w.outbox.conversions, other)
			w.history.sales = append(w.history.sales, saleAttempt{External: "d", Outcome: unsent})
		}, []string{"conversions invented", "conversions left open"}},
		"a conversion with another id than in the response": {func(w *salesWorld) { w.outbox.conversions[0].ID = newID(w.now) }, []string{"conversions mistaken"}},
		"a conversion of another amount":                    {func(w *salesWorld) { w.outbox.conversions[1].AmountCents++ }, []string{"conversions mistaken"}},
		"a conversion of another participant": {func(w *salesWorld) {
			w.outbox.conversions[2].ParticipantID = &w.history.targets[1].participant
		}, []string{"conversions mistaken"}},
		"a promo code that attributes nothing":    {func(w *salesWorld) { w.outbox.conversions[1].ParticipantID = nil }, []string{"conversions mistaken"}},
		"a report that was never acknowledged":    {func(w *salesWorld) { w.history.sales[soldAgain].Outcome = refused }, []string{"conversions left open"}},
		"a response with status 500":              {func(w *salesWorld) { w.history.sales[soldUnsure].Outcome = unexpected }, []string{"wrong responses to conversions"}},
		"a 409 to the first report":               {func(w *salesWorld) { w.history.sales[soldUnsure].Outcome = unsent }, []string{"wrong responses to conversions"}},
		"a 201 after a 201":                       {func(w *salesWorld) { w.history.sales = append(w.history.sales, w.history.sales[soldOnce]) }, []string{"wrong responses to conversions"}},
		"an event that did not arrive":            {func(w *salesWorld) { w.removeArrival(followsSome) }, []string{"events missing"}},
		"an event that did not arrive everywhere": {func(w *salesWorld) { w.removeArrival(followsAll) }, []string{"events missing"}},
		"a conversion without an event":           {func(w *salesWorld) { w.removeEvent(elsewhere) }, []string{"events missing"}},
		"a conversion in two events":              {func(w *salesWorld) { w.addEvent(w.history.targets[1].workspace, conversionCreated, "a") }, []string{"events doubled"}},
		"an arrival of an unknown event": {func(w *salesWorld) {
			w.repeatArrival(followsAll).ID = affiliate.WireID(affiliate.NewID[affiliate.Event](w.now))
		}, []string{"events invented"}},
		"an arrival without an id":                   {func(w *salesWorld) { w.repeatArrival(followsAll).ID = "" }, []string{"events invented"}},
		"an arrival at an unknown endpoint":          {func(w *salesWorld) { w.repeatArrival(followsAll).Endpoint = -1 }, []string{"events invented"}},
		"an arrival at another workspace's endpoint": {func(w *salesWorld) { w.repeatArrival(followsAll).Endpoint = elsewhere }, []string{"events invented"}},
		"an arrival without a subscription": {func(w *salesWorld) {
			w.addEvent(w.history.targets[0].workspace, "link.created", "")
			w.repeatArrival(followsAll).Endpoint = followsSome
		}, []string{"events invented"}},
		"another body":                              {func(w *salesWorld) { w.lastArrival(followsAll).Body[0]++ }, []string{"events changed"}},
		"another body in a repeated send":           {func(w *salesWorld) { w.repeatArrival(followsAll).Body[0]++ }, []string{"events changed"}},
		"a bad signature":                           {func(w *salesWorld) { w.lastArrival(followsAll).Forged = "no" }, []string{"events forged"}},
		"a bad signature of an unknown event":       {func(w *salesWorld) { a := w.repeatArrival(followsAll); a.ID, a.Forged = "x", "no" }, []string{"events invented", "events forged"}},
		"an event without a delivery":               {func(w *salesWorld) { w.outbox.deliveries = w.outbox.deliveries[1:] }, []string{"deliveries"}},
		"a pending delivery":                        {func(w *salesWorld) { w.outbox.deliveries[0].Status = "pending" }, []string{"deliveries"}},
		"a dead-lettered delivery":                  {func(w *salesWorld) { w.outbox.deliveries[0].Status = "dead_lettered" }, []string{"deliveries"}},
		"two deliveries of one event":               {func(w *salesWorld) { w.outbox.deliveries = append(w.outbox.deliveries, w.outbox.deliveries[0]) }, []string{"deliveries"}},
		"a delivery of an unknown event":            {func(w *salesWorld) { w.addDelivery(followsAll, newID(w.now)) }, []string{"deliveries"}},
		"a delivery without a subscription":         {func(w *salesWorld) { w.addDelivery(followsSome, w.outbox.events[4].ID) }, []string{"deliveries"}},
		"a lost send that was not repeated":         {func(w *salesWorld) { w.history.arrivals = w.history.arrivals[:len(w.history.arrivals)-1] }, []string{"lost sends not repeated"}},
		"a lost send whose repetition was lost too": {func(w *salesWorld) { w.history.arrivals[len(w.history.arrivals)-1].SenderKilled = true }, []string{"lost sends not repeated"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := goodSalesWorld()
			tc.tamper(w)
			var got []string
			for _, f := range checkSales(w.history, w.outbox).violations() {
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

// repeatArrival adds a copy of an endpoint's last arrival.
func (w *salesWorld) repeatArrival(endpoint int) *arrival {
	w.history.arrivals = append(w.history.arrivals, *w.lastArrival(endpoint))
	return &w.history.arrivals[len(w.history.arrivals)-1]
}

// addDelivery adds a delivery.
func (w *salesWorld) addDelivery(endpoint int, event uuid.UUID) {
	e := w.history.endpoints[endpoint]
	w.outbox.deliveries = append(w.outbox.deliveries, deliveryRow{WorkspaceID: e.workspace, EndpointID: e.id, EventID: event, Status: "delivered"})
}

// removeEvent removes an endpoint's last event with its deliveries and arrivals.
func (w *salesWorld) removeEvent(endpoint int) {
	id, _ := affiliate.ParseWireID(w.lastArrival(endpoint).ID)
	w.removeArrival(endpoint)
	w.outbox.events = slices.DeleteFunc(w.outbox.events, func(e eventRow) bool { return e.ID == id.UUID })
	w.outbox.deliveries = slices.DeleteFunc(w.outbox.deliveries, func(d deliveryRow) bool { return d.EventID == id.UUID })
}

// TestReceiver_FindsForgeriesAndHoldsResponses checks that the receiver finds a changed
// body, and that hold delays responses until release.
func TestReceiver_FindsForgeriesAndHoldsResponses(t *testing.T) {
	r, err := startReceiver(t.Context(), filepath.Join(t.TempDir(), authorityName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stop() })
	if err := r.addEndpoint(endpoint{subscriptions: []string{"*"}}, "whsec_"+testKey("w")); err != nil {
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
			t.Errorf("status %d", answer.Code)
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
	if len(got) != 4 || got[0].Forged != "" || got[0].External != "a" || got[1].Forged == "" || got[2].Endpoint != -1 || got[0].SenderKilled || !got[3].SenderKilled {
		t.Errorf("%+v", got)
	}
}
