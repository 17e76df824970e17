package export_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/privacy/export"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const publicURL = "https://api.example"

// account is the payout account of Ada.
const account = "DE89370400440532013000"

// fixture has a shop in test mode with two partners and a programme of live mode, and another
// workspace in whose programme Ada takes part too. The clock does not run.
type fixture struct {
	*pgtest.Shop
	live, other *pgtest.Shop
	clock       *pgtest.Clock
	keys        *seal.Keys
	service     *export.Service

	// ada and bob are participants of the shop. adaLive and adaElsewhere are the
	// participations of Ada in live and other. bobElsewhere belongs to Bob.
	ada, bob, adaLive, adaElsewhere, bobElsewhere pgtest.Participant
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := newEmptyFixture(t)
	ada := f.NewPartner("Ada Lovelace", pgtest.Row{"country": "GB", "company_name": "Engines Ltd", "website_url": "https://ada.example"})
	bob := f.NewPartner("Bob Secretive", pgtest.Row{"country": "DE"})
	internal := pgtest.Row{
		"note": "pays late", "external_id": "ext-of-the-merchant", "tags": []string{"vip"}, "terms_accepted_at": f.Now(), "application_answers": `{"Audience?":"Engineers"}`,
		"suspension_reason": "once suspended",
	}
	f.ada = f.NewParticipant(f.Scope, f.Program, ada, internal, pgtest.Row{"referral_code": "ada-code"})
	f.bob = f.NewParticipant(f.Scope, f.Program, bob, internal, pgtest.Row{"referral_code": "bob-code", "note": "note about bob", "external_id": "ext-of-bob"})
	f.adaLive = f.NewParticipant(f.live.Scope, f.live.Program, ada, pgtest.Row{"referral_code": "ada-live"})
	f.adaElsewhere = f.NewParticipant(f.other.Scope, f.other.Program, ada, pgtest.Row{"referral_code": "ada-elsewhere"})
	f.bobElsewhere = f.NewParticipant(f.other.Scope, f.other.Program, bob, pgtest.Row{"referral_code": "bob-elsewhere"})
	for _, p := range []pgtest.Participant{f.ada, f.bob, f.adaLive, f.adaElsewhere, f.bobElsewhere} {
		f.fill(p)
	}
	for _, user := range []affiliate.UserID{ada, bob, f.Owner, f.other.Owner} {
		f.fillAccount(user)
	}
	plain := `{"account":"` + account + `","account_holder":"Ada King"}`
	f.Insert("payout_methods", pgtest.Row{
		"user_id": ada, "method": "bank_transfer", "account": f.keys.Seal([]byte(plain), []byte(ada.String())), "account_hint": "DE…3000", "updated_at": f.Now(),
	})
	sums := analytics.New(f.DB, slog.New(slog.DiscardHandler), f.clock.Now)
	for _, s := range []*pgtest.Shop{f.Shop, f.other} {
		f.fillWorkspace(s)
		if err := sums.AddAll(t.Context(), s.Scope.Workspace); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// newEmptyFixture returns a fixture without partners.
func newEmptyFixture(t *testing.T, limits ...export.Limits) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Now().UTC().Truncate(time.Millisecond))
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest), clock: clock, keys: servertest.Seal(t)}
	f.live, f.other = f.InOtherMode(), f.NewShop(affiliate.ModeTest)
	f.Exec(`update workspaces set name = 'Other Shop' where id = $1`, f.other.Scope.Workspace)
	f.service = f.newService(f.DB, limits...)
	return f
}

func (f *fixture) newService(db *postgres.DB, limits ...export.Limits) *export.Service {
	c := export.Config{DB: db, Seal: f.keys, PublicURL: publicURL + "/", Log: slog.New(slog.DiscardHandler), Now: f.clock.Now}
	if len(limits) > 0 {
		c.Limits = limits[0]
	}
	return export.New(c)
}

