// Package feedsignal tells all processes through Redis which notification feeds have
// changed.
//
// It guarantees nothing: a signal gets lost if Redis is away or if a process is not
// subscribed at this moment. Processes therefore also read the state of their feeds from
// time to time.
package feedsignal

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

const (
	channel = "notifications"
	// publishTimeout limits the time for sending a signal.
	publishTimeout = time.Second
	// resubscribeDelay is the time after which a failed subscription is repeated.
	resubscribeDelay = 500 * time.Millisecond
	idSize           = 16
)

// Signal is the sender and the receiver of signals. Its methods are safe for concurrent use.
type Signal struct{ client redis.UniversalClient }

// New returns a Signal that uses a Redis.
func New(client redis.UniversalClient) *Signal { return &Signal{client} }

// Publish tells all processes that feeds have changed.
func (s *Signal) Publish(ctx context.Context, feeds []notification.FeedID) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	payload := make([]byte, 0, idSize*len(feeds))
	for _, feed := range feeds {
		payload = append(payload, feed.UUID[:]...)
	}
	return s.client.Publish(ctx, channel, payload).Err()
}

// Listen calls changed for each signal until ctx ends.
func (s *Signal) Listen(ctx context.Context, changed func(feeds []notification.FeedID)) {
	for ctx.Err() == nil {
		s.listen(ctx, changed)
		select {
		case <-ctx.Done():
		case <-time.After(resubscribeDelay):
		}
	}
}

func (s *Signal) listen(ctx context.Context, changed func(feeds []notification.FeedID)) {
	subscription := s.client.Subscribe(ctx, channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case message, open := <-messages:
			if !open {
				return
			}
			changed(feedsOf(message.Payload))
		}
	}
}

// feedsOf returns the feeds in a signal. It ignores an incomplete id at the end.
func feedsOf(payload string) []notification.FeedID {
	var feeds []notification.FeedID
	for ; len(payload) >= idSize; payload = payload[idSize:] {
		id, _ := affiliate.IDFromBytes[notification.FeedID]([]byte(payload[:idSize]))
		feeds = append(feeds, id)
	}
	return feeds
}
