package notification

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

const (
	// feedPoll is how often the hub reads the state of all open feeds. The poll finds
	// changes by other processes while Redis is not available.
	feedPoll = 5 * time.Second
	// streamWatch is how often the hub checks whether open streams may stay open.
	streamWatch = 2 * time.Second
	// streamSeen is how often the hub stores that streams are open. A stream that was not
	// stored as open for streamLost no longer counts towards the limit of its user.
	streamSeen = 20 * time.Second
	streamLost = time.Minute
	// parallelReads is the number of feeds that the hub reads at the same time.
	parallelReads = 4
	// signalBuffer is the number of signals that may wait until Redis has taken them. If
	// there are more, they are dropped, and other processes find the changes by polling.
	signalBuffer = 256
)

// Signal informs other processes about the feeds that have changed. A signal may get lost.
type Signal interface {
	// Publish sends a signal.
	Publish(ctx context.Context, feeds []notification.FeedID) error
	// Listen calls changed for each signal until ctx ends.
	Listen(ctx context.Context, changed func(feeds []notification.FeedID))
}

// Hub connects the open streams of this process with the database. It reads each feed
// once, however many streams show it.
type Hub struct {
	db      *postgres.DB
	signal  Signal
	log     *slog.Logger
	now     func() time.Time
	signals chan []notification.FeedID
	// ended is closed when Run returns. All streams then end.
	ended chan struct{}

	mu      sync.Mutex
	feeds   map[notification.FeedID]*liveFeed
	changed map[notification.FeedID]bool // feeds to be read
	wake    chan struct{}
}

// NewHub returns a Hub. Run starts it.
func NewHub(db *postgres.DB, signal Signal, log *slog.Logger, now func() time.Time) *Hub {
	return &Hub{
		db: db, signal: signal, log: log, now: now,
		signals: make(chan []notification.FeedID, signalBuffer), ended: make(chan struct{}),
		feeds: map[notification.FeedID]*liveFeed{}, changed: map[notification.FeedID]bool{}, wake: make(chan struct{}, 1),
	}
}

// Changed makes the streams of the given feeds send the changes that this process has
// committed. It does not block.
func (h *Hub) Changed(feeds ...notification.FeedID) {
	if len(feeds) == 0 {
		return
	}
	h.markChanged(feeds)
	select {
	case h.signals <- feeds:
	default: // other processes find the change by polling
	}
}

// markChanged makes Run read the given feeds, except feeds without an open stream.
func (h *Hub) markChanged(feeds []notification.FeedID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, feed := range feeds {
		if h.feeds[feed] != nil {
			h.changed[feed] = true
		}
	}
	if len(h.changed) > 0 {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// Run delivers notifications to the open streams until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	defer close(h.ended)
	var group sync.WaitGroup
	group.Go(func() { h.signal.Listen(ctx, h.markChanged) })
	group.Go(func() { h.publish(ctx) })
	group.Go(func() { h.watch(ctx) })
	poll := time.NewTicker(feedPoll)
	defer poll.Stop()
	for ctx.Err() == nil {
		select {
		case <-h.wake:
		case <-poll.C:
			h.markChanged(h.openFeeds())
		case <-ctx.Done():
		}
		if err := h.read(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "notifications were not sent to streams", "error", err)
		}
	}
	group.Wait()
}

