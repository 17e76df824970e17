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

// salesFixture contains a history of sales and webhooks, and an outbox that matches the
// history. Tests change the history or the outbox, so that they no longer match.
type salesFixture struct {
	history salesHistory
	outbox  outbox
	now     time.Time
}

// These constants are the indexes of the reports in newSalesFixture.
const (
	soldOnce = iota
	soldRefused
	soldRepeated
	soldLost
	soldAfterLoss
	soldInOtherWorkspace
)

// These constants are the indexes of the endpoints in newSalesFixture.
const (
	allEvents = iota
	someEvents
	otherWorkspace
)

func newSalesFixture() *salesFixture {
	f := &salesFixture{now: time.Now().Truncate(time.Millisecond)}
	f.history.targets = []target{
		{workspace: uuid.New(), participant: newID(f.now)},
		{workspace: uuid.New(), participant: newID(f.now), merchant: 1},
	}
	first, second := f.history.targets[0].workspace, f.history.targets[1].workspace
	f.history.endpoints = []endpoint{
		allEvents:      {id: uuid.New(), workspace: first, subscriptions: []string{"*"}},
		someEvents:     {id: uuid.New(), workspace: first, subscriptions: []string{conversionCreated, "commission.*"}},
		otherWorkspace: {id: uuid.New(), workspace: second, subscriptions: []string{"*"}, merchant: 1},
	}
	sold := newID(f.now)
	f.history.sales = []saleAttempt{
		soldOnce:             {External: "a", Amount: 500, Outcome: acknowledged, Status: 201, ResponseID: sold},
		soldRefused:          {External: "b", Amount: 600, Outcome: refused, Status: 503},
		soldRepeated:         {External: "b", Amount: 600, Outcome: acknowledged, Status: 409},
		soldLost:             {External: "c", Amount: 700, Click: newID(f.now), Outcome: noResponse},
		soldAfterLoss:        {External: "c", Amount: 700, Click: newID(f.now), Outcome: acknowledged, Status: 201},
		soldInOtherWorkspace: {External: "a", Target: 1, Amount: 800, Outcome: acknowledged, Status: 201},
	}
	f.history.sales[soldAfterLoss].ResponseID, f.history.sales[soldInOtherWorkspace].ResponseID = newID(f.now), newID(f.now)
	f.addConversion(soldOnce, sold)
	f.addConversion(soldRepeated, newID(f.now))
	f.addConversion(soldAfterLoss, f.history.sales[soldAfterLoss].ResponseID)
	f.addConversion(soldInOtherWorkspace, f.history.sales[soldInOtherWorkspace].ResponseID)
	f.outbox.conversions[2].ParticipantID = nil // the click of this conversion is not stored yet
	f.addEvent(first, "link.created", "")
	f.addEvent(first, "commission.created", "")
	// The core was killed while it sent an event, and the event was sent again.
	f.history.arrivals[0].SenderKilled = true
	f.history.arrivals = append(f.history.arrivals, f.history.arrivals[0])
	f.history.arrivals[len(f.history.arrivals)-1].SenderKilled = false
	return f
}

// addConversion stores a conversion and publishes its event.
func (f *salesFixture) addConversion(attempt int, id uuid.UUID) {
	a := f.history.sales[attempt]
	target := f.history.targets[a.Target]
	f.outbox.conversions = append(f.outbox.conversions, conversionRow{
		WorkspaceID: target.workspace, ID: id, ExternalTransactionID: a.External, AmountCents: a.Amount, ParticipantID: &target.participant,
	})
	f.addEvent(target.workspace, conversionCreated, a.External)
}

// addEvent stores an event and its deliveries, and adds its arrivals.
func (f *salesFixture) addEvent(workspace uuid.UUID, eventType, external string) {
	id := affiliate.NewID[affiliate.EventID](f.now)
	body := []byte(id.String())
	f.outbox.events = append(f.outbox.events, eventRow{WorkspaceID: workspace, ID: id.UUID, Type: eventType, Body: body})
	for n, e := range f.history.endpoints {
		if e.workspace != workspace || n == someEvents && eventType == "link.created" {
			continue
		}
		f.outbox.deliveries = append(f.outbox.deliveries, deliveryRow{WorkspaceID: workspace, EndpointID: e.id, EventID: id.UUID, Status: "delivered"})
		f.history.arrivals = append(f.history.arrivals, arrival{
			Endpoint: n, ID: affiliate.WireID(id), Attempt: "1", Type: eventType, Body: sha256.Sum256(body), External: external,
		})
	}
}

// lastArrival returns the last arrival of an endpoint. It ignores the event that was sent
// twice.
func (f *salesFixture) lastArrival(endpoint int) *arrival {
	n := len(f.history.arrivals) - 1
	for f.history.arrivals[n].Endpoint != endpoint || f.history.arrivals[n].ID == f.history.arrivals[0].ID {
		n--
	}
	return &f.history.arrivals[n]
}

// removeArrival removes an endpoint's last arrival.
func (f *salesFixture) removeArrival(endpoint int) {
	removed := *f.lastArrival(endpoint)
	f.history.arrivals = slices.DeleteFunc(f.history.arrivals, func(a arrival) bool { return a == removed })
}

