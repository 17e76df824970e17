package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// conversionCreated tells of every conversion, once.
const conversionCreated = string(affiliate.EventConversionCreated)

// told is what shops reported and what their endpoints got.
type told struct {
	sales     []saleAttempt
	targets   []target
	endpoints []endpoint
	arrivals  []arrival
}

// outbox is what the database holds of it.
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

// toldVerdict is the comparison of the two.
type toldVerdict struct {
	reported, attempts int
	outcomes           [outcomes]int
	// repeated counts the sales that a 409 has acknowledged.
	repeated, conversions int
	// repetitions are arrivals beyond the first of an event at an endpoint.
	events, deliveries, arrivals, repetitions, unheard int

	// What must not be. Each entry is a line for people.
	missing     []string // sales acknowledged, and nowhere
	doubled     []string // sales stored more than once
	invented    []string // conversions that nobody reported
	mistaken    []string // conversions that are not what was reported
	open        []string // sales that nobody was told the end of
	wrong       []string // answers that a good report never gets
	unarrived   []string // events and sales of which an endpoint was not told
	twice       []string // sales that were told under two ids
	unknown     []string // arrivals that are no event for the endpoint
	changed     []string // bodies that are not as stored
	forged      []string // arrivals that are not signed as they should be
	undelivered []string // deliveries that are not one for each event and endpoint, all delivered
	unrepeated  []string // sends whose answer nobody heard, and that did not come again
}

// violations are all that must not be.
func (v *toldVerdict) violations() []finding {
	return slices.DeleteFunc([]finding{
		{"conversions missing", v.missing},
		{"conversions doubled", v.doubled},
		{"conversions invented", v.invented},
		{"conversions mistaken", v.mistaken},
		{"conversions left open", v.open},
		{"wrong answers to conversions", v.wrong},
		{"events missing", v.unarrived},
		{"events doubled", v.twice},
		{"events invented", v.unknown},
		{"events changed", v.changed},
		{"events forged", v.forged},
		{"deliveries", v.undelivered},
		{"lost sends not repeated", v.unrepeated},
	}, func(f finding) bool { return len(f.lines) == 0 })
}

// sale is what the history says about one.
type sale struct {
	last saleAttempt
	// acknowledged: it is stored. maybe: it may be.
	acknowledged, maybe bool
	conversion          uuid.UUID // as answered
	rows                int
}

// saleKey is unique: a merchant's own numbers.
type saleKey struct {
	workspace uuid.UUID
	external  string
}

// place is an event at an endpoint.
type place struct {
	endpoint int
	event    uuid.UUID
}

// judgeTold compares. It reads nothing but its arguments.
func judgeTold(h told, t outbox) *toldVerdict {
	v := &toldVerdict{
		attempts: len(h.sales), conversions: len(t.conversions), events: len(t.events), deliveries: len(t.deliveries), arrivals: len(h.arrivals),
	}
	sold := v.readSales(h)
	v.judgeConversions(h, t, sold)
	there := v.judgeArrivals(h, t)
	v.judgeEvents(h, t, there)
	v.judgeSalesTold(h, sold)
	return v
}

func (v *toldVerdict) readSales(h told) map[saleKey]*sale {
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
		case a.Outcome == wrong:
			v.wrong = append(v.wrong, describeSale(a))
		case a.Outcome == acknowledged && a.Answered == uuid.Nil && !s.maybe:
			v.wrong = append(v.wrong, "a duplicate of nothing: "+describeSale(a))
		case a.Outcome == acknowledged && a.Answered != uuid.Nil && s.acknowledged:
			v.wrong = append(v.wrong, "made twice: "+describeSale(a))
		}
		switch a.Outcome {
		case acknowledged:
			if s.acknowledged, s.maybe = true, true; a.Answered == uuid.Nil {
				v.repeated++
			} else {
				s.conversion = a.Answered
			}
		case refused, lost, wrong:
			s.maybe = true
		default:
		}
	}
	v.reported = len(sold)
	for _, key := range sortedSales(sold) {
		if s := sold[key]; !s.acknowledged && s.last.Outcome != wrong {
			v.open = append(v.open, describeSale(s.last))
		}
	}
	return sold
}

