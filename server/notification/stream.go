package notification

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
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
	// freshTime is the time within which notifications are usually distributed. If the stream
	// has read the number of unread notifications from the database, the number may include
	// notifications that the stream sends within freshTime. During this time, the stream reads
	// the number again before it sends notifications, instead of only increasing it.
	freshTime = 2 * time.Second
	// distributeWait is the longest time for which a new stream waits until earlier
	// notifications were distributed. It checks this every distributeCheck. It waits only
	// for notifications in the oldest distributeReach arrivals, because during a backlog
	// later arrivals take longer than distributeWait.
	distributeWait  = time.Second
	distributeCheck = 50 * time.Millisecond
	distributeReach = 2000
	// maxFrame is the size in bytes after which a stream sends the events that it has
	// encoded. The gateway limits the time for sending each piece, and a client must be
	// able to receive a long replay over a slow connection.
	maxFrame = 32 << 10
	// streamRetryAfter is the time in seconds after which a client may try to open a stream
	// again if the user has too many streams.
	streamRetryAfter = 5
)

// CreateStreamTicket creates a ticket for a stream of the workspace's feed.
func (s *Service) CreateStreamTicket(ctx context.Context, _ *affiliatev1.CreateStreamTicketRequest) (*affiliatev1.StreamTicket, error) {
	caller, reader := server.PrincipalFrom(ctx), readerFrom(ctx)
	text, digest := notification.NewStreamTicket()
	err := notifications.InsertTicket(ctx, s.DB, notification.StreamTicket{
		Digest: digest, Session: caller.Session, Kind: reader.Kind, Mode: reader.Mode,
		CreatedAt: s.currentTime(), ExpiresAt: caller.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.StreamTicket{Ticket: text, ExpiresAt: server.Timestamp(caller.ExpiresAt)}, nil
}

// CreatePartnerStreamTicket creates a ticket for a stream of the partner's feed.
func (s *Service) CreatePartnerStreamTicket(ctx context.Context, req *affiliatev1.CreateStreamTicketRequest) (*affiliatev1.StreamTicket, error) {
	return s.CreateStreamTicket(ctx, req)
}

// StreamNotifications streams the feed of the workspace.
func (s *Service) StreamNotifications(req *affiliatev1.StreamNotificationsRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
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
	s.Metrics.open.Inc()
	defer s.Metrics.open.Dec()
	defer s.closeStream(ctx, stream.ID)
	after := lastEventID(ctx, req)
	if !state.CanReplay(after) {
		if state, err = s.distributed(ctx, stream.Reader.Feed, state); err != nil {
			return err
		}
	}
	subscriber := s.Hub.subscribe(stream, state)
	defer s.Hub.unsubscribe(subscriber)
	session := &streamSession{service: s, subscriber: subscriber, reader: stream.Reader, out: out, settled: time.NewTimer(freshTime)}
	defer session.settled.Stop()
	if session.choices, err = notifications.Choices(ctx, s.DB, stream.Reader.User); err != nil {
		return err
	}
	// The proxies that understand this header do not buffer the response.
	if err := out.SetHeader(metadata.Pairs("x-accel-buffering", "no")); err != nil {
		return err
	}
	return session.run(ctx, state, after)
}

// StreamPartnerNotifications streams the feed of the partner.
func (s *Service) StreamPartnerNotifications(req *affiliatev1.StreamNotificationsRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.StreamNotifications(req, out)
}

// closeStream stores that a stream is closed. Usually ctx has ended already, because the
// client has gone.
func (s *Service) closeStream(ctx context.Context, id notification.StreamID) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := notifications.CloseStream(closing, s.DB, id); err != nil {
		s.Log.WarnContext(ctx, "a closed stream still counts for a minute", "error", err)
	}
}

// distributed waits until the notifications that a feed contains now were distributed, so
// that a new stream sends only later notifications. It waits at most distributeWait, and
// returns the state of the feed after the wait.
func (s *Service) distributed(ctx context.Context, feed notification.FeedID, state notification.FeedState) (notification.FeedState, error) {
	arrivals, err := notifications.Arrivals(ctx, s.DB, feed, distributeReach)
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
		if waiting, err = notifications.Waiting(ctx, s.DB, arrivals); err != nil {
			return state, err
		}
	}
	states, err := notifications.FeedStates(ctx, s.DB, []notification.FeedID{feed})
	return states[feed], err
}

