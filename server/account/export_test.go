package account

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate/account"
)

// ProcessRequest does the work of the job account.ProcessEmailRequest.
func (s *Service) ProcessRequest(ctx context.Context, id account.EmailRequestID) error {
	return s.processRequest(ctx, account.ProcessEmailRequest{Request: id})
}
