package notification

import (
	"slices"
	"sync"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

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
// and wakes the streams. Streams that have not sent them find out what they can still
// send.
func (f *liveFeed) skip(last, version int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent, f.base = nil, last
	f.change(last, version)
}

// change stores the state that was read, and wakes the streams. They wait for the mutex,
// which the caller holds.
func (f *liveFeed) change(last, version int64) {
	f.last, f.version = last, version
	close(f.changed)
	f.changed = make(chan struct{})
}

// feedView is what a stream sees of a feed at one moment.
type feedView struct {
	positions []notification.FeedPosition // the positions after the requested one
	last      int64
	version   int64
	changed   <-chan struct{} // closed when the feed changes again
	// complete is false if the feed no longer holds all notifications after the number.
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
	// endReauth means that the session has ended or that the role has changed.
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