func TestCheckSales_MatchingHistoryHasNoViolations(t *testing.T) {
	f := newSalesFixture()
	v := checkSales(f.history, f.outbox)
	if found := v.violations(); len(found) > 0 {
		t.Fatalf("checkSales found violations in an outbox that matches: %+v", found)
	}
	if v.reported != 4 || v.attempts != 6 || v.repeated != 1 || v.conversions != 4 || v.events != 6 || v.deliveries != 10 ||
		v.arrivals != 11 || v.repetitions != 1 || v.senderKilled != 1 {
		t.Errorf("the counts are wrong: %+v", v)
	}
	// Two fixtures have different ids, so the history of one does not match the outbox of
	// the other.
	if v := checkSales(newSalesFixture().history, newSalesFixture().outbox); len(v.violations()) == 0 {
		t.Error("checkSales found no violation in the outbox of another history")
	}
}

// TestCheckSales_FindsViolations checks that each kind of difference is reported.
func TestCheckSales_FindsViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		tamper func(*salesFixture)
		want   []string
	}{
		"a conversion that is not stored": {func(f *salesFixture) { f.outbox.conversions = f.outbox.conversions[1:] }, []string{"conversions missing"}},
		"a conversion that was acknowledged with 409 but is not stored": {func(f *salesFixture) {
			f.outbox.conversions = slices.Delete(f.outbox.conversions, 1, 2)
		}, []string{"conversions missing"}},
		"a duplicated conversion": {func(f *salesFixture) {
			f.outbox.conversions = append(f.outbox.conversions, f.outbox.conversions[1])
		}, []string{"conversions duplicated"}},
		"a conversion without a report": {func(f *salesFixture) {
			other := f.outbox.conversions[0]
			other.ExternalTransactionID = "z"
			f.outbox.conversions = append(f.outbox.conversions, other)
		}, []string{"conversions unexplained"}},
		"a conversion of another workspace": {func(f *salesFixture) {
			f.outbox.conversions[1].WorkspaceID = f.history.targets[1].workspace
		}, []string{"conversions missing", "conversions unexplained"}},
		"a conversion of a report that was never sent": {func(f *salesFixture) {
			other := f.outbox.conversions[0]
			other.ExternalTransactionID = "d"
			f.outbox.conversions = append(f.outbox.conversions, other)
			f.history.sales = append(f.history.sales, saleAttempt{External: "d", Outcome: unsent})
		}, []string{"conversions unexplained", "conversions unacknowledged"}},
		"a conversion with another id than in the response": {func(f *salesFixture) { f.outbox.conversions[0].ID = newID(f.now) }, []string{"conversions mismatched"}},
		"a conversion of another amount":                    {func(f *salesFixture) { f.outbox.conversions[1].AmountCents++ }, []string{"conversions mismatched"}},
		"a conversion of another participant": {func(f *salesFixture) {
			f.outbox.conversions[2].ParticipantID = &f.history.targets[1].participant
		}, []string{"conversions mismatched"}},
		"a conversion that is not attributed by its promo code": {func(f *salesFixture) { f.outbox.conversions[1].ParticipantID = nil }, []string{"conversions mismatched"}},
		"a report that was never acknowledged":                  {func(f *salesFixture) { f.history.sales[soldRepeated].Outcome = refused }, []string{"conversions unacknowledged"}},
		"a response with status 500":                            {func(f *salesFixture) { f.history.sales[soldRefused].Outcome = unexpected }, []string{"wrong responses to conversions"}},
		"a 409 to the first report":                             {func(f *salesFixture) { f.history.sales[soldRefused].Outcome = unsent }, []string{"wrong responses to conversions"}},
		"a 201 after a 201":                                     {func(f *salesFixture) { f.history.sales = append(f.history.sales, f.history.sales[soldOnce]) }, []string{"wrong responses to conversions"}},
		"an event that did not arrive":                          {func(f *salesFixture) { f.removeArrival(someEvents) }, []string{"events missing"}},
		"an event that arrived at only one of two endpoints":    {func(f *salesFixture) { f.removeArrival(allEvents) }, []string{"events missing"}},
		"a conversion without an event":                         {func(f *salesFixture) { f.removeEvent(otherWorkspace) }, []string{"events missing"}},
		"a conversion in two events":                            {func(f *salesFixture) { f.addEvent(f.history.targets[1].workspace, conversionCreated, "a") }, []string{"events duplicated"}},
		"an arrival of an unknown event": {func(f *salesFixture) {
			f.repeatArrival(allEvents).ID = affiliate.WireID(affiliate.NewID[affiliate.EventID](f.now))
		}, []string{"events unexplained"}},
		"an arrival without an id":                       {func(f *salesFixture) { f.repeatArrival(allEvents).ID = "" }, []string{"events unexplained"}},
		"an arrival at an unknown endpoint":              {func(f *salesFixture) { f.repeatArrival(allEvents).Endpoint = -1 }, []string{"events unexplained"}},
		"an arrival at an endpoint of another workspace": {func(f *salesFixture) { f.repeatArrival(allEvents).Endpoint = otherWorkspace }, []string{"events unexplained"}},
		"an arrival of an event to which the endpoint does not subscribe": {func(f *salesFixture) {
			f.addEvent(f.history.targets[0].workspace, "link.created", "")
			f.repeatArrival(allEvents).Endpoint = someEvents
		}, []string{"events unexplained"}},
		"another body":                        {func(f *salesFixture) { f.lastArrival(allEvents).Body[0]++ }, []string{"events changed"}},
		"another body in a repeated send":     {func(f *salesFixture) { f.repeatArrival(allEvents).Body[0]++ }, []string{"events changed"}},
		"a bad signature":                     {func(f *salesFixture) { f.lastArrival(allEvents).Forged = "no" }, []string{"events forged"}},
		"a bad signature of an unknown event": {func(f *salesFixture) { a := f.repeatArrival(allEvents); a.ID, a.Forged = "x", "no" }, []string{"events unexplained", "events forged"}},
		"an event without a delivery":         {func(f *salesFixture) { f.outbox.deliveries = f.outbox.deliveries[1:] }, []string{"deliveries"}},
		"a pending delivery":                  {func(f *salesFixture) { f.outbox.deliveries[0].Status = "pending" }, []string{"deliveries"}},
		"a dead-lettered delivery":            {func(f *salesFixture) { f.outbox.deliveries[0].Status = "dead_lettered" }, []string{"deliveries"}},
		"two deliveries of one event":         {func(f *salesFixture) { f.outbox.deliveries = append(f.outbox.deliveries, f.outbox.deliveries[0]) }, []string{"deliveries"}},
		"a delivery of an unknown event":      {func(f *salesFixture) { f.addDelivery(allEvents, newID(f.now)) }, []string{"deliveries"}},
		"a delivery of an event to which the endpoint does not subscribe": {func(f *salesFixture) { f.addDelivery(someEvents, f.outbox.events[4].ID) }, []string{"deliveries"}},
		"a lost send that was not repeated":                               {func(f *salesFixture) { f.history.arrivals = f.history.arrivals[:len(f.history.arrivals)-1] }, []string{"lost sends not repeated"}},
		"a lost send whose repetition was lost too":                       {func(f *salesFixture) { f.history.arrivals[len(f.history.arrivals)-1].SenderKilled = true }, []string{"lost sends not repeated"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSalesFixture()
			tc.tamper(f)
			var got []string
			for _, violation := range checkSales(f.history, f.outbox).violations() {
				got = append(got, violation.name)
				if len(violation.lines) != 1 {
					t.Errorf("unexpected violation %s: %q", violation.name, violation.lines)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("checkSales found the violations %v, want %v", got, tc.want)
			}
		})
	}
}

