package click

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// clickColumns are the columns of a click, in the order of appendClick. clickFields is their number.
const (
	clickColumns = `workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code,
		received_at, expires_at, created_at, occurred_at, landing_url, referrer_domain,
		utm_source, utm_medium, utm_campaign, utm_term, utm_content, sub_id, consent, language, screen,
		ip_hash, ip_prefix, ua_hash, is_bot, bot_reason, foreign_origin,
		country, region, device, browser, os, paid_platform, is_unique`
	clickFields = 36
)

// copyClicks does the same as pgx's CopyFrom in a seventh of the CPU time per row, because it
// encodes the fields without interface values and without a look-up of encoders.
func copyClicks(ctx context.Context, tx *postgres.Tx, table string, clicks []click.Click) error {
	_, err := tx.Conn().PgConn().CopyFrom(ctx, newClickRows(clicks), "copy "+table+" ("+clickColumns+") from stdin binary")
	return err
}

// clickRows is an io.Reader that returns clicks in COPY's binary format. It encodes one click at a time.
type clickRows struct {
	clicks []click.Click // not encoded yet
	buf    []byte        // the file header, click or end marker that was encoded last
	unsent []byte        // the part of buf that has not been read yet
	ended  bool          // the end marker has been encoded
}

func newClickRows(clicks []click.Click) *clickRows {
	// The signature, followed by empty flags and an empty header extension.
	head := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	return &clickRows{clicks: clicks, buf: head, unsent: head}
}

// Read implements io.Reader.
func (r *clickRows) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.unsent) == 0 && !r.next() {
			return n, io.EOF
		}
		sent := copy(p[n:], r.unsent)
		n, r.unsent = n+sent, r.unsent[sent:]
	}
	return n, nil
}

// next encodes the next click, or the end marker after the last click. After the end marker it returns false.
func (r *clickRows) next() bool {
	switch {
	case r.ended:
		return false
	case len(r.clicks) == 0:
		r.buf, r.ended = append(r.buf[:0], 0xff, 0xff), true
	default:
		r.buf = appendClick(r.buf[:0], &r.clicks[0])
		r.clicks = r.clicks[1:]
	}
	r.unsent = r.buf
	return true
}

func appendClick(b []byte, c *click.Click) []byte {
	b = binary.BigEndian.AppendUint16(b, clickFields)
	b = appendUUID(b, c.Workspace.UUID)
	b = appendUUID(b, c.ID.UUID)
	b = appendTime(b, c.ClickedAt)
	b = appendValue(b, c.Mode)
	b = appendUUID(b, c.Program.UUID)
	b = appendUUID(b, c.Participant.UUID)
	b = appendUUID(b, c.Link.UUID)
	b = appendValue(b, c.ReferralCode)
	b = appendTime(b, c.ReceivedAt)
	b = appendTime(b, c.ExpiresAt)
	b = appendTime(b, c.CreatedAt)
	if c.OccurredAt == nil {
		b = appendNull(b)
	} else {
		b = appendTime(b, *c.OccurredAt)
	}
	b = appendOptional(b, c.LandingURL)
	b = appendOptional(b, c.ReferrerDomain)
	b = appendOptional(b, c.Source)
	b = appendOptional(b, c.Medium)
	b = appendOptional(b, c.Campaign)
	b = appendOptional(b, c.Term)
	b = appendOptional(b, c.Content)
	b = appendOptional(b, c.SubID)
	b = appendValue(b, c.Consent)
	b = appendOptional(b, c.Language)
	b = appendOptional(b, c.Screen)
	b = appendOptional(b, c.IPHash)
	b = appendOptional(b, c.IPPrefix)
	b = appendOptional(b, c.UAHash)
	b = appendBool(b, c.IsBot)
	b = appendOptional(b, c.BotReason)
	b = appendBool(b, c.ForeignOrigin)
	b = appendOptional(b, c.Country)
	b = appendOptional(b, c.Region)
	b = appendOptional(b, c.Device)
	b = appendOptional(b, c.Browser)
	b = appendOptional(b, c.OS)
	b = appendOptional(b, c.PaidPlatform)
	return appendBool(b, c.Unique)
}

func appendNull(b []byte) []byte { return append(b, 0xff, 0xff, 0xff, 0xff) }

// appendValue writes a text or bytea value, which can be empty but not null.
func appendValue[T ~string | ~[]byte](b []byte, value T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

// appendOptional writes a text or bytea value. An empty value becomes null.
func appendOptional[T ~string | ~[]byte](b []byte, value T) []byte {
	if len(value) == 0 {
		return appendNull(b)
	}
	return appendValue(b, value)
}

// appendUUID writes a UUID. The zero UUID becomes null.
func appendUUID(b []byte, u uuid.UUID) []byte {
	if u == uuid.Nil {
		return appendNull(b)
	}
	return append(append(b, 0, 0, 0, 16), u[:]...)
}

func appendBool(b []byte, value bool) []byte {
	if value {
		return append(b, 0, 0, 0, 1, 1)
	}
	return append(b, 0, 0, 0, 1, 0)
}

const (
	// appendTime sends an instant unchanged if it is less than maxUnixSeconds (about
	// 278,000 years) before or after 1970. Otherwise it sends invalidMicros. Postgres
	// rejects this number as invalid data. The next larger number would mean infinity.
	maxUnixSeconds = 1 << 43
	invalidMicros  = math.MaxInt64 - 1
)

func appendTime(b []byte, t time.Time) []byte {
	micros := int64(invalidMicros)
	if s := t.Unix(); -maxUnixSeconds < s && s < maxUnixSeconds {
		micros = t.UnixMicro() - postgres.PgEpoch
	}
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(micros))
}