func (h *Hub) publish(ctx context.Context) {
	for {
		select {
		case feeds := <-h.signals:
			if err := h.signal.Publish(ctx, feeds); err != nil && ctx.Err() == nil {
				h.log.DebugContext(ctx, "no signal about notifications was sent", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (h *Hub) openFeeds() []notification.FeedID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.feeds))
}

// read reads the feeds that have changed.
func (h *Hub) read(ctx context.Context) error {
	h.mu.Lock()
	var changed []*liveFeed
	var ids []notification.FeedID
	for id := range h.changed {
		if feed := h.feeds[id]; feed != nil {
			changed, ids = append(changed, feed), append(ids, id)
		}
	}
	h.changed = map[notification.FeedID]bool{}
	h.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	states, err := notifications.FeedStates(ctx, h.db, ids)
	if err != nil {
		h.markChanged(ids)
		return err
	}
	var group errgroup.Group
	group.SetLimit(parallelReads)
	for _, feed := range changed {
		if state, ok := states[feed.id]; ok {
			group.Go(func() error { return h.readFeed(ctx, feed, state) })
		}
	}
	return group.Wait()
}

// readFeed reads the new notifications of a feed and adds them. If it fails, the next poll repeats it.
func (h *Hub) readFeed(ctx context.Context, feed *liveFeed, state notification.FeedState) error {
	last := feed.lastSeq()
	if last >= state.LastSeq {
		feed.add(nil, last, state.Version)
		return nil
	}
	positions, complete, err := notifications.Positions(ctx, h.db, feed.id, last, notification.MaxReplay)
	if err != nil {
		return err
	}
	if n := len(positions); n == notification.MaxReplay {
		state.LastSeq = positions[n-1].Seq
		defer h.markChanged([]notification.FeedID{feed.id}) // there may be more
	} else if n > 0 {
		// Further notifications may have got numbers since the state was read.
		state.LastSeq = max(state.LastSeq, positions[n-1].Seq)
	}
	if complete {
		feed.add(positions, state.LastSeq, state.Version)
	} else {
		feed.skip(state.LastSeq, state.Version)
	}
	return nil
}

// watch ends the streams that may not stay open, and stores that the others are open.
func (h *Hub) watch(ctx context.Context) {
	check, see := time.NewTicker(streamWatch), time.NewTicker(streamSeen)
	defer check.Stop()
	defer see.Stop()
	for {
		var err error
		select {
		case <-check.C:
			err = h.checkStreams(ctx)
		case <-see.C:
			err = h.seeStreams(ctx)
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "streams were not checked", "error", err)
		}
	}
}

func (h *Hub) subscribers() []*subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*subscriber
	for _, feed := range h.feeds {
		all = slices.AppendSeq(all, maps.Keys(feed.subscribers))
	}
	return all
}

func (h *Hub) checkStreams(ctx context.Context) error {
	open := h.subscribers()
	if len(open) == 0 {
		return nil
	}
	now, streams := h.now(), make([]notification.Stream, len(open))
	for i, s := range open {
		streams[i] = s.stream
		if !now.Before(s.stream.ExpiresAt) {
			s.end(endReauth) // even if the database cannot be reached
		}
	}
	checks, err := notifications.CheckStreams(ctx, h.db, streams, now)
	if err != nil {
		return err
	}
	for _, s := range open {
		if check := checks[s.stream.ID]; !check.Permitted {
			s.end(endReauth)
		} else if !check.Current {
			s.end(endReplaced)
		}
	}
	return nil
}

func (h *Hub) seeStreams(ctx context.Context) error {
	open := h.subscribers()
	if len(open) == 0 {
		return nil
	}
	ids := make([]notification.StreamID, len(open))
	for i, s := range open {
		ids[i] = s.stream.ID
	}
	return notifications.SeeStreams(ctx, h.db, ids, h.now())
}

// subscribe adds a stream. state is the state of its feed when the stream was opened. The
// caller must call unsubscribe.
func (h *Hub) subscribe(stream notification.Stream, state notification.FeedState) *subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	feed := h.feeds[stream.Reader.Feed]
	if feed == nil {
		feed = newLiveFeed(stream.Reader.Feed, state)
		h.feeds[feed.id] = feed
	}
	s := &subscriber{stream: stream, feed: feed, ends: make(chan streamEnd, 1)}
	for other := range feed.subscribers {
		if stream.Ticket != nil && string(other.stream.Ticket) == string(stream.Ticket) {
			other.end(endReplaced)
		}
	}
	feed.subscribers[s] = true
	// Notifications may have got numbers after the stream was stored.
	h.changed[feed.id] = true
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return s
}

func (h *Hub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(s.feed.subscribers, s)
	if len(s.feed.subscribers) == 0 {
		delete(h.feeds, s.feed.id)
	}
}
