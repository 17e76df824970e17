package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	merchantStream = "/api/v1/notifications/stream"
	partnerStream  = "/api/v1/partner/notifications/stream"
)

// streamEvent is a server-sent event.
type streamEvent struct {
	id, name string
	data     object
}

func (e streamEvent) notification() object {
	n, _ := e.data["notification"].(object)
	return n
}

// eventStream is an open stream of notifications. events is closed when the stream ends.
type eventStream struct {
	events chan streamEvent
	close  func()
}

// openStream opens a stream. The stream ends with the test.
func (c apiClient) openStream(t *testing.T, path string) *eventStream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.sys.api+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Forwarded-Proto", "https")
	maps.Copy(request.Header, c.header)
	client := &http.Client{Transport: c.sys.http.Transport} // no timeout
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = answer.Body.Close() })
	if got := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("the stream has status %d and content type %q", answer.StatusCode, got)
	}
	if answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("the stream has the headers %v, want no-store and no buffering", answer.Header)
	}
	s := &eventStream{events: make(chan streamEvent, 10_000), close: cancel}
	go func() {
		defer close(s.events)
		var event streamEvent
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				event.id = value
			case "event":
				event.name = value
			case "data":
				_ = json.Unmarshal([]byte(value), &event.data)
			case "":
				if event.name != "" {
					s.events <- event
				}
				event = streamEvent{}
			}
		}
	}()
	return s
}

// next returns the next event, which must have the given name.
func (s *eventStream) next(t *testing.T, name string) streamEvent {
	t.Helper()
	select {
	case event, open := <-s.events:
		if !open {
			t.Fatalf("the stream has ended, want the event %s", name)
		}
		if event.name != name || event.data["api_version"] != "v1" {
			t.Fatalf("got the event %v, want %s", event, name)
		}
		return event
	case <-time.After(waitTimeout):
		t.Fatalf("no event %s", name)
	}
	return streamEvent{}
}

// wantEnd waits until the stream has ended without a further event.
func (s *eventStream) wantEnd(t *testing.T) {
	t.Helper()
	select {
	case event, open := <-s.events:
		if open {
			t.Fatalf("got the event %v, want the end of the stream", event)
		}
	case <-time.After(waitTimeout):
		t.Fatal("the stream has not ended")
	}
}

// applyAsNewPartner lets a new partner apply to the programme and returns the partner.
func (f fixture) applyAsNewPartner(t *testing.T) account {
	t.Helper()
	partner := f.sys.newPartner(t).inMode(f.partner.header.Get("X-Mode"))
	partner.post(t, f.applyPath(), object{}).wantStatus(http.StatusCreated)
	return partner
}

func TestNotificationStream_SendsWhatTheFeedContains(t *testing.T) {
	sys := start(t, setup{})
	f := sys.newFixture(t, "live", object{})
	stream := f.merchant.openStream(t, merchantStream)
	unread := f.merchant.get(t, "/api/v1/notifications/unread-count").wantStatus(http.StatusOK).number("count")
	if got := stream.next(t, "ready").data["unreadCount"]; got != float64(unread) {
		t.Errorf("ready has the unread count %v, want %d", got, unread)
	}

	f.applyAsNewPartner(t)
	event := stream.next(t, "notification")
	newest := f.merchant.get(t, "/api/v1/notifications?pageSize=1").wantStatus(http.StatusOK)
	if want := newest.value("data.0"); fmt.Sprint(event.notification()) != fmt.Sprint(want) {
		t.Errorf("the stream sent\n%v\nand the feed contains\n%v", event.notification(), want)
	}
	if event.data["type"] != "notification.created" || event.data["unreadCount"] != float64(unread+1) {
		t.Errorf("the event has the data %v, want the unread count %d", event.data, unread+1)
	}

	f.merchant.post(t, "/api/v1/notifications/read-all", object{}).wantStatus(http.StatusOK)
	if got := stream.next(t, "unread_count").data["unreadCount"]; got != float64(0) {
		t.Errorf("after read-all the unread count is %v", got)
	}
	// The stream of live mode does not show test mode.
	testMode := sys.newFixtureFor(t, f.merchant.inMode("test"), f.partner.inMode("test"), object{})
	testMode.applyAsNewPartner(t)
	f.applyAsNewPartner(t)
	for mode := any(nil); mode != "live"; { // a notification about a new key belongs to both modes
		if mode = stream.next(t, "notification").notification()["mode"]; mode == "test" {
			t.Error("the stream of live mode sent a notification of test mode")
		}
	}
}

func TestNotificationStream_OfPartner(t *testing.T) {
	sys := start(t, setup{})
	f := sys.newFixture(t, "live", object{})
	stream := f.partner.openStream(t, partnerStream)
	stream.next(t, "ready")
	f.earnCommission(t)
	if got := stream.next(t, "notification").notification()["type"]; got != "commission.created" {
		t.Errorf("the partner's stream sent %v, want commission.created", got)
	}
}

