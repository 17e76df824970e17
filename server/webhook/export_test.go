package webhook

import (
	"context"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// SetTimeouts sets the time limits of a client. It must be called before the first
// attempt.
func (c *Client) SetTimeouts(dial, handshake, discard time.Duration) {
	c.dialer.dialTimeout, c.dialer.handshakeTimeout, c.discardTimeout = dial, handshake, discard
}

// Connect calls dialer.connect for an address. Send checks addresses earlier, so only
// Connect can test the check in dialer.connect.
func (c *Client) Connect(ctx context.Context, address netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, c.dialer.dialTimeout)
	defer cancel()
	rules, err := c.dialer.rules()
	if err != nil {
		return err
	}
	conn, err := c.dialer.connect(ctx, rules, []netip.Addr{address.Addr()}, address.Port())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// CancelBlock runs one block of a cancel job.
func CancelBlock(ctx context.Context, db *postgres.DB, now func() time.Time, job webhook.CancelDeliveries, limit int) (int, error) {
	return blockWorker{db: db, now: now}.cancelBlock(ctx, job, limit)
}

// RecoverBlock runs one block of a recovery job.
func RecoverBlock(ctx context.Context, db *postgres.DB, now func() time.Time, job webhook.RecoverDeliveries, limit int) (int, error) {
	return blockWorker{db: db, now: now}.recoverBlock(ctx, job, limit)
}

// SetAttemptTimeout sets the time limit of an attempt. It must be called before Run.
func (s *Sender) SetAttemptTimeout(timeout time.Duration) { s.timeout = timeout }

// SetMaxInFlight sets the maximum number of attempts in flight. It must be called before
// Run.
func (s *Sender) SetMaxInFlight(attempts int) { s.slots.total = attempts }
