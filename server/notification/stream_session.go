package notification

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// streamSession is the state of one open stream. One goroutine uses it.
type streamSession struct {
	service    *Service
	subscriber *subscriber
	reader     notification.Reader
	choices    notification.CategoryChoices
	out        grpc.ServerStreamingServer[httpbody.HttpBody]

	seq     int64 // the number up to which everything was sent
	version int64
	// replayedTo is the number of the newest notification when the stream was opened.
	replayedTo int64
	unread     int64
	// uncertain is true if the number of unread notifications was read from the database
	// and may include notifications that are not sent yet. freshUntil is the time at which
	// freshTime ends. settled fires when no notification was sent for freshTime.
	uncertain  bool
	freshUntil time.Time
	settled    *time.Timer
}

// run sends events until the stream ends. after is the number after which the client
// wants to continue, or -1.
func (s *streamSession) run(ctx context.Context, state notification.FeedState, after int64) error {
	if err := s.begin(ctx, state, after); err != nil {
		return err
	}
	ping := time.NewTicker(s.service.pingInterval)
	defer ping.Stop()
	for {
		changed, err := s.sendNew(ctx)
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ping.C:
			err = s.send(appendPing(nil, s.seq))
		case <-s.settled.C:
			err = s.settle(ctx)
		case reason := <-s.subscriber.ends:
			if reason == endReauth {
				return s.send(appendReauth(nil))
			}
			return nil
		case <-s.service.Hub.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// begin sends the first event, and decides where the stream begins.
func (s *streamSession) begin(ctx context.Context, state notification.FeedState, after int64) error {
	s.seq, s.version, s.replayedTo = state.LastSeq, state.Version, state.LastSeq
	replay := after >= 0 && state.CanReplay(after)
	if replay {
		s.seq = after
	}
	if err := s.countUnread(ctx); err != nil {
		return err
	}
	s.setUncertain()
	frame := appendReady(nil, s.seq, s.unread)
	if after >= 0 && !replay {
		s.service.Metrics.resyncs.Inc()
		frame = appendResync(frame, s.seq)
	}
	return s.send(frame)
}

func (s *streamSession) countUnread(ctx context.Context) error {
	count, err := notifications.CountUnread(ctx, s.service.DB, s.reader, s.reader.Ranges(s.choices, ""), s.service.currentTime())
	s.unread = min(count, notification.MaxNotificationCount)
	return err
}

// sendNew sends what has changed since the last call. changed is closed when there is
// more to send.
func (s *streamSession) sendNew(ctx context.Context) (changed <-chan struct{}, err error) {
	for {
		view := s.subscriber.feed.after(s.seq)
		// The preferences may have changed before the new notifications were created.
		if view.version != s.version {
			s.version = view.version
			if err := s.refresh(ctx); err != nil {
				return nil, err
			}
		}
		if view.complete {
			if err := s.sendPositions(ctx, view.positions); err != nil {
				return nil, err
			}
			s.seq = max(s.seq, view.last)
			return view.changed, nil
		}
		// The feed holds only the newest notifications. Read the earlier ones from the database.
		positions, complete, err := notifications.Positions(ctx, s.service.Hub.db, s.reader.Feed, s.seq, notification.MaxReplay)
		switch {
		case err != nil:
		case !complete:
			err = s.resync(ctx, view)
		case len(positions) == 0:
			s.seq = view.last
		default:
			err = s.sendPositions(ctx, positions)
		}
		if err != nil {
			return nil, err
		}
	}
}

// resync makes the client load the feed, because it has received so slowly that some of
// the notifications cannot be replayed any more.
func (s *streamSession) resync(ctx context.Context, view feedView) error {
	s.seq = view.last
	if err := s.countUnread(ctx); err != nil {
		return err
	}
	s.setUncertain()
	s.service.Metrics.resyncs.Inc()
	return s.send(appendResync(nil, s.seq))
}

func (s *streamSession) refresh(ctx context.Context) (err error) {
	if s.choices, err = notifications.Choices(ctx, s.service.DB, s.reader.User); err != nil {
		return err
	}
	s.setUncertain()
	return s.recount(ctx)
}

func (s *streamSession) setUncertain() {
	s.uncertain, s.freshUntil = true, s.service.Now().Add(freshTime)
	s.settled.Reset(freshTime)
}

// settle corrects the number of unread notifications when no notification was sent for
// freshTime.
func (s *streamSession) settle(ctx context.Context) error {
	before := s.unread
	if err := s.recount(ctx); err != nil {
		return err
	}
	if s.uncertain = false; s.unread != before {
		s.setUncertain()
	}
	return nil
}

func (s *streamSession) recount(ctx context.Context) error {
	before := s.unread
	if err := s.countUnread(ctx); err != nil || s.unread == before {
		return err
	}
	return s.send(appendUnreadCount(nil, s.unread))
}

func (s *streamSession) sendPositions(ctx context.Context, positions []notification.FeedPosition) (err error) {
	if len(positions) == 0 {
		return nil
	}
	var visible []notification.FeedPosition
	for _, p := range positions {
		if s.reader.Sees(p, s.choices) {
			visible = append(visible, p)
		}
	}
	if visible, err = s.currentState(ctx, visible); err != nil {
		return err
	}
	s.seq = positions[len(positions)-1].Seq
	if len(visible) == 0 {
		return nil
	}
	before := s.unread
	if s.service.Now().Before(s.freshUntil) {
		if err := s.countUnread(ctx); err != nil {
			return err
		}
		before = s.unread
		for _, p := range visible {
			before -= p.Unread()
		}
	}
	var frame []byte
	for _, p := range visible {
		before += p.Unread()
		s.unread = min(max(0, before), notification.MaxNotificationCount)
		if frame = appendNotification(frame, p.Seq, s.service.itemOf(p.Entry), s.unread); len(frame) < maxFrame {
			continue
		}
		if err := s.send(frame); err != nil {
			return err
		}
		frame = nil
	}
	if len(frame) > 0 {
		if err := s.send(frame); err != nil {
			return err
		}
	}
	if s.uncertain {
		s.settled.Reset(freshTime) // after the sends, which a slow client delays
	}
	now := s.service.Now()
	for _, p := range visible {
		if p.Seq > s.replayedTo {
			s.service.Metrics.delay.Observe(max(0, now.Sub(p.CreatedAt()).Seconds()))
		}
	}
	return nil
}

// currentState returns the given notifications with the times at which the user has read
// them, except notifications that were dismissed since they were created. Only a replay
// contains notifications that may have changed.
func (s *streamSession) currentState(ctx context.Context, visible []notification.FeedPosition) ([]notification.FeedPosition, error) {
	var replayed []notification.FeedPosition
	for _, p := range visible {
		if p.Seq <= s.replayedTo {
			replayed = append(replayed, p)
		}
	}
	if len(replayed) == 0 {
		return visible, nil
	}
	times, err := notifications.ReadTimes(ctx, s.service.DB, s.reader, s.reader.Ranges(s.choices, ""), replayed, s.service.currentTime())
	if err != nil {
		return nil, err
	}
	current := visible[:0]
	for _, p := range visible {
		if p.Seq <= s.replayedTo {
			at, found := times[p.ID]
			if !found {
				continue
			}
			p.ReadAt = at
		}
		current = append(current, p)
	}
	return current, nil
}

func (s *streamSession) send(frame []byte) error {
	err := s.out.Send(&httpbody.HttpBody{ContentType: eventStreamType, Data: frame})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

const eventStreamType = "text/event-stream"

// retryMillis is the time after which an EventSource reconnects.
const retryMillis = 5000

const streamVersion = "v1"

// item is a notification in an event. It has the same fields as a notification in a list response.
type item struct {
	ID          string            `json:"id"`
	Category    string            `json:"category"`
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Body        string            `json:"body"`
	Severity    string            `json:"severity"`
	Resource    *itemResource     `json:"resource"`
	ActionURL   *string           `json:"actionUrl"`
	Read        bool              `json:"read"`
	ReadAt      *string           `json:"readAt"`
	DismissedAt *string           `json:"dismissedAt"`
	Mode        *string           `json:"mode"`
	CreatedAt   string            `json:"createdAt"`
	Facts       map[string]string `json:"facts"`
}

type itemResource struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	ProgramID *string `json:"programId"`
}

// itemOf converts a notification that is not dismissed to the item of an event.
func (s *Service) itemOf(entry notification.Entry) item {
	rule := entry.Rule()
	out := item{
		ID: entry.ID.String(), Category: string(rule.Category), Type: string(entry.Type), Severity: string(rule.Severity),
		ActionURL: entry.ActionURL(s.Apps), CreatedAt: affiliate.FormatTime(entry.CreatedAt()), Mode: (*string)(entry.Mode),
		Read: entry.ReadAt != nil, ReadAt: affiliate.FormatOptionalTime(entry.ReadAt),
	}
	out.Title, out.Body = entry.Text(entry.Names)
	out.Facts = entry.TextFacts(entry.Names)
	if entry.Resource != nil && rule.Resource != notification.NoResource {
		out.Resource = &itemResource{Type: string(rule.Resource), ID: entry.Resource.String(), ProgramID: server.OptionalID(entry.Program)}
	}
	return out
}

// eventData is the data of every event. Fields that an event does not have are absent.
type eventData struct {
	Type         string `json:"type"`
	APIVersion   string `json:"api_version"`
	Notification *item  `json:"notification,omitempty"`
	UnreadCount  *int64 `json:"unreadCount,omitempty"`
}

// appendEvent appends an event. If seq is not negative, it is the id of the event, from
// which a client can continue.
func appendEvent(frame []byte, seq int64, name string, data eventData) []byte {
	data.APIVersion = streamVersion
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err) // the type has no values that cannot be encoded
	}
	if seq >= 0 {
		frame = append(frame, "id: "...)
		frame = strconv.AppendInt(frame, seq, 10)
		frame = append(frame, '\n')
	}
	frame = append(append(append(frame, "event: "...), name...), '\n')
	return append(append(append(frame, "data: "...), encoded...), "\n\n"...)
}

func appendReady(frame []byte, seq, unread int64) []byte {
	frame = append(strconv.AppendInt(append(frame, "retry: "...), retryMillis, 10), '\n')
	return appendEvent(frame, seq, "ready", eventData{Type: "ready", UnreadCount: &unread})
}

func appendResync(frame []byte, seq int64) []byte {
	return appendEvent(frame, seq, "resync", eventData{Type: "resync"})
}

func appendNotification(frame []byte, seq int64, n item, unread int64) []byte {
	return appendEvent(frame, seq, "notification", eventData{Type: "notification.created", Notification: &n, UnreadCount: &unread})
}

func appendUnreadCount(frame []byte, unread int64) []byte {
	return appendEvent(frame, -1, "unread_count", eventData{Type: "unread_count", UnreadCount: &unread})
}

func appendReauth(frame []byte) []byte {
	return appendEvent(frame, -1, "reauth", eventData{Type: "reauth"})
}

// appendPing appends a comment with an id. A client ignores the comment, and continues
// from the id when it connects again. The last event that the client has received can be
// much older, because a stream does not send the notifications that its user does not see.
func appendPing(frame []byte, seq int64) []byte {
	return append(strconv.AppendInt(append(frame, "id: "...), seq, 10), "\n: ping\n\n"...)
}