func TestNotificationStream_ContinuesAfterLastEvent(t *testing.T) {
	sys := start(t, setup{})
	f := sys.newFixture(t, "live", object{})
	stream := f.merchant.openStream(t, merchantStream)
	ready := stream.next(t, "ready")
	stream.close()

	f.applyAsNewPartner(t)
	f.applyAsNewPartner(t)
	stream = f.merchant.withHeader("Last-Event-ID", ready.id).openStream(t, merchantStream)
	if got := stream.next(t, "ready").id; got != ready.id {
		t.Errorf("ready of the continued stream has the id %q, want %q", got, ready.id)
	}
	first, second := stream.next(t, "notification"), stream.next(t, "notification")
	stream.close()
	if first.id == second.id {
		t.Errorf("two notifications have the id %s", first.id)
	}
	stream = f.merchant.openStream(t, merchantStream+"?lastEventId="+first.id)
	stream.next(t, "ready")
	if got := stream.next(t, "notification"); got.id != second.id || got.notification()["id"] != second.notification()["id"] {
		t.Errorf("the stream continued with %v, want %v", got, second)
	}
	stream = f.merchant.openStream(t, merchantStream+"?lastEventId=999999")
	stream.next(t, "ready")
	stream.next(t, "resync")
	f.merchant.get(t, merchantStream+"?lastEventId=x").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "lastEventId")
}

func TestNotificationStream_OpensWithTicket(t *testing.T) {
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", object{})
	ticket := f.merchant.post(t, "/api/v1/notifications/stream-ticket", nil).wantStatus(http.StatusCreated).text("ticket")
	browser := sys.client() // no credential and no mode
	path := merchantStream + "?ticket=" + ticket
	first := browser.openStream(t, path)
	first.next(t, "ready")
	f.applyAsNewPartner(t)
	if got := first.next(t, "notification"); got.notification()["mode"] != "test" {
		t.Errorf("the stream sent %v, want a notification of the ticket's mode", got)
	}
	second := browser.openStream(t, path)
	second.next(t, "ready")
	first.wantEnd(t)
	sys.clock.advance(5 * time.Minute)
	third := browser.openStream(t, path)
	third.next(t, "ready")
	second.wantEnd(t)

	unused := f.merchant.post(t, "/api/v1/notifications/stream-ticket", nil).wantStatus(http.StatusCreated).text("ticket")
	sys.clock.advance(time.Minute)
	browser.get(t, merchantStream+"?ticket="+unused).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	browser.get(t, merchantStream+"?ticket=tkt_unknown").wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	browser.get(t, partnerStream+"?ticket="+ticket).wantError(http.StatusForbidden, "FORBIDDEN")
	sys.clock.advance(10 * time.Minute)
	third.next(t, "reauth")
	third.wantEnd(t)
	browser.get(t, path).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
}

func TestNotificationStream_EndsWithPermission(t *testing.T) {
	sys := start(t, setup{})
	for name, end := range map[string]func(t *testing.T, merchant account){
		"logout": func(t *testing.T, merchant account) {
			t.Helper()
			merchant.post(t, "/api/v1/auth/logout", object{"refreshToken": merchant.refresh}).wantStatus(http.StatusNoContent)
		},
		"expiry": func(_ *testing.T, _ account) { sys.clock.advance(15 * time.Minute) },
		"role": func(t *testing.T, merchant account) {
			t.Helper()
			merchant.setRole(t, "viewer")
		},
	} {
		t.Run(name, func(t *testing.T) {
			merchant := sys.newMerchant(t)
			stream := merchant.openStream(t, merchantStream)
			stream.next(t, "ready")
			end(t, merchant)
			stream.next(t, "reauth")
			stream.wantEnd(t)
		})
	}
}

func TestNotificationStream_AtMostFivePerUser(t *testing.T) {
	sys := start(t, setup{})
	merchant := sys.newMerchant(t)
	var streams []*eventStream
	for range 5 {
		streams = append(streams, merchant.openStream(t, merchantStream))
		streams[len(streams)-1].next(t, "ready")
	}
	got := merchant.get(t, merchantStream).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if got.retryAfter() != 5*time.Second {
		t.Errorf("Retry-After is %v, want 5 s", got.retryAfter())
	}
	streams[0].close()
	eventually(t, waitTimeout, "a closed stream does not count", func() error {
		if open := sys.count(t, "select count(*) from notification_streams"); open != 4 {
			return fmt.Errorf("%d streams count", open)
		}
		return nil
	})
	merchant.openStream(t, merchantStream).next(t, "ready")
}

func TestNotificationStream_SendsWhatOtherProcessesCommit(t *testing.T) {
	shared := setup{database: pgtest.New(t), redis: redistest.New(t)}
	first, second := start(t, shared), start(t, shared)
	f := first.newFixture(t, "live", object{})
	elsewhere := f.merchant
	elsewhere.sys = second
	stream := elsewhere.openStream(t, merchantStream)
	stream.next(t, "ready")
	f.applyAsNewPartner(t)
	stream.next(t, "notification")
}
