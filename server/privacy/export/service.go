package export

import (
	"log/slog"
	"strings"
	"time"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Sealer encrypts and decrypts pieces of bundles and tokens in mails, and decrypts payout
// accounts. Package seal implements it.
type Sealer interface {
	// Seal encrypts plain. The result can be decrypted only with the same additional data
	// (aad).
	Seal(plain, aad []byte) []byte
	// Open decrypts a result of Seal.
	Open(sealed, aad []byte) ([]byte, error)
}

// Limits are the sizes of bundles (docs/merchant/privacy.md#exports).
type Limits struct {
	// Records and Bytes are the largest bundle of a partner or of a participant. Bytes are
	// counted before compression.
	Records, Bytes int64
	// DirectRecords and DirectBytes are the largest bundle of a workspace that is made within
	// the request.
	DirectRecords, DirectBytes int64
}

// DefaultLimits are the limits of the service.
var DefaultLimits = Limits{Records: 250_000, Bytes: 50_000_000, DirectRecords: 10_000, DirectBytes: 5_000_000}

const (
	// leaseLife is how long a process that makes a bundle holds the lease after each piece.
	// If the process crashes, another one can continue after this time.
	leaseLife = 30 * time.Second
	// saveInterval is the longest time between two pieces while records are read. It is much
	// shorter than leaseLife.
	saveInterval = 5 * time.Second
	// waitInterval is the time between two reads of an export that another request makes.
	waitInterval = 50 * time.Millisecond
	// resumeLife is the age up to which a request continues an export that was interrupted.
	// An older one begins again, so that its records are not too old.
	resumeLife = 15 * time.Minute
	// maxDirect is the number of bundles that a process makes within requests at the same
	// time. Each uses a database connection.
	maxDirect = 6
	// busyRetry is the time after which a client can repeat a request that was refused
	// because too many bundles are being made.
	busyRetry = 10 * time.Second
)

// Config holds the dependencies of a Service.
type Config struct {
	DB   *postgres.DB
	Seal Sealer
	// PublicURL is the base URL of the REST API as clients see it. If it is empty, exports
	// are refused, because there would be no link.
	PublicURL string
	// Limits are DefaultLimits if they are zero.
	Limits Limits
	Log    *slog.Logger
	Now    func() time.Time
}

// Service implements affiliatev1.ExportServiceServer.
type Service struct {
	affiliatev1.UnimplementedExportServiceServer
	Config
	// direct has an element for each bundle that is made within a request.
	direct chan struct{}
}

// New returns a Service.
func New(c Config) *Service {
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits
	}
	return &Service{Config: c, direct: make(chan struct{}, maxDirect)}
}

// now returns the time in the precision in which it is stored and shown.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }
