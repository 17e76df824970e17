package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/test/service"
)

const (
	// openStreams is the number of streams of the larger workspace. Each of its members
	// has as many as a user can have.
	openStreams = 500
	// streamCauses is the number of conversions in a round. The next one is reported when
	// all streams have sent the notification about the one before.
	streamCauses = 20
	// streamedConversion precedes the id of a conversion in the notification about it.
	streamedConversion = `"resource":{"type":"conversion","id":"`
)

// measureStreams measures the memory of open streams, and the time from the response to a
// report until the notification about it has arrived at all streams.
func measureStreams(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "streams", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	b.say("streams: registering %d members", openStreams/notification.MaxStreams)
	many, err := openStreamedShop(ctx, core, "many", openStreams/notification.MaxStreams)
	var single *streamedShop
	if err == nil {
		single, err = openStreamedShop(ctx, core, "single", 1)
	}
	core.stop() // its memory is mostly garbage of the password hashes
	if err != nil {
		return core.fail(err)
	}
	if err := b.measureStreamMemory(ctx, database, many); err != nil {
		return err
	}
	if core, err = b.startCore(ctx, database); err != nil {
		return err
	}
	defer core.stop()
	if err := execute(ctx, database.url, "delete from notification_streams"); err != nil {
		return err
	}
	if err := errors.Join(many.open(ctx, core, openStreams), single.open(ctx, core, 1)); err != nil {
		return core.fail(err)
	}
	defer many.close()
	defer single.close()
	what := fmt.Sprintf("from a conversion's 201 to its notification in %d streams", openStreams)
	got, err := b.takeTurns(ctx, what, many.timeNotifications(core), b.yardstick(single.timeNotifications(core)))
	if err != nil {
		return core.fail(err)
	}
	const yardstickName = "in one stream"
	b.compare("", what+", p50", yardstickName, "", got[0], got[1], p50, millis)
	b.compare("", "  p99", yardstickName, "", got[0], got[1], p99, millis)
	return nil
}

// measureStreamMemory measures the memory of a core for each open stream. The yardstick
// is the memory for each connection that stays open after a request.
func (b *bench) measureStreamMemory(ctx context.Context, database *database, s *streamedShop) error {
	grown := func(open func(context.Context, *process) (closeAll func(), err error)) side {
		return func(ctx context.Context) (sample, error) {
			core, err := b.startCore(ctx, database)
			if err != nil {
				return sample{}, err
			}
			defer core.stop()
			if err := sleep(ctx, restTime); err != nil {
				return sample{}, err
			}
			before, err := memoryOf(core.pid, currentMemory)
			if err != nil {
				return sample{}, err
			}
			closeAll, err := open(ctx, core)
			if err != nil {
				return sample{}, core.fail(err)
			}
			defer closeAll()
			if err := sleep(ctx, restTime); err != nil {
				return sample{}, err
			}
			after, err := memoryOf(core.pid, currentMemory)
			return sample{busy: (after - before) / openStreams}, err
		}
	}
	streams := func(ctx context.Context, core *process) (func(), error) {
		// The streams of a process that has stopped before it could delete them count for
		// a minute.
		if err := execute(ctx, database.url, "delete from notification_streams"); err != nil {
			return nil, err
		}
		return s.close, s.open(ctx, core, openStreams)
	}
	what := fmt.Sprintf("memory (RSS) of a core for each of %d streams", openStreams)
	got, err := b.takeTurns(ctx, what, grown(streams), b.yardstick(grown(s.keepConnections)))
	if err != nil {
		return err
	}
	b.compare("", what, "a connection after a request", "", got[0], got[1], busyMemory, kilobytes)
	return nil
}

func kilobytes(v float64) string { return fmt.Sprintf("%.1f kB", v/(1<<10)) }

// streamedShop is a workspace whose members have open streams.
type streamedShop struct {
	key     string
	members []session
	reports int
	streams int // that are open

	cancel  context.CancelFunc
	readers sync.WaitGroup
	// arrived receives the id of a conversion for each stream that has sent the
	// notification about it.
	arrived chan streamArrival
	failed  atomic.Pointer[error]
}

type streamArrival struct {
	conversion string
	at         time.Time
}

