package notification

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

const (
	// pingInterval is how often a stream sends a comment, so that proxies keep it open.
	pingInterval = 25 * time.Second
	// freshTime is the time in which notifications are distributed. A number of unread
	// notifications that was read from the database may include notifications that the
	// stream sends within this time. Until then, the stream reads the number again for
	// each notification instead of counting on.
	freshTime = 2 * time.Second
	// distributeWait is how long a new stream waits until earlier notifications were
	// distributed. distributeCheck is how often it checks this. It waits only for
	// notifications in the oldest distributeReach arrivals, because during a backlog the
	// others take longer than distributeWait.
	distributeWait  = time.Second
	distributeCheck = 50 * time.Millisecond
	distributeReach = 2000
	// maxFrame is the size in bytes after which a stream sends what it has. The gateway
	// limits the time for sending each piece, and a client must be able to receive a long
	// replay over a slow connection.
	maxFrame = 32 << 10
	// streamRetryAfter is the time in seconds after which a client may try to open a
	// stream again if the user has too many.
	streamRetryAfter = 5
)

// CreateStreamTicket creates a ticket for a stream of the workspace's feed.
func (s *Service) CreateStreamTicket(ctx context.Context, _ *affiliatev1.CreateStreamTicketRequest) (*affiliatev1.StreamTicket, error) {
	return s.createTicket(ctx)
}

// CreatePartnerStreamTicket creates a ticket for a stream of the partner's feed.
func (s *Service) CreatePartnerStreamTicket(ctx context.Context, _ *affiliatev1.CreateStreamTicketRequest) (*affiliatev1.StreamTicket, error) {
	return s.createTicket(ctx)
}

func (s *Service) createTicket(ctx context.Context) (*affiliatev1.StreamTicket, error) {
	caller, reader := server.PrincipalFrom(ctx), readerFrom(ctx)
	text, digest := notification.NewStreamTicket()
	err := notifications.InsertTicket(ctx, s.db, notification.StreamTicket{
		Digest: digest, Session: caller.Session, Kind: reader.Kind, Mode: reader.Mode,
		CreatedAt: s.currentTime(), ExpiresAt: caller.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.StreamTicket{Ticket: text, ExpiresAt: server.Timestamp(caller.ExpiresAt)}, nil
}

// StreamNotifications streams the feed of the workspace.
func (s *Service) StreamNotifications(req *affiliatev1.StreamNotificationsRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.stream(req, out)
}

// StreamPartnerNotifications streams the feed of the partner.
func (s *Service) StreamPartnerNotifications(req *affiliatev1.StreamNotificationsRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.stream(req, out)
}

func (s *Service) stream(req *affiliatev1.StreamNotificationsRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	ctx := out.Context()
	caller := server.PrincipalFrom(ctx)
	at := s.currentTime()
	stream := notification.Stream{
		ID: affiliate.NewID[notification.StreamID](at), Reader: readerFrom(ctx), Session: caller.Session, Ticket: caller.Ticket, ExpiresAt: caller.ExpiresAt,
	}
	state, err := s.openStream(ctx, stream, at)
	if err != nil {
		return err
	}
	s.metrics.open.Inc()
	defer s.metrics.open.Dec()
	defer s.closeStream(ctx, stream.ID)
	after := lastEventID(ctx, req)
	if !state.CanReplay(after) {
		if state, err = s.distributed(ctx, stream.Reader.Feed, state); err != nil {
			return err
		}
	}
	subscriber := s.hub.subscribe(stream, state)
	defer s.hub.unsubscribe(subscriber)
	session := &streamSession{service: s, subscriber: subscriber, reader: stream.Reader, out: out, settled: time.NewTimer(freshTime)}
	defer session.settled.Stop()
	if session.choices, err = notifications.Choices(ctx, s.db, stream.Reader.User); err != nil {
		return err
	}
	// The proxies that understand this header do not buffer the response.
	if err := out.SetHeader(metadata.Pairs("x-accel-buffering", "no")); err != nil {
		return err
	}
	return session.run(ctx, state, after)
}

// closeStream stores that a stream is closed. Usually ctx has ended already, because the
// client has gone.
func (s *Service) closeStream(ctx context.Context, id notification.StreamID) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := notifications.CloseStream(closing, s.db, id); err != nil {
		s.log.WarnContext(ctx, "a closed stream still counts for a minute", "error", err)
	}
}

// distributed waits until the notifications that a feed contains now were distributed, so
// that a new stream only sends those that follow. It returns the state of the feed then.
// It waits at most distributeWait.
func (s *Service) distributed(ctx context.Context, feed notification.FeedID, state notification.FeedState) (notification.FeedState, error) {
	arrivals, err := notifications.Arrivals(ctx, s.db, feed, distributeReach)
	if err != nil || len(arrivals) == 0 {
		return state, err
	}
	deadline := time.Now().Add(distributeWait)
	for waiting := true; waiting && time.Now().Before(deadline); {
		select {
		case <-time.After(distributeCheck):
		case <-ctx.Done():
			return state, ctx.Err()
		}
		if waiting, err = notifications.Waiting(ctx, s.db, arrivals); err != nil {
			return state, err
		}
	}
	states, err := notifications.FeedStates(ctx, s.db, []notification.FeedID{feed})
	return states[feed], err
}

// openStream stores the stream. Errors: RATE_LIMIT_EXCEEDED if the user has too many.
func (s *Service) openStream(ctx context.Context, stream notification.Stream, at time.Time) (state notification.FeedState, err error) {
	refused := false
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := notifications.LockUser(ctx, tx, stream.Reader.User); err != nil {
			return err
		}
		if stream.Ticket != nil {
			if err := notifications.CloseStreamsOfTicket(ctx, tx, stream.Ticket, at); err != nil {
				return err
			}
		}
		open, err := notifications.CountStreams(ctx, tx, stream.Reader.User, at.Add(-streamLost))
		if err != nil {
			return err
		}
		if refused = open >= notification.MaxStreams; refused {
			refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
			refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(streamRetryAfter)}
			return refusal // and a ticket does not count as used
		}
		state, err = notifications.OpenStream(ctx, tx, stream, at)
		return err
	})
	if refused {
		s.metrics.refused.Inc()
	}
	return state, err
}

