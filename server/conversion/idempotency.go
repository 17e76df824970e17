package conversion

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// keyFrom is the Idempotency-Key that a request came with; nil without one.
func (s *Service) keyFrom(ctx context.Context, method string, req proto.Message, now time.Time) (*affiliate.IdempotencyKey, error) {
	key, ok, present := server.IdempotencyKeyFrom(ctx)
	switch {
	case !present:
		return nil, nil
	case !ok:
		return nil, affiliate.Invalid("Idempotency-Key", "must be 1 to 80 letters, digits, hyphens and underscores")
	}
	return &affiliate.IdempotencyKey{Method: method, Key: key, Fingerprint: server.Fingerprint(s.hasher.key, req), At: now}, nil
}

// replay is an answer that was kept under a key, or why there is none.
func replay(answer []byte, err error) (response *affiliatev1.ReportConversionResponse, replayed bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	response = &affiliatev1.ReportConversionResponse{}
	if err := proto.Unmarshal(answer, response); err != nil {
		return nil, false, fmt.Errorf("answer kept under an idempotency key: %w", err)
	}
	return response, true, nil
}