// openStreamedShop registers a merchant, and the members that the merchant invites.
func openStreamedShop(ctx context.Context, core *process, name string, members int) (*streamedShop, error) {
	p, err := openProgram(ctx, core.address, name)
	if err != nil {
		return nil, err
	}
	api := service.API{Address: core.address}
	s := &streamedShop{members: []session{p.session}}
	var made struct{ SecretKey, Token string }
	if err := api.Call(ctx, http.MethodPost, "/api-keys", p.AccessToken, object{"name": "Load"}, &made); err != nil {
		return nil, err
	}
	s.key = made.SecretKey
	for len(s.members) < members {
		email := name + "-" + strconv.Itoa(len(s.members)) + "@example.com"
		if err := api.Call(ctx, http.MethodPost, "/workspace/invites", p.AccessToken, object{"email": email, "role": "admin"}, &made); err != nil {
			return nil, err
		}
		var member session
		err := api.Call(ctx, http.MethodPost, "/auth/merchant/accept-invite", "", object{
			"token": made.Token, "name": "Mia", "password": "a long enough password",
		}, &member)
		if err != nil {
			return nil, err
		}
		s.members = append(s.members, member)
	}
	return s, nil
}

// open opens streams, as many for each member. It returns when all of them are ready.
func (s *streamedShop) open(ctx context.Context, core *process, count int) error {
	ctx, s.cancel = context.WithCancel(ctx)
	s.streams, s.arrived = count, make(chan streamArrival, openStreams)
	client := &http.Client{Transport: &http.Transport{}}
	ready := make(chan error, count)
	for i := range count {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+core.address+"/api/v1/notifications/stream", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+s.members[i%len(s.members)].AccessToken)
		s.readers.Go(func() {
			response, err := client.Do(request)
			if err == nil && response.StatusCode != http.StatusOK {
				err = fmt.Errorf("a stream has the status %d", response.StatusCode)
			}
			ready <- err
			if response != nil {
				s.receive(response.Body)
				_ = response.Body.Close()
			}
		})
	}
	for range count {
		if err := <-ready; err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// receive reads a stream until it ends.
func (s *streamedShop) receive(body io.Reader) {
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			err = fmt.Errorf("a stream has ended: %w", err)
			s.failed.Store(&err)
			return
		}
		if bytes.Contains(line, []byte(streamedConversion)) {
			id, err := idAfter(line, streamedConversion)
			if err != nil {
				s.failed.Store(&err)
				return
			}
			s.arrived <- streamArrival{id, time.Now()}
		}
	}
}

func (s *streamedShop) close() {
	s.cancel()
	s.readers.Wait()
	s.failed.Store(nil)
}

// keepConnections opens as many connections as streams, sends one request over each of
// them, and keeps them open.
func (s *streamedShop) keepConnections(ctx context.Context, core *process) (closeAll func(), err error) {
	transports := make([]*http.Transport, openStreams)
	faults := make([]error, openStreams)
	var group sync.WaitGroup
	for i := range transports {
		transports[i] = &http.Transport{}
		group.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+core.address+"/api/v1/notifications/unread-count", nil)
			if err != nil {
				faults[i] = err
				return
			}
			request.Header.Set("Authorization", "Bearer "+s.members[i%len(s.members)].AccessToken)
			response, err := (&http.Client{Transport: transports[i]}).Do(request)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				err = errors.Join(err, response.Body.Close())
			}
			faults[i] = err
		})
	}
	group.Wait()
	return func() {
		for _, transport := range transports {
			transport.CloseIdleConnections()
		}
	}, errors.Join(faults...)
}

// timeNotifications returns a side that reports conversions one after another. It measures
// the time from each response to the arrival at each stream.
func (s *streamedShop) timeNotifications(core *process) side {
	return func(ctx context.Context) (sample, error) {
		ctx, cancel := context.WithTimeout(ctx, responseTimeout)
		defer cancel()
		// The service waits for a click that is not stored yet, but not for an old one.
		click := affiliate.NewID[affiliate.ClickID](time.Now().Add(-time.Hour))
		var took []time.Duration
		for range streamCauses {
			s.reports++
			var made struct{ ID string }
			err := service.API{Address: core.address}.Call(ctx, http.MethodPost, "/conversions", s.key, object{
				"event_type": "purchase", "external_transaction_id": "order-" + strconv.Itoa(s.reports), "amount_cents": 1000, "currency": "EUR",
				"click_id": click.String(),
			}, &made)
			at := time.Now()
			if err != nil {
				return sample{}, err
			}
			for range s.streams {
				select {
				case got := <-s.arrived:
					if got.conversion != made.ID {
						return sample{}, fmt.Errorf("the notification about %s has arrived, want %s", got.conversion, made.ID)
					}
					took = append(took, got.at.Sub(at))
				case <-ctx.Done():
					if failed := s.failed.Load(); failed != nil {
						return sample{}, *failed
					}
					return sample{}, fmt.Errorf("the notification about %s has not arrived at all streams: %w", made.ID, ctx.Err())
				}
			}
		}
		slices.Sort(took)
		return sample{p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, nil
	}
}
