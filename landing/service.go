// Package landing is the service of the forms of a public landing page: the waitlist with
// its counter, and the contact form.
//
// proto/landing/v1 defines the routes. A request passes through these steps:
//
//  1. set common headers, require HTTPS, respond to OPTIONS, find the route (handler.go)
//  2. count the POST for the rate limit, read the body (handler.go)
//  3. decode the body (decode.go)
//  4. call the service: check the form and store it (service.go)
//  5. encode the response (decode.go) or the error (handler.go)
//
// Steps 3 to 5 run in grpc-gateway, which calls the service in the same process.
//
// Guarantees: the response to a sign-up does not say whether the address was on the
// waitlist before. A contact message is stored before its response, and a job repeats the
// mail to the operator until the mail server accepts it. Text of a form never becomes a
// header or markup of this mail. Rows are deleted when they are 12 months old.
//
// The rate limit is shared by all processes through Redis. Without Redis, each process
// counts on its own, and everything else works as before.
//
// Not guaranteed: that a mail is sent only once. If the process stops after the mail server
// has accepted a mail, the job sends the mail again, with the same Message-ID.
package landing

import (
	"context"
	"log/slog"
	netmail "net/mail"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/idna"

	"github.com/tributary-hq/tributary/affiliate"
	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
	"github.com/tributary-hq/tributary/landing/store"
)

const storeTimeout = 5 * time.Second

// Config configures a Service.
type Config struct {
	Store *store.Store
	// WaitlistBase is added to the number of sign-ups in the counter. WaitlistTotal is the
	// number of places, which the counter does not exceed.
	WaitlistBase, WaitlistTotal int32
	Log                         *slog.Logger
	Registry                    prometheus.Registerer
	Now                         func() time.Time
	// ServerTime returns the time of Postgres, with which River compares the times of jobs.
	// Default: time.Now.
	ServerTime func() time.Time
}

// Service implements landingv1.LandingServiceServer.
type Service struct {
	landingv1.UnimplementedLandingServiceServer
	config  Config
	counter *counter
	metrics *metrics
}

// New returns a Service.
func New(config Config) *Service {
	if config.ServerTime == nil {
		config.ServerTime = time.Now
	}
	s := &Service{config: config, counter: &counter{Config: config, count: config.Store.CountWaitlist}, metrics: newMetrics(config.Registry)}
	config.Registry.MustRegister(unmailedCollector{s})
	return s
}

// storeContext returns a context for storing a form. The form is stored even if the client
// closes the connection, because the visitor has sent it.
func storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// JoinWaitlist implements landingv1.LandingServiceServer.
func (s *Service) JoinWaitlist(ctx context.Context, req *landingv1.JoinWaitlistRequest) (*landingv1.JoinWaitlistResponse, error) {
	if err := checkSpam(req.Website, float64(req.ElapsedMs)); err != nil {
		return nil, err
	}
	email, err := parseEmail(req.Email)
	if err != nil {
		return nil, err
	}
	ctx, cancel := storeContext(ctx)
	defer cancel()
	if err := s.config.Store.AddToWaitlist(ctx, strings.ToLower(email), s.config.Now()); err != nil {
		return nil, err
	}
	s.metrics.signups.Inc()
	return &landingv1.JoinWaitlistResponse{}, nil
}

// GetWaitlistCount implements landingv1.LandingServiceServer.
func (s *Service) GetWaitlistCount(ctx context.Context, _ *landingv1.GetWaitlistCountRequest) (*landingv1.GetWaitlistCountResponse, error) {
	return s.counter.get(ctx)
}

// SendContactMessage implements landingv1.LandingServiceServer.
func (s *Service) SendContactMessage(ctx context.Context, req *landingv1.SendContactMessageRequest) (*landingv1.SendContactMessageResponse, error) {
	if err := checkSpam(req.Website, req.ElapsedMs); err != nil {
		return nil, err
	}
	message := store.ContactMessage{CreatedAt: s.config.Now()}
	message.ID = affiliate.NewID[affiliate.ID[store.ContactMessage]](message.CreatedAt).UUID
	var err error
	if message.Email, err = parseEmail(req.Email); err != nil {
		return nil, err
	}
	if message.Name, err = trimmed(req.Name, 1, maxName, "name must have 1 to 100 characters."); err != nil {
		return nil, err
	}
	if message.Message, err = trimmed(req.Message, minMessage, maxMessage, "message must have 10 to 5000 characters."); err != nil {
		return nil, err
	}
	ctx, cancel := storeContext(ctx)
	defer cancel()
	if err := s.config.Store.AddContactMessage(ctx, message); err != nil {
		return nil, err
	}
	s.metrics.contacts.Inc()
	return &landingv1.SendContactMessageResponse{}, nil
}

