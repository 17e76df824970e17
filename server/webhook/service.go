package webhook

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// shown is the greatest age of the event of a delivery that can be read, retried or
// recovered. Partitions are kept for longer.
const shown = 30 * 24 * time.Hour

// Sealer is what the service needs of the encryption keys (package seal).
type Sealer interface {
	// Seal encrypts; only with the same additional data does it open again.
	Seal(plain, aad []byte) []byte
	// Open decrypts what Seal made.
	Open(sealed, aad []byte) ([]byte, error)
}

// Config is what the service is made of.
type Config struct {
	Store Store
	// Seal encrypts signing secrets, each for its endpoint: the additional data are
	// the bytes of the endpoint's id.
	Seal Sealer
	// Client checks URLs and sends pings.
	Client *Client
	// Now is the clock.
	Now func() time.Time
}

// Service is affiliate.v1.WebhookService.
type Service struct {
	affiliatev1.UnimplementedWebhookServiceServer

	store  Store
	seal   Sealer
	client *Client
	now    func() time.Time
}

// New makes the service.
func New(c Config) *Service {
	return &Service{store: c.Store, seal: c.Seal, client: c.Client, now: c.Now}
}

// at returns the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return at(s.now) }

// pathID reads an id of a path. A text that is not a UUID is WEBHOOK_NOT_FOUND.
func pathID[T any](text string) (affiliate.ID[T], error) {
	id, ok := affiliate.ParseID[T](text)
	if !ok {
		return id, affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return id, nil
}