// fill creates records of a participant in every table that an export reads.
func (f *fixture) fill(p pgtest.Participant) {
	f.Helper()
	link := f.NewLink(p, p.Code+"-link", func(l *link.Link) { l.SubID = "newsletter" })
	f.Exec(`update links set deleted_at = $2 where id = $1`, link.ID, f.Now())
	f.inTx(func(tx *postgres.Tx) error {
		return tx.Audit(f.Context(), affiliate.AuditLine{
			Workspace: link.Workspace, Mode: &link.Mode, Actor: affiliate.Actor{User: &p.Partner}, At: f.Now(),
			Action: "link.create", ResourceType: "link", ResourceID: link.ID, After: link.Object(),
		})
	})
	f.NewPromoCode(p, p.Code+"-promo")
	f.NewClick(p)
	old := f.Now().Add(-91 * 24 * time.Hour)
	f.NewClick(p, func(c *click.Click) {
		c.ID, c.ClickedAt, c.ReceivedAt, c.CreatedAt = affiliate.NewID[affiliate.ClickID](old), old, old, old
	})
	f.NewCommission(p, func(c *commission.Commission) {
		c.CustomerRef, c.ExternalTransactionID = new("hash-of-the-buyer"), "order-of-"+p.Code
	})
	f.NewLedgerEntry(p, 500)
	f.Exec(`update conversions set metadata = '{"buyer":"Eve Buyer"}', line_items = '[]', customer_email_domain = 'buyers.example', customer_email_hash = '\x0102'
		where participant_id = $1`, p.ID)
	conversion := f.Texts(`select id::text from conversions where participant_id = $1`, p.ID)[0]
	scope := pgtest.Row{"workspace_id": p.Scope.Workspace, "mode": p.Scope.Mode, "program_id": p.Program, "participant_id": p.ID}
	f.Insert("fraud_events", scope, pgtest.Row{
		"id": newID(f.Now()), "conversion_id": conversion, "score": 40, "action": "flagged", "status": "open", "created_at": f.Now(), "note": "looks odd",
		"signals": `[{"rule":"self_purchase","score":40,"evidence":"evidence about the buyer"}]`,
	})
	batch := newID(f.Now())
	f.Insert("payout_batches", pgtest.Row{
		"workspace_id": p.Scope.Workspace, "id": batch, "mode": p.Scope.Mode, "status": "confirmed", "program_ids": []string{}, "cutoff": f.Now(),
		"created_by": f.Owner, "created_at": f.Now(),
	})
	f.Insert("payouts", scope, pgtest.Row{
		"id": newID(f.Now()), "batch_id": batch, "partner_id": p.Partner, "amount_cents": 700, "currency": "EUR", "commission_count": 1,
		"adjustment_cents": 500, "status": "pending", "method": "paypal", "payee_name": "Erased Partner", "created_at": f.Now(), "updated_at": f.Now(),
	})
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(p.Partner), "commission.created", &p.Scope.Mode, f.Now())
	n.Workspace, n.Program, n.Participant, n.Facts = &p.Scope.Workspace, &p.Program, &p.ID, map[string]string{"amount": "EUR 2.00"}
	f.inTx(func(tx *postgres.Tx) error { return tx.Notify(f.Context(), n) })
	f.inTx(func(tx *postgres.Tx) error {
		return tx.Audit(f.Context(), affiliate.AuditLine{
			Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: affiliate.Actor{User: &f.Owner, AddressPrefix: "203.0.113.0/24"}, At: f.Now(),
			Action: "participant.approve", ResourceType: "participant", ResourceID: p.ID, After: map[string]string{"status": "approved"},
		})
	})
}

func (f *fixture) fillAccount(user affiliate.UserID) {
	f.Helper()
	now := f.Now()
	f.Exec(`update users set password_hash = $2 where id = $1`, user, "$argon2id$secret-"+user.String())
	f.Insert("sessions", pgtest.Row{"id": newID(now), "user_id": user, "created_at": now, "idle_expires_at": now, "expires_at": now})
	f.Insert("user_origins", pgtest.Row{"user_id": user, "ip_prefix": "198.51.100.0/24", "ua_hash": []byte("agent one"), "seen_at": now})
	f.Insert("user_origins", pgtest.Row{"user_id": user, "ip_prefix": "198.51.100.0/24", "ua_hash": []byte("agent two"), "seen_at": now.Add(-time.Hour)})
	f.Insert("user_devices", pgtest.Row{"user_id": user, "device": []byte("device of " + user.String()), "seen_at": now})
	f.Insert("notification_preferences", pgtest.Row{"user_id": user, "category": "commissions", "email": false})
	f.Insert("mails", pgtest.Row{
		"id": newID(now), "kind": "email_verification", "type": "email_verification", "category": "", "logged": false, "user_id": user,
		"account_kind": "partner", "recipient_name": "x", "recipient": "mail-of-" + user.String() + "@example.com", "facts": "{}",
		"status": "delivered", "created_at": now, "secret": []byte("sealed token"),
	})
	f.inTx(func(tx *postgres.Tx) error {
		return tx.AuditAccount(f.Context(), affiliate.AccountAuditLine{User: user, Actor: affiliate.Actor{User: &user}, At: now, Action: "account.register"})
	})
}

func (f *fixture) fillWorkspace(s *pgtest.Shop) {
	f.Helper()
	now, of := f.Now(), pgtest.Row{"workspace_id": s.Scope.Workspace}
	secretOf := func(what string) []byte { return []byte(what + " of " + s.Scope.Workspace.String()) }
	f.Insert("member_invites", of, pgtest.Row{
		"id": newID(now), "email": "invited@example.com", "role": "viewer", "digest": secretOf("invite"), "mail_digest": secretOf("mailed invite"), "invited_by": s.Owner, "created_at": now, "expires_at": now,
	})
	f.Insert("participant_invites", of, pgtest.Row{
		"id": newID(now), "program_id": s.Program, "mode": s.Scope.Mode, "email": "candidate@example.com", "digest": secretOf("participant invite"),
		"mail_digest": secretOf("mailed participant invite"), "invited_by": s.Owner, "created_at": now, "expires_at": now,
	})
	f.Insert("api_keys", of, pgtest.Row{
		"id": newID(now), "mode": "live", "kind": "secret", "name": "Server", "digest": secretOf("key"), "prefix": "sk_live_", "last4": "abcd", "created_at": now,
	})
	f.Insert("service_tokens", of, pgtest.Row{
		"id": newID(now), "mode": "live", "name": "Sync", "role": "manager", "allow_payouts": false, "digest": secretOf("service token"), "prefix": "st_live_",
		"last4": "abcd", "created_by": s.Owner, "created_at": now, "expires_at": now, "last_used_at": now, "last_used_ip_prefix": "198.51.100.0/24",
	})
	f.NewEndpoint(s.Scope, pgtest.Row{"secret": secretOf("webhook secret"), "subscriptions": []string{"gdpr.*"}})
	f.Insert("processor_connections", of, pgtest.Row{
		"id": newID(now), "mode": "test", "processor": "stripe", "account_id": "acct_1", "key": secretOf("processor key"), "endpoint_id": "we_1",
		"secret": secretOf("processor secret"), "create_conversions": true, "include_out_of_band": false, "connected_at": now, "updated_at": now,
	})
	f.Insert("program_rules", of, pgtest.Row{"program_id": s.Program, "version": 1, "rules": "{}", "at": now, "by": s.Owner})
	f.NewGroup(s.Scope, s.Program, "Group of "+s.Scope.Workspace.String())
	f.Insert("refunds", of, pgtest.Row{
		"id": newID(now), "mode": "test", "external_refund_id": "refund-1", "external_transaction_id": "order-x", "asked_cents": 5, "created_at": now, "expires_at": now,
	})
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(s.Scope.Workspace), "payout.paid", &s.Scope.Mode, now)
	n.Workspace = &s.Scope.Workspace
	f.inTx(func(tx *postgres.Tx) error { return tx.Notify(f.Context(), n) })
	f.Exec(`update mails set workspace_id = $2, logged = true where user_id = $1`, s.Owner, s.Scope.Workspace)
}

