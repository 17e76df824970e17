package click_test

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// rowOfClick returns the row that the table clicks must have for a click.
func rowOfClick(c click.Click) map[string]any {
	id := func(u uuid.UUID) any {
		if u == uuid.Nil {
			return nil
		}
		return [16]byte(u)
	}
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	raw := func(b []byte) any {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	row := map[string]any{
		"workspace_id": id(c.Workspace.UUID), "id": id(c.ID.UUID), "clicked_at": c.ClickedAt, "mode": string(c.Mode),
		"program_id": id(c.Program.UUID), "participant_id": id(c.Participant.UUID), "link_id": id(c.Link.UUID), "referral_code": c.ReferralCode,
		"received_at": c.ReceivedAt, "expires_at": c.ExpiresAt, "created_at": c.CreatedAt, "occurred_at": nil,
		"landing_url": text(c.LandingURL), "referrer_domain": text(c.ReferrerDomain),
		"utm_source": text(c.Source), "utm_medium": text(c.Medium), "utm_campaign": text(c.Campaign),
		"utm_term": text(c.Term), "utm_content": text(c.Content), "sub_id": text(c.SubID),
		"consent": string(c.Consent), "language": text(c.Language), "screen": text(c.Screen),
		"ip_hash": raw(c.IPHash), "ip_prefix": text(c.IPPrefix), "ua_hash": raw(c.UAHash),
		"is_bot": c.IsBot, "bot_reason": text(c.BotReason), "foreign_origin": c.ForeignOrigin,
		"country": text(c.Country), "region": text(c.Region), "device": text(c.Device), "browser": text(c.Browser), "os": text(c.OS),
		"paid_platform": text(c.PaidPlatform), "is_unique": c.Unique,
	}
	if c.OccurredAt != nil {
		row["occurred_at"] = *c.OccurredAt
	}
	return row
}

// clicksOfEveryKind returns a click with all fields, a click without optional fields and
// clicks with very long texts and very early or late times.
func clicksOfEveryKind() map[string]click.Click {
	now := time.Now().UTC().Truncate(time.Microsecond)
	earlier := now.Add(-time.Hour)
	complete := click.Click{
		Scope:   affiliate.Scope{Workspace: affiliate.NewID[affiliate.WorkspaceID](now), Mode: affiliate.ModeTest},
		Program: affiliate.NewID[affiliate.ProgramID](now), Participant: affiliate.NewID[affiliate.ParticipantID](now), Link: affiliate.NewID[affiliate.LinkID](now),
		ReferralCode: "änna", ClickedAt: now.Add(time.Microsecond), ReceivedAt: now.Add(2 * time.Microsecond), ExpiresAt: now.Add(3 * time.Microsecond),
		CreatedAt: now.Add(4 * time.Microsecond), OccurredAt: &earlier, LandingURL: "https://shop.example/", ReferrerDomain: "news.example",
		UTM:   click.UTM{Source: "source", Medium: "medium", Campaign: "campaign", Term: "term", Content: "content"},
		SubID: "sub", Consent: click.ConsentGranted, Language: "de", Screen: "1x1",
		IPHash: []byte{0, 0xff}, IPPrefix: "203.0.113.0/24", UAHash: []byte{1}, IsBot: true, BotReason: "agent",
		Country: "DE", Region: "BE", Device: "desktop", Browser: "Firefox", OS: "Linux", PaidPlatform: "google", Unique: true, ForeignOrigin: true,
	}
	minimal := click.Click{
		Scope: complete.Scope, Program: complete.Program, Participant: complete.Participant, Link: complete.Link,
		ClickedAt: now, ReceivedAt: now, ExpiresAt: now, CreatedAt: now, IPHash: []byte{}, UAHash: []byte{},
	}
	// These values do not fit into one COPY message, so they are sent in parts.
	long := complete
	long.SubID, long.LandingURL, long.IPHash = strings.Repeat("ß", 100_000), strings.Repeat("x", 70_000), nil
	old, far := minimal, minimal
	old.ReceivedAt, old.ExpiresAt = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	far.ReceivedAt, far.ExpiresAt = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(250_000, 1, 1, 0, 0, 0, 0, time.UTC)
	clicks := map[string]click.Click{"complete": complete, "minimal": minimal, "long": long, "old": old, "far": far}
	for name, c := range clicks {
		c.ID = affiliate.NewID[affiliate.ClickID](now)
		clicks[name] = c
	}
	return clicks
}

func TestStoreClicks_StoresEveryColumn(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	kinds := clicksOfEveryKind()
	first := slices.Collect(maps.Values(kinds))
	if err := clicks.Store(t.Context(), f.DB, first); err != nil {
		t.Fatal(err)
	}
	// Store the clicks again with new ids, together with one click that already exists.
	// COPY fails because of the existing click, so Store inserts these clicks with
	// another statement.
	again := clicksOfEveryKind()
	if err := clicks.Store(t.Context(), f.DB, append(slices.Collect(maps.Values(again)), first[0])); err != nil {
		t.Fatal(err)
	}
	for way, stored := range map[string]map[string]click.Click{"copied": kinds, "merged": again} {
		for name, c := range stored {
			rows, err := f.SQL.Query(t.Context(), `select * from clicks where workspace_id = $1 and mode = $2 and id = $3`, c.Workspace, c.Mode, c.ID)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
			if err != nil {
				t.Fatalf("read the click %s that was %s: %v", name, way, err)
			}
			for column, want := range rowOfClick(c) {
				value, ok := got[column]
				if at, isTime := value.(time.Time); isTime {
					value = at.UTC()
				}
				if !ok || !reflect.DeepEqual(value, want) {
					t.Errorf("%s, %s: %s is %v, want %v", name, way, column, value, want)
				}
				delete(got, column)
			}
			if len(got) > 0 {
				t.Errorf("%s, %s: the table has unexpected columns: %v", name, way, got)
			}
		}
	}
}

// A time that Postgres cannot store is rejected as invalid data. It must not become
// infinity or, after an overflow, another time.
func TestStoreClicks_RejectsTimesOutOfRange(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	for _, at := range []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 / 1000, 1 << 43 * 1000, -1 << 43 * 1000} {
		batch := clicksOf(affiliate.NewID[affiliate.WorkspaceID](time.Now()), 1)
		batch[0].ExpiresAt = time.UnixMilli(at)
		var data *clicks.DataError
		if err := clicks.Store(t.Context(), f.DB, batch); !errors.As(err, &data) {
			t.Errorf("StoreClicks with the time %d ms returned %v, want a DataError", at, err)
		}
	}
}