func (v *toldVerdict) judgeConversions(h told, t outbox, sold map[saleKey]*sale) {
	for _, row := range t.conversions {
		s := sold[saleKey{row.WorkspaceID, row.ExternalTransactionID}]
		if s == nil || !s.maybe {
			v.invented = append(v.invented, fmt.Sprintf("%s, %s: nobody reported it", row.ID, row.ExternalTransactionID))
			continue
		}
		s.rows++
		a := s.last
		participant := h.targets[a.Target].participant
		switch {
		case s.conversion != uuid.Nil && s.conversion != row.ID:
			v.mistaken = append(v.mistaken, fmt.Sprintf("%s, and %s was answered: %s", row.ID, s.conversion, describeSale(a)))
		case row.AmountCents != a.Amount:
			v.mistaken = append(v.mistaken, fmt.Sprintf("%s: %d cents: %s", row.ID, row.AmountCents, describeSale(a)))
		// A click that came too late is nobody's for the time being.
		case row.ParticipantID == nil && a.Click == uuid.Nil, row.ParticipantID != nil && *row.ParticipantID != participant:
			v.mistaken = append(v.mistaken, fmt.Sprintf("%s is of participant %v, not of %s: %s", row.ID, row.ParticipantID, participant, describeSale(a)))
		}
	}
	for _, key := range sortedSales(sold) {
		switch s := sold[key]; {
		case s.rows > 1:
			v.doubled = append(v.doubled, fmt.Sprintf("%d rows: %s", s.rows, describeSale(s.last)))
		case s.rows == 0 && s.acknowledged:
			v.missing = append(v.missing, describeSale(s.last))
		}
	}
}

// judgeArrivals looks at each request of a receiver, and says what came where.
func (v *toldVerdict) judgeArrivals(h told, t outbox) map[place]bool {
	type event struct {
		*eventRow
		body [sha256.Size]byte
	}
	events := make(map[uuid.UUID]event, len(t.events))
	for i := range t.events {
		events[t.events[i].ID] = event{&t.events[i], sha256.Sum256(t.events[i].Body)}
	}
	there := make(map[place]bool)
	// unheard are the sends that still have to come again.
	unheard := make(map[place]arrival)
	for _, a := range h.arrivals {
		if a.Forged != "" {
			v.forged = append(v.forged, describeArrival(a)+": "+a.Forged)
		}
		id, ok := affiliate.ParseWireID(a.ID)
		stored, known := events[id.UUID]
		if !ok || !known || a.Endpoint < 0 || stored.WorkspaceID != h.endpoints[a.Endpoint].workspace || !h.endpoints[a.Endpoint].follow(stored.Type) {
			v.unknown = append(v.unknown, describeArrival(a))
			continue
		}
		if a.Body != stored.body {
			v.changed = append(v.changed, describeArrival(a))
		}
		at := place{a.Endpoint, id.UUID}
		if there[at] {
			v.repetitions++
		}
		there[at] = true
		delete(unheard, at)
		if a.Unheard {
			v.unheard++
			unheard[at] = a
		}
	}
	for _, a := range unheard {
		v.unrepeated = append(v.unrepeated, describeArrival(a))
	}
	slices.Sort(v.unrepeated)
	return there
}

// judgeEvents looks at each event from the database's side: it has one delivery to
// each endpoint that follows it, which has arrived.
func (v *toldVerdict) judgeEvents(h told, t outbox, there map[place]bool) {
	type key struct{ endpoint, event uuid.UUID }
	statuses := make(map[key][]string, len(t.deliveries))
	for _, d := range t.deliveries {
		k := key{d.EndpointID, d.EventID}
		statuses[k] = append(statuses[k], d.Status)
	}
	for i := range t.events {
		event := &t.events[i]
		for n := range h.endpoints {
			to := &h.endpoints[n]
			if to.workspace != event.WorkspaceID || !to.follow(event.Type) {
				continue
			}
			what := fmt.Sprintf("%s %s at endpoint %d", event.Type, event.ID, n)
			if !there[place{n, event.ID}] {
				v.unarrived = append(v.unarrived, what)
			}
			k := key{to.id, event.ID}
			if found := statuses[k]; !slices.Equal(found, []string{string(affiliate.DeliveryDelivered)}) {
				v.undelivered = append(v.undelivered, fmt.Sprintf("%s: %q", what, found))
			}
			delete(statuses, k)
		}
	}
	for k, found := range statuses {
		v.undelivered = append(v.undelivered, fmt.Sprintf("event %s at endpoint %s, which is not for it: %q", k.event, k.endpoint, found))
	}
	slices.Sort(v.undelivered)
}

// judgeSalesTold follows sales to the endpoints without a look at the database.
func (v *toldVerdict) judgeSalesTold(h told, sold map[saleKey]*sale) {
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
			if h.endpoints[n].workspace != key.workspace || !h.endpoints[n].follow(conversionCreated) {
				continue
			}
			switch got := ids[saleAt{n, key.external}]; {
			case len(got) == 0 && s.acknowledged:
				v.unarrived = append(v.unarrived, fmt.Sprintf("endpoint %d was not told: %s", n, describeSale(s.last)))
			case len(got) > 1:
				v.twice = append(v.twice, fmt.Sprintf("endpoint %d was told under %d ids: %s", n, len(got), describeSale(s.last)))
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