// repeatArrival adds a copy of an endpoint's last arrival.
func (f *salesFixture) repeatArrival(endpoint int) *arrival {
	f.history.arrivals = append(f.history.arrivals, *f.lastArrival(endpoint))
	return &f.history.arrivals[len(f.history.arrivals)-1]
}

// addDelivery adds a delivery.
func (f *salesFixture) addDelivery(endpoint int, event uuid.UUID) {
	e := f.history.endpoints[endpoint]
	f.outbox.deliveries = append(f.outbox.deliveries, deliveryRow{WorkspaceID: e.workspace, EndpointID: e.id, EventID: event, Status: "delivered"})
}

// removeEvent removes an endpoint's last event with its deliveries and arrivals.
func (f *salesFixture) removeEvent(endpoint int) {
	id, _ := affiliate.ParseWireID(f.lastArrival(endpoint).ID)
	f.removeArrival(endpoint)
	f.outbox.events = slices.DeleteFunc(f.outbox.events, func(e eventRow) bool { return e.ID == id.UUID })
	f.outbox.deliveries = slices.DeleteFunc(f.outbox.deliveries, func(d deliveryRow) bool { return d.EventID == id.UUID })
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
			t.Errorf("sign the body: %v", err)
		}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(sent))
		request.Header.Set("Webhook-Id", "evt_1")
		request.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
		request.Header.Set("Webhook-Signature", signature)
		response := httptest.NewRecorder()
		if r.ServeHTTP(response, request); response.Code != http.StatusNoContent {
			t.Errorf("the receiver responds with %d, want 204", response.Code)
		}
	}
	const body = `{"type":"conversion.created","data":{"object":{"external_transaction_id":"a"}}}`
	send("/0", body, body)
	send("/0", body, body+" ")
	send("/1", body, body)
	held := r.hold()
	done := make(chan struct{})
	go func() { defer close(done); send("/0", body, body) }()
	<-held
	r.release(true)
	<-done
	_, got := r.received()
	if len(got) != 4 || got[0].Forged != "" || got[0].External != "a" || got[1].Forged == "" || got[2].Endpoint != -1 || got[0].SenderKilled || !got[3].SenderKilled {
		t.Errorf("the receiver has stored %+v; want a valid arrival, a changed body, an unknown endpoint, and an arrival whose sender was killed", got)
	}
}
