package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// conversionCreated is the type of the event that is published once for each conversion.
const conversionCreated = string(affiliate.EventConversionCreated)

// salesHistory contains the reports of the sellers and the webhooks that the endpoints
// received.
type salesHistory struct {
	sales     []saleAttempt
	targets   []target
	endpoints []endpoint
	arrivals  []arrival
}

// outbox contains the conversions, events and deliveries in the database.
type outbox struct {
	conversions []conversionRow
	events      []eventRow
	deliveries  []deliveryRow
}

type conversionRow struct {
	WorkspaceID           uuid.UUID
	ID                    uuid.UUID
	ExternalTransactionID string
	AmountCents           int64
	ParticipantID         *uuid.UUID
}

type eventRow struct {
	WorkspaceID uuid.UUID
	ID          uuid.UUID
	Type        string
	Body        []byte
}

type deliveryRow struct {
	WorkspaceID uuid.UUID
	EndpointID  uuid.UUID
	EventID     uuid.UUID
	Status      string
}

// salesVerdict is the result of the comparison of salesHistory and outbox.
type salesVerdict struct {
	reported, attempts int
	outcomes           [outcomeCount]int
	// repeated counts the reports that were acknowledged with status 409.
	repeated, conversions int
	// repetitions counts the arrivals of an event that the endpoint had already received.
	// senderKilled counts the arrivals for which the core was killed before it got the
	// response.
	events, deliveries, arrivals, repetitions, senderKilled int

	// The following fields contain the violations. Each entry describes one violation.
	missing           []string // a sale was acknowledged but not stored
	duplicated        []string // a sale was stored more than once
	unexplained       []string // a conversion was stored without a report
	mismatched        []string // a conversion differs from the report
	unacknowledged    []string // a sale was never acknowledged
	wrong             []string // a valid report got a response that it must never get
	missingEvents     []string // an endpoint did not receive an event that is in the database, or received no event for a sale
	duplicatedEvents  []string // a sale arrived in two events
	unexplainedEvents []string // an arrival is not an event for the endpoint
	changedEvents     []string // the body differs from the stored body
	forgedEvents      []string // the signature is not valid
	wrongDeliveries   []string // an event does not have exactly one delivery to an endpoint, with the status delivered
	notRepeated       []string // a send without a response was not repeated
}

// violations returns the violations, grouped by kind. The result does not contain kinds
// without violations.
func (v *salesVerdict) violations() []finding {
	return slices.DeleteFunc([]finding{
		{"conversions missing", v.missing},
		{"conversions duplicated", v.duplicated},
		{"conversions unexplained", v.unexplained},
		{"conversions mismatched", v.mismatched},
		{"conversions unacknowledged", v.unacknowledged},
		{"wrong responses to conversions", v.wrong},
		{"events missing", v.missingEvents},
		{"events duplicated", v.duplicatedEvents},
		{"events unexplained", v.unexplainedEvents},
		{"events changed", v.changedEvents},
		{"events forged", v.forgedEvents},
		{"deliveries", v.wrongDeliveries},
		{"lost sends not repeated", v.notRepeated},
	}, func(f finding) bool { return len(f.lines) == 0 })
}

// sale is the state of one sale: its reports in the history and its rows.
type sale struct {
	last saleAttempt
	// acknowledged means that the sale must be stored. maybeStored means that it may be
	// stored.
	acknowledged, maybeStored bool
	conversion                uuid.UUID // the id in the response
	rows                      int
}

// saleKey identifies a sale. Each merchant numbers its own sales.
type saleKey struct {
	workspace uuid.UUID
	external  string
}

// eventAtEndpoint is the combination of an event and an endpoint.
type eventAtEndpoint struct {
	endpoint int
	event    uuid.UUID
}

// checkSales compares the history with the database. It reads nothing except its
// arguments.
func checkSales(h salesHistory, t outbox) *salesVerdict {
	v := &salesVerdict{
		attempts: len(h.sales), conversions: len(t.conversions), events: len(t.events), deliveries: len(t.deliveries), arrivals: len(h.arrivals),
	}
	sold := v.readSales(h)
	v.checkConversions(h, t, sold)
	received := v.checkArrivals(h, t)
	v.checkEvents(h, t, received)
	v.checkSaleEvents(h, sold)
	return v
}

