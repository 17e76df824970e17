package account

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// ProcessRequest does the work of the job affiliate.ProcessEmailRequest.
func (s *Service) ProcessRequest(ctx context.Context, id affiliate.EmailRequestID) error {
	return s.processRequest(ctx, id)
}