// openStream stores the stream. Errors: RATE_LIMIT_EXCEEDED if the user has too many streams.
func (s *Service) openStream(ctx context.Context, stream notification.Stream, at time.Time) (state notification.FeedState, err error) {
	refused := false
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
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
		s.Metrics.refused.Inc()
	}
	return state, err
}

// lastEventID returns the sequence number after which the stream continues, or -1 if the
// client opens a new stream. For an invalid id it returns math.MaxInt64, after which nothing can be replayed.
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

// liveFeed is a feed with open streams. It holds the newest notifications, which all
// streams of the feed share.
type liveFeed struct {
	id notification.FeedID
	// subscribers is protected by the mutex of the hub.
	subscribers map[*subscriber]bool

	mu sync.Mutex
	// recent are the notifications with numbers above base, in the order of their
	// numbers, at most notification.MaxReplay of them.
	recent  []notification.FeedPosition
	base    int64
	last    int64 // the highest number that was read
	version int64
	// changed is closed when the feed changes.
	changed chan struct{}
}

func newLiveFeed(id notification.FeedID, state notification.FeedState) *liveFeed {
	return &liveFeed{
		id: id, subscribers: map[*subscriber]bool{},
		base: state.LastSeq, last: state.LastSeq, version: state.Version, changed: make(chan struct{}),
	}
}

func (f *liveFeed) lastSeq() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// add stores the notifications that follow the last one, up to the number last, and wakes
// the streams if anything has changed.
func (f *liveFeed) add(positions []notification.FeedPosition, last, version int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last == f.last && version == f.version {
		return
	}
	f.recent = append(f.recent, positions...)
	f.change(last, version)
	if extra := len(f.recent) - notification.MaxReplay; extra > 0 {
		f.base = f.recent[extra-1].Seq
		f.recent = slices.Clone(f.recent[extra:]) // releases the memory of the others
	}
}

// skip removes all notifications up to the number last, because some of them are missing,
// and wakes the streams. A stream that has not sent these notifications reads them from the
// database, or makes the client load the feed (sendNew).
func (f *liveFeed) skip(last, version int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent, f.base = nil, last
	f.change(last, version)
}

// change stores the state that was read, and wakes the streams. The streams continue after
// the caller has released the mutex.
func (f *liveFeed) change(last, version int64) {
	f.last, f.version = last, version
	close(f.changed)
	f.changed = make(chan struct{})
}

// feedView is the state of a feed for one stream at one moment.
type feedView struct {
	positions []notification.FeedPosition // the positions after the requested number
	last      int64
	version   int64
	changed   <-chan struct{} // closed when the feed changes again
	// complete is false if the feed no longer holds all notifications after the requested number.
	complete bool
}

func (f *liveFeed) after(seq int64) feedView {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := feedView{last: f.last, version: f.version, changed: f.changed, complete: seq >= f.base}
	if view.complete {
		from, _ := slices.BinarySearchFunc(f.recent, seq+1, func(p notification.FeedPosition, seq int64) int { return int(p.Seq - seq) })
		view.positions = f.recent[from:]
	}
	return view
}

type streamEnd int

const (
	// endReauth means that the access token has expired, the session has ended or the role has changed.
	endReauth streamEnd = iota
	// endReplaced means that the ticket of the stream has opened another stream.
	endReplaced
)

type subscriber struct {
	stream notification.Stream
	feed   *liveFeed
	ends   chan streamEnd
}

func (s *subscriber) end(reason streamEnd) {
	select {
	case s.ends <- reason:
	default: // it ends already
	}
}