func (v *salesVerdict) readSales(h salesHistory) map[saleKey]*sale {
	sold := make(map[saleKey]*sale)
	for _, a := range h.sales {
		v.outcomes[a.Outcome]++
		key := saleKey{h.targets[a.Target].workspace, a.External}
		s := sold[key]
		if s == nil {
			s = &sale{}
			sold[key] = s
		}
		s.last = a
		switch {
		case a.Outcome == unexpected:
			v.wrong = append(v.wrong, describeSale(a))
		case a.Outcome == acknowledged && a.ResponseID == uuid.Nil && !s.maybeStored:
			v.wrong = append(v.wrong, "409 for a first report: "+describeSale(a))
		case a.Outcome == acknowledged && a.ResponseID != uuid.Nil && s.acknowledged:
			v.wrong = append(v.wrong, "201 for the second time: "+describeSale(a))
		}
		switch a.Outcome {
		case acknowledged:
			if s.acknowledged, s.maybeStored = true, true; a.ResponseID == uuid.Nil {
				v.repeated++
			} else {
				s.conversion = a.ResponseID
			}
		case refused, noResponse, unexpected:
			s.maybeStored = true
		default:
		}
	}
	v.reported = len(sold)
	for _, key := range sortedSales(sold) {
		if s := sold[key]; !s.acknowledged && s.last.Outcome != unexpected {
			v.unacknowledged = append(v.unacknowledged, describeSale(s.last))
		}
	}
	return sold
}

func (v *salesVerdict) checkConversions(h salesHistory, t outbox, sold map[saleKey]*sale) {
	for _, row := range t.conversions {
		s := sold[saleKey{row.WorkspaceID, row.ExternalTransactionID}]
		if s == nil || !s.maybeStored {
			v.unexplained = append(v.unexplained, fmt.Sprintf("%s, %s: no report", row.ID, row.ExternalTransactionID))
			continue
		}
		s.rows++
		a := s.last
		participant := h.targets[a.Target].participant
		switch {
		case s.conversion != uuid.Nil && s.conversion != row.ID:
			v.mismatched = append(v.mismatched, fmt.Sprintf("stored as %s, but the response was %s: %s", row.ID, s.conversion, describeSale(a)))
		case row.AmountCents != a.Amount:
			v.mismatched = append(v.mismatched, fmt.Sprintf("%s: %d cents: %s", row.ID, row.AmountCents, describeSale(a)))
		// If the click is not stored yet, the conversion has no participant yet.
		case row.ParticipantID == nil && a.Click == uuid.Nil, row.ParticipantID != nil && *row.ParticipantID != participant:
			v.mismatched = append(v.mismatched, fmt.Sprintf("%s has participant %v instead of %s: %s", row.ID, row.ParticipantID, participant, describeSale(a)))
		}
	}
	for _, key := range sortedSales(sold) {
		switch s := sold[key]; {
		case s.rows > 1:
			v.duplicated = append(v.duplicated, fmt.Sprintf("%d rows: %s", s.rows, describeSale(s.last)))
		case s.rows == 0 && s.acknowledged:
			v.missing = append(v.missing, describeSale(s.last))
		}
	}
}

// checkArrivals checks each request that the receiver has received. The result contains
// each event together with the endpoint that received it.
func (v *salesVerdict) checkArrivals(h salesHistory, t outbox) map[eventAtEndpoint]bool {
	type event struct {
		*eventRow
		body [sha256.Size]byte
	}
	events := make(map[uuid.UUID]event, len(t.events))
	for i := range t.events {
		events[t.events[i].ID] = event{&t.events[i], sha256.Sum256(t.events[i].Body)}
	}
	received := make(map[eventAtEndpoint]bool)
	// lost contains the webhooks that the service must send again, because the core was
	// killed before it got the response.
	lost := make(map[eventAtEndpoint]arrival)
	for _, a := range h.arrivals {
		if a.Forged != "" {
			v.forgedEvents = append(v.forgedEvents, describeArrival(a)+": "+a.Forged)
		}
		id, ok := affiliate.ParseWireID(a.ID)
		stored, known := events[id.UUID]
		if !ok || !known || a.Endpoint < 0 || stored.WorkspaceID != h.endpoints[a.Endpoint].workspace || !h.endpoints[a.Endpoint].subscribesTo(stored.Type) {
			v.unexplainedEvents = append(v.unexplainedEvents, describeArrival(a))
			continue
		}
		if a.Body != stored.body {
			v.changedEvents = append(v.changedEvents, describeArrival(a))
		}
		at := eventAtEndpoint{a.Endpoint, id.UUID}
		if received[at] {
			v.repetitions++
		}
		received[at] = true
		delete(lost, at)
		if a.SenderKilled {
			v.senderKilled++
			lost[at] = a
		}
	}
	for _, a := range lost {
		v.notRepeated = append(v.notRepeated, describeArrival(a))
	}
	slices.Sort(v.notRepeated)
	return received
}

