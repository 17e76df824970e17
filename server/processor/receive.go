package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// maxReceiving is the number of events that are received at the same time. Further ones are
// refused, and the processor sends them again.
const maxReceiving = 500

// ReceiveProcessorEvent checks the signature of an event and stores the event with its job, unless the
// event is of another mode or account. It does not apply the event. Requests for unknown connections and
// requests without a valid signature count towards the rate limit of the client address. Valid events do
// not count and are never refused, because the processor sends all events from the same addresses.
func (s *Service) ReceiveProcessorEvent(ctx context.Context, req *affiliatev1.ReceiveProcessorEventRequest) (*affiliatev1.ReceiveProcessorEventResponse, error) {
	response, err := s.receive(ctx, req)
	var refusal *affiliate.Error
	if errors.As(err, &refusal) && (refusal.Reason == affiliate.ReasonNotFound || refusal.Reason == affiliate.ReasonInvalidSignature) {
		if limited := server.CountFailure(ctx, s.Limiter, server.ZoneGeneral); limited != nil {
			return nil, limited
		}
	}
	return response, err
}

func (s *Service) receive(ctx context.Context, req *affiliatev1.ReceiveProcessorEventRequest) (*affiliatev1.ReceiveProcessorEventResponse, error) {
	select {
	case s.receiving <- struct{}{}:
		defer func() { <-s.receiving }()
	default:
		return nil, affiliate.Refuse(affiliate.ReasonServiceUnavailable)
	}
	name, api, err := s.processor(req.GetProcessor())
	if err != nil {
		return nil, err
	}
	id, ok := affiliate.ParseID[processor.ConnectionID](req.GetConnectionId())
	if !ok {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	now := s.now()
	if lookedUp, ok := s.unknown.Peek(id); ok && now.Sub(lookedUp) < unknownLife {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	connection, err := processors.ConnectionByID(ctx, s.DB, id)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		s.unknown.Add(id, now)
	}
	if err != nil {
		return nil, err
	}
	if connection.Processor != name {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	body := req.GetBody().GetData()
	secrets, err := s.secretsOf(connection, now)
	if err != nil {
		return nil, err
	}
	if err := api.Verify(body, signatureFrom(ctx, name), secrets, now); err != nil {
		return nil, errors.Join(affiliate.Refuse(affiliate.ReasonInvalidSignature), s.countFailure(ctx, connection.Connection, now))
	}
	event, ok := api.Envelope(body)
	if !ok {
		return nil, affiliate.Invalid(affiliate.WholeBody, "must be an event of the payment processor")
	}
	if event.Live != (connection.Mode == affiliate.ModeLive) || event.Account != "" {
		return &affiliatev1.ReceiveProcessorEventResponse{Status: affiliatev1.ReceivedEventStatus_RECEIVED_EVENT_STATUS_IGNORED}, nil
	}
	stored := s.newEvent(connection.Connection, event, body, now)
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error { return storeEvent(ctx, tx, stored) })
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ReceiveProcessorEventResponse{Status: affiliatev1.ReceivedEventStatus_RECEIVED_EVENT_STATUS_RECEIVED}, nil
}

func (s *Service) newEvent(c processor.Connection, event processor.Event, body []byte, now time.Time) processor.StoredProcessorEvent {
	return processor.StoredProcessorEvent{
		EventKey: processor.EventKey{Workspace: c.Workspace, Mode: c.Mode, Connection: c.ID, Event: event.ID},
		Type:     event.Type, Account: c.Account, Body: s.seal(c.ID, sealedEvent, body), Status: processor.EventReceived,
		HappenedAt: event.CreatedAt, ReceivedAt: now,
	}
}

// storeEvent stores an event and its job, unless the event is already stored.
func storeEvent(ctx context.Context, tx *postgres.Tx, event processor.StoredProcessorEvent) error {
	stored, err := processors.InsertEvent(ctx, tx, event)
	if err != nil || !stored {
		return err
	}
	return tx.Enqueue(ctx, processor.ApplyProcessorEvent{EventKey: event.EventKey})
}

// secretsOf returns the signing secrets that are valid at a time.
func (s *Service) secretsOf(c processor.LockedProcessorConnection, now time.Time) ([]string, error) {
	sealed := [][]byte{c.Secret}
	if until := c.PreviousSecretUntil; until != nil && now.Before(*until) {
		sealed = append(sealed, c.PreviousSecret)
	}
	secrets := make([]string, len(sealed))
	for i, value := range sealed {
		plain, err := s.open(c.ID, sealedSecret, value)
		if err != nil {
			return nil, fmt.Errorf("open the secret of connection %s: %w", c.ID, err)
		}
		secrets[i] = string(plain)
	}
	return secrets, nil
}

// signatureFrom returns the value of the processor's signature header, for example
// Stripe-Signature, from the metadata of a call.
func signatureFrom(ctx context.Context, name conversion.ProcessorName) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get(string(name)+"-signature"), ",")
}

// The number of signature failures of a connection is written to the database at most failureWrites
// times in each failureInterval.
const (
	failureWrites   = 10
	failureInterval = time.Second
)

// failureCounter counts messages whose signature is not valid. Anybody can send such messages,
// so the number of writes is limited.
type failureCounter struct {
	mu     sync.Mutex
	counts map[processor.ConnectionID]*failureCount
}

type failureCount struct {
	unwritten int64
	writes    int       // number of writes since begunAt
	begunAt   time.Time // beginning of the interval
}

// add counts one failure. It returns the number of failures to add in the database now. 0 means that
// a later call returns them.
func (f *failureCounter) add(id processor.ConnectionID, at time.Time) (write int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := f.counts[id]
	if count == nil {
		count = &failureCount{}
		f.counts[id] = count
	}
	count.unwritten++
	if at.Sub(count.begunAt) >= failureInterval {
		count.writes, count.begunAt = 0, at
	}
	if count.writes == failureWrites {
		return 0
	}
	count.writes++
	write, count.unwritten = count.unwritten, 0
	return write
}

// countFailure counts a message whose signature is not valid.
func (s *Service) countFailure(ctx context.Context, c processor.Connection, at time.Time) error {
	failures := s.failures.add(c.ID, at)
	if failures == 0 {
		return nil
	}
	return processors.AddSignatureFailures(ctx, s.DB, c, failures, at)
}

const (
	// unknownLife is how long the id of a connection that does not exist is remembered. If another
	// process creates the connection in this time, its events are refused until the time is over.
	unknownLife = 5 * time.Second
	// maxUnknown is the maximum number of these ids in memory.
	maxUnknown = 10_000
)
