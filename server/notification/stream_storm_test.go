package notification_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	stormSeed    = 20
	stormTimeout = time.Minute
)

// stormSize returns the number of clients and of notifications. `make fault` sets the
// variable, because the long storm takes several seconds of all cores.
func stormSize() (clients, notifications int) {
	if os.Getenv("LONG_STORMS") != "" {
		return 50, 1000
	}
	return 20, 200
}

// stormClient opens streams at random nodes, one after another, and closes them at random
// moments. Each stream continues after the last event of the one before.
type stormClient struct {
	nodes   []*node
	want    int // the number of notifications in the storm
	ctx     context.Context
	random  *rand.Rand
	ids     []string // of the notifications, in the order of their arrival
	lastID  string
	lastSeq int64
}

// run receives notifications until all have arrived.
func (c *stormClient) run() error {
	for len(c.ids) < c.want {
		s := c.nodes[c.random.IntN(len(c.nodes))].open(c.ctx, c.lastID)
		err := c.receive(s, c.random.IntN(c.want/2))
		if err != nil {
			return err
		}
		_ = s.closeAndWait() // otherwise the client may have more than five streams
	}
	return nil
}

// receive receives at most limit events of a stream.
func (c *stormClient) receive(s *stream, limit int) error {
	for ; limit > 0 && len(c.ids) < c.want; limit-- {
		select {
		case e := <-s.events:
			switch e.name {
			case "ready", "unread_count":
			case "notification":
				if e.seq() <= c.lastSeq {
					return fmt.Errorf("the notification %s has the number %d, which does not follow %d", e.data.Notification.ID, e.seq(), c.lastSeq)
				}
				c.lastSeq = e.seq()
				c.ids = append(c.ids, e.data.Notification.ID)
			default:
				return fmt.Errorf("the stream sent\n%s", e.text)
			}
			if e.id != "" {
				c.lastID = e.id
			}
		case err := <-s.ended:
			return fmt.Errorf("the stream has ended: %w", err)
		case <-s.ctx.Done():
			return fmt.Errorf("%d notifications have arrived, want %d", len(c.ids), c.want)
		}
	}
	return nil
}

// Clients that disconnect and reconnect at random moments, to two processes, receive each
// notification exactly once and in the same order, while both processes commit and
// distribute notifications.
func TestStream_StormOfReconnections(t *testing.T) {
	t.Parallel()
	clock := pgtest.NewRunningClock()
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest), clock: clock}
	redis := redistest.New(t)
	nodes := []*node{f.newNode(redis), f.newNode(redis)}
	ctx, cancel := context.WithTimeout(t.Context(), stormTimeout)
	defer cancel()
	numClients, notifications := stormSize()
	clients := make([]*stormClient, numClients)
	for i := range clients {
		member := f.inSession(f.newReader(affiliate.RoleAdmin))
		first, ready := nodes[i%2].openReady(member, "")
		_ = first.closeAndWait()
		member, stop := context.WithCancel(member)
		defer stop()
		context.AfterFunc(ctx, stop)
		clients[i] = &stormClient{
			nodes: nodes, want: notifications, ctx: member, random: rand.New(rand.NewPCG(stormSeed, uint64(i))), lastID: ready.id, lastSeq: ready.seq(),
		}
	}
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			if err := c.run(); err != nil {
				t.Errorf("client %d: %v", i, err)
				cancel()
			}
		})
	}
	created := make([][]string, len(nodes))
	for i, n := range nodes {
		running.Go(func() {
			random := rand.New(rand.NewPCG(stormSeed, uint64(numClients+i)))
			for left := notifications / len(nodes); left > 0 && ctx.Err() == nil; {
				ids, err := n.storeMany(min(left, 1+random.IntN(5)))
				if err != nil {
					t.Error(err)
					cancel()
				}
				created[i] = append(created[i], ids...)
				left -= len(ids)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	all := slices.Concat(created...)
	slices.Sort(all)
	received := slices.Clone(clients[0].ids)
	slices.Sort(received)
	if !slices.Equal(received, all) {
		t.Errorf("a client has received other notifications than were created")
	}
	for i, c := range clients {
		if !slices.Equal(c.ids, clients[0].ids) {
			t.Errorf("client %d has received the notifications in another order than client 0", i)
		}
	}
}