func newID(at time.Time) uuid.UUID { return affiliate.NewID[affiliate.RequestID](at).UUID }

func (f *fixture) inTx(fn func(tx *postgres.Tx) error) {
	f.Helper()
	if err := f.DB.InTx(f.Context(), fn); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f.TB, f.Scope, f.Owner, affiliate.RoleOwner)
}

// exportParticipant requests the export of a participant as the owner of the shop.
func (f *fixture) exportParticipant(p pgtest.Participant) (*affiliatev1.Export, error) {
	ctx := servertest.AsMember(f.TB, affiliate.Scope{Workspace: f.Scope.Workspace, Mode: p.Scope.Mode}, f.Owner, affiliate.RoleOwner)
	return f.service.ExportParticipant(ctx, &affiliatev1.ExportParticipantRequest{ProgramId: p.Program.String(), ParticipantId: p.ID.String()})
}

func (f *fixture) exportPartner(user affiliate.UserID) (*affiliatev1.Export, error) {
	return f.service.ExportPartnerAccount(servertest.AsPartner(f.TB, user, affiliate.ModeLive), &affiliatev1.ExportPartnerAccountRequest{})
}

func (f *fixture) exportMerchant() (*affiliatev1.Export, error) {
	return f.service.ExportMerchantAccount(f.asOwner(), &affiliatev1.ExportMerchantAccountRequest{})
}

// download returns the response to a download with a header Accept-Encoding.
func (f *fixture) download(link *affiliatev1.Export, accept ...string) (*servertest.Download, error) {
	ctx := f.Context()
	if len(accept) > 0 {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-accept-encoding", accept[0]))
	}
	d := servertest.NewDownload(ctx)
	return d, f.service.DownloadExport(requestOf(link), d)
}

func requestOf(link *affiliatev1.Export) *affiliatev1.DownloadExportRequest {
	return &affiliatev1.DownloadExportRequest{Token: strings.TrimPrefix(link.GetDownloadUrl(), publicURL+privacy.ExportPath)}
}

// discardingStream is the stream of a download that keeps nothing.
type discardingStream struct{ *servertest.Download }

func (discardingStream) Send(*httpbody.HttpBody) error { return nil }

func discardedDownload(ctx context.Context) discardingStream {
	return discardingStream{servertest.NewDownload(metadata.NewIncomingContext(ctx, metadata.Pairs("x-accept-encoding", "identity")))}
}

// text downloads a bundle and returns its JSON.
func (f *fixture) text(link *affiliatev1.Export) string {
	f.Helper()
	d, err := f.download(link, "gzip")
	if err != nil {
		f.Fatal(err)
	}
	return gunzip(f.TB, d.Text())
}

func gunzip(t testing.TB, compressed string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// contents is a bundle. Most members are lists of records.
type contents map[string]json.RawMessage

// contents downloads and parses a bundle. It fails if a key occurs twice.
func (f *fixture) contents(link *affiliatev1.Export, err error) (contents, string) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
	text := f.text(link)
	return parse(f.TB, text), text
}

func parse(t testing.TB, text string) contents {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	found := contents{}
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if _, ok := found[key.(string)]; ok {
			t.Errorf("the bundle has the key %s twice", key)
		}
		found[key.(string)] = value
	}
	return found
}

func (c contents) keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// records returns the records of a list, or the record of an object.
func (c contents) records(t testing.TB, key string) []map[string]any {
	t.Helper()
	text := c[key]
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		text = []byte(fmt.Sprintf("[%s]", text))
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var all []map[string]any
	if err := decoder.Decode(&all); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return all
}
