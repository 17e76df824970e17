package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/event"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// pingTimeout is the time limit of a ping. It is half of the time limit of an API call.
const pingTimeout = 10 * time.Second

// TestWebhook sends a ping event to an endpoint and returns the outcome. It stores
// nothing.
func (s *Service) TestWebhook(ctx context.Context, req *affiliatev1.TestWebhookRequest) (*affiliatev1.TestWebhookResponse, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	endpoint, sealed, err := webhooks.EndpointSecrets(ctx, s.db, scope, id, at)
	if err != nil {
		return nil, err
	}
	secrets, err := openSecrets(s.seal, id, sealed)
	if err != nil {
		return nil, err
	}
	event := affiliate.NewEvent(scope, affiliate.EventWebhookPing, at, event.PingObject{Endpoint: id, Description: endpoint.Description}, nil)
	body, err := event.Body()
	if err != nil {
		return nil, fmt.Errorf("ping of endpoint %s: %w", id, err)
	}
	outcome := s.client.Send(ctx, Request{
		URL: endpoint.URL, ID: event.WireID(), Attempt: 1, Body: body, Secrets: secrets, At: at, Timeout: pingTimeout,
	})
	response := &affiliatev1.TestWebhookResponse{Success: outcome.Succeeded(), ErrorMessage: server.OptionalString(outcome.ErrorCode)}
	if outcome.StatusCode != 0 {
		response.HttpStatusCode = optionalInt32(&outcome.StatusCode)
	}
	return response, nil
}

// openSecrets decrypts the signing secrets of an endpoint.
func openSecrets(seal Sealer, endpoint affiliate.EndpointID, sealed [][]byte) ([]webhook.Secret, error) {
	secrets := make([]webhook.Secret, len(sealed))
	for i, s := range sealed {
		secret, err := seal.Open(s, endpoint.UUID[:])
		if err != nil {
			return nil, fmt.Errorf("secret of endpoint %s: %w", endpoint, err)
		}
		secrets[i] = secret
	}
	return secrets, nil
}
