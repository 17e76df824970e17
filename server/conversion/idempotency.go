package conversion

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// keyFrom returns the Idempotency-Key of a request, or nil if the request has no key.
func (s *Service) keyFrom(ctx context.Context, method string, req proto.Message, now time.Time) (*affiliate.IdempotencyKey, error) {
	key, ok, present := server.IdempotencyKeyFrom(ctx)
	switch {
	case !present:
		return nil, nil
	case !ok:
		return nil, server.ErrIdempotencyKeyMalformed
	}
	fingerprints := affiliate.HashKeys(s.hasher.keys).Digests(func(key []byte) []byte { return server.Fingerprint(key, req) })
	return &affiliate.IdempotencyKey{Method: method, Key: key, Fingerprint: fingerprints.First(), Earlier: fingerprints[1:], At: now}, nil
}

// replayedResponse returns the response to a request whose Idempotency-Key was used
// before. stored is the encoded outcome of the first request. stored and err are the
// results of a call that reads the outcome. If err is not nil, replayedResponse returns
// it.
func replayedResponse(stored []byte, err error) (response *affiliatev1.ReportConversionResponse, replayed bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	outcome, err := conversion.DecodeReportOutcome(stored)
	if err != nil {
		return nil, false, fmt.Errorf("outcome stored under an idempotency key: %w", err)
	}
	return responseOf(outcome), true, nil
}
