package webhook

import (
	"context"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Bound sets the bounds of a client's attempts, before its first.
func (c *Client) Bound(dial, handshake, discard time.Duration) {
	c.dialer.dialTime, c.dialer.handshakeTime, c.discardTime = dial, handshake, discard
}

// Connect dials an address that was not judged before, as a dialer does that was led
// astray.
func (c *Client) Connect(ctx context.Context, to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, c.dialer.dialTime)
	defer cancel()
	rules, err := c.dialer.rules()
	if err != nil {
		return err
	}
	conn, err := c.dialer.connect(ctx, rules, []netip.Addr{to.Addr()}, to.Port())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// CancelBlock runs one block of a cancellation.
func CancelBlock(ctx context.Context, store Store, now func() time.Time, job affiliate.CancelDeliveries, limit int) (int, error) {
	return (&cancelWorker{store: store, now: now}).cancelBlock(ctx, job, limit)
}

// RecoverBlock runs one block of a recovery.
func RecoverBlock(ctx context.Context, store Store, now func() time.Time, job affiliate.RecoverDeliveries, limit int) (int, error) {
	return (&recoverWorker{store: store, now: now}).recoverBlock(ctx, job, limit)
}

// Record stores the outcomes of attempts.
func Record(ctx context.Context, queue Queue, results []webhook.AttemptResult) ([]affiliate.Endpoint, error) {
	return record(ctx, queue, results)
}

// Wait sets how long an attempt may take, before the first.
func (s *Sender) Wait(timeout time.Duration) { s.timeout = timeout }

// Room sets how many attempts may be under way, before the first.
func (s *Sender) Room(attempts int) { s.places.total = attempts }
