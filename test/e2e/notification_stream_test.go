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

	"github.com/tributary-hq/tributary/affiliate/account"
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

// openStream opens a stream. The stream ends with the test. Before that, openStream waits
// until all notifications are distributed, so that the new stream does not send them.
func (c apiClient) openStream(t *testing.T, path string) *eventStream {
	t.Helper()
	eventually(t, waitTimeout, "all notifications are distributed", func() error {
		if n := c.sys.count(t, "select count(*) from notification_arrivals"); n > 0 {
			return fmt.Errorf("%d arrivals wait", n)
		}
		return nil
	})
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
		if event.name == "unread_count" && name == "notification" {
			// A stream may count a notification shortly before it sends it.
			return s.next(t, name)
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

// stopTime is shorter than the time for which a stopping process waits for requests.
const stopTime = 10 * time.Second

// reauthTime is the time within which a stream ends after its permission.
const reauthTime = 5 * time.Second

// wantReauth waits until the stream has ended with the event reauth. The permission must
// have ended just before. Notifications about the end of the permission may come first.
func (s *eventStream) wantReauth(t *testing.T) {
	t.Helper()
	timeout := time.After(reauthTime)
	for {
		select {
		case event, open := <-s.events:
			if !open {
				t.Fatal("the stream has ended without reauth")
			}
			if event.name == "reauth" {
				s.wantEnd(t)
				return
			}
			if event.name != "notification" && event.name != "unread_count" {
				t.Fatalf("got the event %v, want reauth", event)
			}
		case <-timeout:
			t.Fatalf("no reauth within %v", reauthTime)
		}
	}
}

// applyAsNewPartner lets a new partner apply to the programme and returns the partner.
func (f fixture) applyAsNewPartner(t *testing.T) caller {
	t.Helper()
	partner := f.sys.newPartner(t).inMode(f.partner.header.Get("X-Mode"))
	partner.post(t, f.applyPath(), object{}).wantStatus(http.StatusCreated)
	return partner
}

func testNotificationStreamSendsWhatTheFeedContains(t *testing.T, sys *system) {
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

func testNotificationStreamOfPartner(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", object{})
	stream := f.partner.openStream(t, partnerStream)
	stream.next(t, "ready")
	f.earnCommission(t)
	if got := stream.next(t, "notification").notification()["type"]; got != "commission.created" {
		t.Errorf("the partner's stream sent %v, want commission.created", got)
	}
}

func testNotificationStreamContinuesAfterLastEvent(t *testing.T, sys *system) {
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
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", object{})
	created := f.merchant.post(t, "/api/v1/notifications/stream-ticket", nil).wantStatus(http.StatusCreated)
	ticket := created.text("ticket")
	if expires := created.instant("expiresAt"); expires.After(sys.clock.now().Add(account.AccessTokenLife)) || !expires.After(sys.clock.now()) {
		t.Errorf("the ticket expires at %v, want the expiry of the access token", expires)
	}
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
	third.wantReauth(t)
	browser.get(t, path).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
}

// testDownloadTicketWorksOnce saves CSV files as a browser does, which cannot send headers with a link.
func testDownloadTicketWorksOnce(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.reportSale(t, f.click(t), nil)
	other, browser := sys.newMerchant(t), sys.client()
	ticket := func(a caller, path string) string {
		return a.post(t, path, nil).wantStatus(http.StatusCreated).text("ticket")
	}
	const exports = "/api/v1/commissions/export?ticket="
	path := exports + ticket(f.merchant, "/api/v1/download-tickets")
	if lines := strings.Count(browser.get(t, path).wantStatus(http.StatusOK).body, "\r\n"); lines != 2 {
		t.Errorf("the file has %d lines, want the header and the commission of the ticket's mode", lines)
	}
	browser.get(t, path).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	if lines := strings.Count(browser.get(t, exports+ticket(other, "/api/v1/download-tickets")).wantStatus(http.StatusOK).body, "\r\n"); lines != 1 {
		t.Errorf("the file of another workspace has %d lines, want only the header", lines)
	}
	browser.get(t, exports+ticket(f.merchant, merchantStream+"-ticket")).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	for _, path := range []string{merchantStream, "/api/v1/workspace"} {
		if got := browser.get(t, path+"?ticket="+ticket(f.merchant, "/api/v1/download-tickets")); got.status != http.StatusUnauthorized {
			t.Errorf("%s with the ticket of a download returns %d, want 401", path, got.status)
		}
	}
	left := ticket(f.merchant, "/api/v1/download-tickets")
	f.merchant.post(t, "/api/v1/auth/logout", object{"refreshToken": f.merchant.refresh}).wantStatus(http.StatusNoContent)
	browser.get(t, exports+left).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	if strings.Contains(sys.logs.String(), left) {
		t.Error("the log contains a ticket")
	}
}

func testNotificationStreamTicketOpensOnlyItsStream(t *testing.T, sys *system) {
	merchant, partner, browser := sys.newMerchant(t), sys.newPartner(t), sys.client()
	ticket := func(a caller, path string) string {
		return a.post(t, path+"-ticket", nil).wantStatus(http.StatusCreated).text("ticket")
	}
	ofMerchant, ofPartner := ticket(merchant, merchantStream), ticket(partner, partnerStream)
	for _, path := range []string{"/api/v1/notifications", "/api/v1/notifications/unread-count", "/api/v1/workspace", "/api/v1/commissions"} {
		if got := browser.get(t, path+"?ticket="+ofMerchant); got.status != http.StatusUnauthorized {
			t.Errorf("%s with a ticket returns %d, want 401", path, got.status)
		}
		browser.withCredential(ofMerchant).get(t, path).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	}
	browser.get(t, partnerStream+"?ticket="+ofMerchant).wantError(http.StatusForbidden, "FORBIDDEN")
	browser.get(t, merchantStream+"?ticket="+ofPartner).wantError(http.StatusForbidden, "FORBIDDEN")
	stream := browser.openStream(t, partnerStream+"?ticket="+ofPartner)
	stream.next(t, "ready")
	partner.post(t, "/api/v1/auth/logout", object{"refreshToken": partner.refresh}).wantStatus(http.StatusNoContent)
	stream.wantReauth(t)
	browser.get(t, partnerStream+"?ticket="+ofPartner).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	// A second session of the same user does not make the ticket of the first usable.
	partner.login(t)
	browser.get(t, partnerStream+"?ticket="+ofPartner).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	for _, secret := range []string{ofMerchant, ofPartner} {
		if strings.Contains(sys.logs.String(), secret) {
			t.Errorf("the log contains the ticket %s", secret)
		}
	}
}

// The clients reconnect to another process, so a process that stops must not wait for
// them.
func TestNotificationStream_EndsWhenProcessStops(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.newMerchant(t)
	streams := []*eventStream{merchant.openStream(t, merchantStream), merchant.openStream(t, merchantStream)}
	for _, s := range streams {
		s.next(t, "ready")
	}
	stopped := make(chan struct{})
	go func() { sys.stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(stopTime):
		t.Errorf("the system has not stopped within %v", stopTime)
		<-stopped
	}
	for _, s := range streams {
		s.wantEnd(t)
	}
	if n := sys.count(t, "select count(*) from notification_streams"); n != 0 {
		t.Errorf("%d streams still count, so that the clients cannot all reconnect", n)
	}
}

func TestNotificationStream_EndsWithPermission(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	for name, end := range map[string]func(t *testing.T, merchant caller){
		"logout": func(t *testing.T, merchant caller) {
			t.Helper()
			merchant.post(t, "/api/v1/auth/logout", object{"refreshToken": merchant.refresh}).wantStatus(http.StatusNoContent)
		},
		"expiry": func(_ *testing.T, _ caller) { sys.clock.advance(15 * time.Minute) },
		"role": func(t *testing.T, merchant caller) {
			t.Helper()
			merchant.setRole(t, "viewer")
		},
		"erasure of the workspace": func(t *testing.T, merchant caller) {
			t.Helper()
			merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantStatus(http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			merchant := sys.newMerchant(t)
			stream := merchant.openStream(t, merchantStream)
			stream.next(t, "ready")
			end(t, merchant)
			stream.wantReauth(t)
		})
	}
	t.Run("removal", func(t *testing.T) {
		owner := sys.newMerchant(t)
		email := uniqueName("member") + "@example.com"
		invite := owner.post(t, workspacePath+"/invites", object{"email": email, "role": "admin"}).wantStatus(http.StatusCreated)
		member := sys.account("merchant", email, sys.client().post(t, "/api/v1/auth/merchant/accept-invite", object{
			"token": invite.text("token"), "name": "Finn", "password": password,
		}).wantStatus(http.StatusCreated))
		others, stream := owner.openStream(t, merchantStream), member.openStream(t, merchantStream)
		others.next(t, "ready")
		stream.next(t, "ready")
		owner.do(t, http.MethodDelete, workspacePath+"/members/"+member.id, nil).wantStatus(http.StatusNoContent)
		stream.wantReauth(t)
		// The streams of other members stay open.
		others.next(t, "notification")
	})
	t.Run("erasure of the workspace of a member", func(t *testing.T) {
		owner := sys.newMerchant(t)
		stream := owner.addMember(t, "viewer").openStream(t, merchantStream)
		stream.next(t, "ready")
		owner.post(t, "/api/v1/merchant/account/erase", confirmed).wantStatus(http.StatusOK)
		stream.wantReauth(t)
	})
	for name, end := range map[string]func(t *testing.T, partner caller){
		"logout of a partner": func(t *testing.T, partner caller) {
			t.Helper()
			partner.post(t, "/api/v1/auth/logout", object{"refreshToken": partner.refresh}).wantStatus(http.StatusNoContent)
		},
		"erasure of a partner": func(t *testing.T, partner caller) {
			t.Helper()
			partner.post(t, "/api/v1/partner/account/erase", confirmed).wantStatus(http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			partner := sys.newPartner(t)
			stream := partner.openStream(t, partnerStream)
			stream.next(t, "ready")
			end(t, partner)
			stream.wantReauth(t)
		})
	}
}

func TestNotificationStream_AtMostFivePerUser(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