// lastEventID returns the sequence number after which the stream continues, or -1 if the
// client opens a new stream. An id that no stream has sent cannot be replayed.
func lastEventID(ctx context.Context, req *affiliatev1.StreamNotificationsRequest) int64 {
	text := req.GetLastEventId()
	md, _ := metadata.FromIncomingContext(ctx)
	if header := md.Get("last-event-id"); len(header) > 0 && header[0] != "" {
		text = header[0]
	}
	if text == "" {
		return -1
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return math.MaxInt64
	}
	return seq
}

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
	// and may include notifications that are not sent yet. freshUntil is when freshTime
	// ends. settled fires when no notification was sent for a while.
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
		case <-s.service.hub.ended:
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
		s.service.metrics.resyncs.Inc()
		frame = appendResync(frame, s.seq)
	}
	return s.send(frame)
}

func (s *streamSession) countUnread(ctx context.Context) error {
	count, err := notifications.CountUnread(ctx, s.service.db, s.reader, s.reader.Ranges(s.choices, ""), s.service.currentTime())
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
		// The feed holds only the newest notifications. Read the others once more.
		positions, complete, err := notifications.Positions(ctx, s.service.hub.db, s.reader.Feed, s.seq, notification.MaxReplay)
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
	s.service.metrics.resyncs.Inc()
	return s.send(appendResync(nil, s.seq))
}

// refresh reads the preferences, and recounts the unread notifications.
func (s *streamSession) refresh(ctx context.Context) (err error) {
	if s.choices, err = notifications.Choices(ctx, s.service.db, s.reader.User); err != nil {
		return err
	}
	s.setUncertain()
	return s.recount(ctx)
}

func (s *streamSession) setUncertain() {
	s.uncertain, s.freshUntil = true, s.service.now().Add(freshTime)
	s.settled.Reset(freshTime)
}

// settle corrects the number of unread notifications after the last notification for a
// while.
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

// recount reads the number of unread notifications, and sends it if it has changed.
func (s *streamSession) recount(ctx context.Context) error {
	before := s.unread
	if err := s.countUnread(ctx); err != nil || s.unread == before {
		return err
	}
	return s.send(appendUnreadCount(nil, s.unread))
}

// sendPositions sends those of the notifications that the user sees.
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
	if s.service.now().Before(s.freshUntil) {
		if err := s.countUnread(ctx); err != nil {
			return err
		}
		before = s.unread
		for _, p := range visible {
			before -= p.Entry.Unread()
		}
	}
	var frame []byte
	for _, p := range visible {
		before += p.Entry.Unread()
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
	now := s.service.now()
	for _, p := range visible {
		if p.Seq > s.replayedTo {
			s.service.metrics.delay.Observe(max(0, now.Sub(p.Entry.CreatedAt()).Seconds()))
		}
	}
	return nil
}

// currentState returns notifications without those that were dismissed since they were
// created, and with the times at which the user has read them. Only a replay contains
// notifications that may have changed.
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
	times, err := notifications.ReadTimes(ctx, s.service.db, s.reader, s.reader.Ranges(s.choices, ""), replayed, s.service.currentTime())
	if err != nil {
		return nil, err
	}
	current := visible[:0]
	for _, p := range visible {
		if p.Seq <= s.replayedTo {
			at, found := times[p.Entry.ID]
			if !found {
				continue
			}
			p.Entry.ReadAt = at
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