// checkEvents checks each event in the database. Each endpoint that subscribes to the
// event must have exactly one delivery of it and must have received it.
func (v *salesVerdict) checkEvents(h salesHistory, t outbox, received map[eventAtEndpoint]bool) {
	type key struct{ endpoint, event uuid.UUID }
	statuses := make(map[key][]string, len(t.deliveries))
	for _, d := range t.deliveries {
		k := key{d.EndpointID, d.EventID}
		statuses[k] = append(statuses[k], d.Status)
	}
	for i := range t.events {
		event := &t.events[i]
		for n := range h.endpoints {
			e := &h.endpoints[n]
			if e.workspace != event.WorkspaceID || !e.subscribesTo(event.Type) {
				continue
			}
			what := fmt.Sprintf("%s %s at endpoint %d", event.Type, event.ID, n)
			if !received[eventAtEndpoint{n, event.ID}] {
				v.missingEvents = append(v.missingEvents, what)
			}
			k := key{e.id, event.ID}
			if found := statuses[k]; !slices.Equal(found, []string{string(webhook.DeliveryDelivered)}) {
				v.wrongDeliveries = append(v.wrongDeliveries, fmt.Sprintf("%s: %q", what, found))
			}
			delete(statuses, k)
		}
	}
	for k, found := range statuses {
		v.wrongDeliveries = append(v.wrongDeliveries, fmt.Sprintf("event %s at endpoint %s, which does not subscribe to it: %q", k.event, k.endpoint, found))
	}
	slices.Sort(v.wrongDeliveries)
}

// checkSaleEvents checks that each acknowledged sale has led to an event at each
// endpoint. It compares only the history and the arrivals, so it also finds events that
// are missing in the database.
func (v *salesVerdict) checkSaleEvents(h salesHistory, sold map[saleKey]*sale) {
	type saleAt struct {
		endpoint int
		external string
	}
	ids := make(map[saleAt]map[string]bool)
	for _, a := range h.arrivals {
		if a.Type != conversionCreated {
			continue
		}
		at := saleAt{a.Endpoint, a.External}
		if ids[at] == nil {
			ids[at] = make(map[string]bool)
		}
		ids[at][a.ID] = true
	}
	for _, key := range sortedSales(sold) {
		s := sold[key]
		for n := range h.endpoints {
			if h.endpoints[n].workspace != key.workspace || !h.endpoints[n].subscribesTo(conversionCreated) {
				continue
			}
			switch got := ids[saleAt{n, key.external}]; {
			case len(got) == 0 && s.acknowledged:
				v.missingEvents = append(v.missingEvents, fmt.Sprintf("endpoint %d did not receive the event: %s", n, describeSale(s.last)))
			case len(got) > 1:
				v.duplicatedEvents = append(v.duplicatedEvents, fmt.Sprintf("endpoint %d received %d events with different ids: %s", n, len(got), describeSale(s.last)))
			}
		}
	}
}

func describeSale(a saleAttempt) string {
	return fmt.Sprintf("%s to target %d at %s, %s after %d ms, status %d %s", a.External, a.Target,
		time.UnixMilli(a.Start).UTC().Format("15:04:05.000"), outcomeNames[a.Outcome], a.End-a.Start, a.Status, a.Error)
}

func describeArrival(a arrival) string {
	return fmt.Sprintf("%s, %s, attempt %s at endpoint %d at %s", a.ID, a.Type, a.Attempt, a.Endpoint, time.UnixMilli(a.At).UTC().Format("15:04:05.000"))
}

func sortedSales(sold map[saleKey]*sale) []saleKey {
	return slices.SortedFunc(maps.Keys(sold), func(a, b saleKey) int {
		if n := slices.Compare(a.workspace[:], b.workspace[:]); n != 0 {
			return n
		}
		if a.external < b.external {
			return -1
		}
		return 1
	})
}
