package webhook

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// maxEventAge is the maximum age of an event whose deliveries can be read, retried and
// recovered. Older deliveries stay in the tables for some time.
const maxEventAge = 30 * 24 * time.Hour

// Sealer encrypts and decrypts signing secrets. Package seal implements it.
type Sealer interface {
	// Seal encrypts plain. The result can be decrypted only with the same additional data
	// (aad).
	Seal(plain, aad []byte) []byte
	// Open decrypts a result of Seal.
	Open(sealed, aad []byte) ([]byte, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// Seal encrypts signing secrets. The additional data is the endpoint's id in binary
	// form, so a secret cannot be decrypted as the secret of another endpoint.
	Seal Sealer
	// Client checks URLs and sends pings.
	Client *Client
	// Now is the clock.
	Now func() time.Time
}

// Service implements affiliate.v1.WebhookService.
type Service struct {
	affiliatev1.UnimplementedWebhookServiceServer

	db     *postgres.DB
	seal   Sealer
	client *Client
	now    func() time.Time
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, seal: c.Seal, client: c.Client, now: c.Now}
}

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return currentTime(s.now) }

// pathID parses an id in a request's path. Errors: WEBHOOK_NOT_FOUND if the text is not a
// UUID.
func pathID[I affiliate.AnyID](text string) (I, error) {
	id, ok := affiliate.ParseID[I](text)
	if !ok {
		return id, affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return id, nil
}