// The bounds of elapsedMs, both included (docs/landing-page.md#against-spam).
const (
	minElapsedMs = 1500
	maxElapsedMs = 1_800_000
)

// The lengths of fields, in characters.
const (
	maxEmail   = 320
	maxName    = 100
	minMessage = 10
	maxMessage = 5000
)

// checkSpam refuses a form that was probably sent by a program. elapsedMs is 0 if the form
// has no valid elapsedMs.
func checkSpam(website string, elapsedMs float64) error {
	if website != "" || elapsedMs < minElapsedMs || elapsedMs > maxElapsedMs {
		return affiliate.Refuse(reasonAntiSpam)
	}
	return nil
}

// parseEmail returns an e-mail address without white space around it. It allows up to 320
// characters. SMTP allows fewer. If an address is too long for SMTP, package mail sends the
// mail without Reply-To. A domain with non-ASCII letters keeps its spelling.
func parseEmail(text string) (string, error) {
	email := strings.TrimSpace(text)
	if utf8.RuneCountInString(email) > maxEmail {
		return "", affiliate.Refuse(reasonInvalidEmail) // the parser is slow for long texts
	}
	parsed, err := netmail.ParseAddress(email)
	// ParseAddress also accepts names, comments and quotes. The result is then not equal to
	// the text.
	if err != nil || parsed.Address != email {
		return "", affiliate.Refuse(reasonInvalidEmail)
	}
	domain := email[strings.LastIndexByte(email, '@')+1:]
	if ascii, err := idna.Lookup.ToASCII(domain); err != nil || !strings.Contains(ascii, ".") {
		return "", affiliate.Refuse(reasonInvalidEmail)
	}
	return email, nil
}

// trimmed returns a text without white space around it, if its length is allowed. message
// is the message of the error.
func trimmed(text string, shortest, longest int, message string) (string, error) {
	text = strings.TrimSpace(text)
	if n := utf8.RuneCountInString(text); n < shortest || n > longest {
		return "", &affiliate.Error{Reason: reasonInvalidRequest, Message: message}
	}
	return text, nil
}

const (
	// countLifetime is the time for which a process caches the counter.
	countLifetime = 45 * time.Second
	// countPause is the time without a new query after a query has failed.
	countPause = time.Second
	// refreshTimeout is the time after which a request gets the last value although the query
	// is still running.
	refreshTimeout = 500 * time.Millisecond
)

// counter caches the counter of the waitlist.
//
// If the database fails, get returns the last known value, however old it is, because an
// old number is more useful to a visitor than an error. It returns an error only if there
// is no such value.
type counter struct {
	Config
	count func(context.Context) (int64, error)

	mu      sync.Mutex                          // protects the fields below
	last    *landingv1.GetWaitlistCountResponse // nil before the first query that succeeds
	err     error                               // the error of the last query
	expires time.Time                           // the time of the next query
	running chan struct{}                       // closed when the running query ends; nil if none runs
}

// get returns the counter. If the cached value has expired, concurrent callers share one query.
// The caller that starts the query waits for it, at most refreshTimeout if there is a last
// value. Without a last value, the other callers wait too.
func (c *counter) get(ctx context.Context) (*landingv1.GetWaitlistCountResponse, error) {
	c.mu.Lock()
	if c.Now().Before(c.expires) {
		defer c.mu.Unlock()
		return c.value()
	}
	last, running := c.last, c.running
	started := running == nil
	if started {
		running = make(chan struct{})
		c.running = running
		go c.query()
	}
	c.mu.Unlock()
	if last != nil {
		if !started {
			return last, nil
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
	}
	select {
	case <-running:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.value()
	case <-ctx.Done():
		if last == nil {
			return nil, ctx.Err()
		}
		return last, nil
	}
}

// value returns the last value. The caller has locked mu.
func (c *counter) value() (*landingv1.GetWaitlistCountResponse, error) {
	if c.last == nil {
		return nil, c.err
	}
	return c.last, nil
}

// query counts the waitlist. It does not use the context of a request, because other
// requests use its result too.
func (c *counter) query() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	n, err := c.count(ctx)
	if err != nil {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "the waitlist cannot be counted", slog.Any("error", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.expires = err, c.Now().Add(countPause)
	if err == nil {
		taken := min(n+int64(c.WaitlistBase), int64(c.WaitlistTotal))
		c.last = &landingv1.GetWaitlistCountResponse{Taken: int32(taken), Total: c.WaitlistTotal} // #nosec G115 -- at most total
		c.expires = c.Now().Add(countLifetime)
	}
	close(c.running)
	c.running = nil
}
