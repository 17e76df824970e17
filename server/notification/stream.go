package notification

import (
	"context"
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
// that a new stream only sends those that follow. It returns the state of the feed then.
// It waits at most distributeWait.
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

// openStream stores the stream. Errors: RATE_LIMIT_EXCEEDED if the user has too many.
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
