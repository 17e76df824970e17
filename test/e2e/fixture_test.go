package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

const password = "correct horse battery"

// uniqueCounter is the number of names that uniqueName has returned.
var uniqueCounter atomic.Int64

// uniqueName returns a name that is different for each call.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, uniqueCounter.Add(1)) }

// account is a merchant or a partner with a session.
type caller struct {
	apiClient
	kind      string
	email     string
	id        string
	workspace string // merchants only
	access    string
	refresh   string
}

func (sys *system) newMerchant(t *testing.T) caller {
	t.Helper()
	email := uniqueName("merchant") + "@example.com"
	return sys.account("merchant", email, sys.client().post(t, "/api/v1/auth/merchant/register", object{
		"email": email, "password": password, "name": "Mara Merchant", "workspaceName": uniqueName("Shop"),
	}).wantStatus(http.StatusCreated))
}

func (sys *system) newPartner(t *testing.T) caller {
	t.Helper()
	email := uniqueName("partner") + "@example.com"
	return sys.account("partner", email, sys.client().post(t, "/api/v1/auth/partner/register", object{
		"email": email, "password": password, "name": "Pia Partner",
	}).wantStatus(http.StatusCreated))
}

// account returns the account in the response to a registration, a login or a refresh.
func (sys *system) account(kind, email string, session response) caller {
	session.t.Helper()
	a := caller{
		kind: kind, email: email, id: session.text("user.id"),
		access: session.text("accessToken"), refresh: session.text("refreshToken"),
	}
	if kind == "merchant" {
		a.workspace = session.text("workspace.id")
	}
	a.apiClient = sys.client().withCredential(a.access)
	return a
}

// inMode returns a copy of the account that sends requests in the given mode.
func (a caller) inMode(mode string) caller {
	a.apiClient = a.apiClient.inMode(mode)
	return a
}

// login returns the account with a new session.
func (a caller) login(t *testing.T) caller {
	t.Helper()
	session := a.sys.client().post(t, "/api/v1/auth/"+a.kind+"/login", object{"email": a.email, "password": password})
	renewed := a.sys.account(a.kind, a.email, session.wantStatus(http.StatusOK))
	if mode := a.header.Get("X-Mode"); mode != "" {
		renewed.apiClient = renewed.apiClient.inMode(mode)
	}
	return renewed
}

// setRole changes the role of a merchant's user in the database.
func (a caller) setRole(t *testing.T, role string) {
	t.Helper()
	a.sys.exec(t, "update members set role = $2 where user_id = $1", a.id, role)
}

func (a caller) publicKey(t *testing.T) string {
	t.Helper()
	return a.get(t, "/api/v1/api-keys").wantStatus(http.StatusOK).text("publicKey")
}

func (a caller) createSecretKey(t *testing.T) string {
	t.Helper()
	return a.post(t, "/api/v1/api-keys", object{"name": uniqueName("key")}).wantStatus(http.StatusCreated).text("secretKey")
}

// createServiceToken creates a service token. The account must be an owner.
func (a caller) createServiceToken(t *testing.T, role, mode string, allowPayouts bool) string {
	t.Helper()
	return a.post(t, "/api/v1/service-tokens", object{
		"name": uniqueName("service"), "role": role, "mode": mode, "allowPayouts": allowPayouts,
	}).wantStatus(http.StatusCreated).text("token")
}

// rules returns commission rules with a rate of 20 percent and a hold period of one day.
// The fields in changes replace these defaults.
func rules(changes object) object {
	all := object{"commissionType": "percentage", "percentage": 20, "holdPeriodDays": 1}
	for name, value := range changes {
		all[name] = value
	}
	return object{"commissionRules": all}
}

// createProgram creates an active, public programme and returns its id. The tests report sales so
// soon after the clicks that the fraud rules match. Therefore the default is the fraud
// policy "observe", under which commissions are neither flagged nor blocked.
func (a caller) createProgram(t *testing.T, fields object) string {
	t.Helper()
	body := object{"name": uniqueName("Programme"), "websiteUrl": "https://shop.example", "isPublic": true, "fraudPolicy": "observe"}
	for name, value := range fields {
		body[name] = value
	}
	id := a.post(t, "/api/v1/programs", body).wantStatus(http.StatusCreated).text("id")
	a.post(t, "/api/v1/programs/"+id+"/activate", nil).wantStatus(http.StatusOK)
	return id
}

// fixture is a programme with its merchant and one approved partner.
type fixture struct {
	sys         *system
	merchant    caller // in the programme's mode
	partner     caller // in the programme's mode
	program     string
	participant string
	code        string // the partner's referral code
	publicKey   string
	secretKey   string
}

// newFixture registers a merchant and a partner, and creates an active programme in which
// the partner is approved.
func (sys *system) newFixture(t *testing.T, mode string, fields object) fixture {
	t.Helper()
	return sys.newFixtureFor(t, sys.newMerchant(t).inMode(mode), sys.newPartner(t).inMode(mode), fields)
}

// newFixtureFor creates an active programme of the merchant in which the partner is
// approved.
func (sys *system) newFixtureFor(t *testing.T, merchant, partner caller, fields object) fixture {
	t.Helper()
	f := fixture{sys: sys, merchant: merchant, partner: partner, code: uniqueName("pia")}
	f.program = merchant.createProgram(t, fields)
	f.participant = partner.post(t, f.applyPath(), object{"referralCode": f.code}).wantStatus(http.StatusCreated).text("id")
	merchant.patch(t, f.participantPath()+"/approve", nil).wantStatus(http.StatusOK)
	f.publicKey, f.secretKey = merchant.publicKey(t), merchant.createSecretKey(t)
	return f
}

func (f fixture) programPath() string { return "/api/v1/programs/" + f.program }
func (f fixture) applyPath() string   { return "/api/v1/partner/programs/" + f.program + "/apply" }

func (f fixture) participantPath() string { return f.programPath() + "/partners/" + f.participant }

func (f fixture) commissionPath(id string) string { return f.programPath() + "/commissions/" + id }

// click registers a click with the partner's referral code and returns the id of the
// click. It sends the click again until the collector accepts the code.
func (f fixture) click(t *testing.T) string {
	t.Helper()
	var id string
	eventually(t, waitTimeout, "the collector accepts a click", func() error {
		got := f.sys.click(t, f.publicKey, object{"referral_code": f.code})
		if got.status != http.StatusCreated {
			return fmt.Errorf("it returns %d %s", got.status, got.body)
		}
		id = got.text("click_id")
		return nil
	})
	return id
}

// purchase returns the request body that reports a sale of 100.00 USD after a click.
func purchase(click string) object {
	return object{
		"event_type": "purchase", "external_transaction_id": uniqueName("order"),
		"amount_cents": 10_000, "currency": "USD", "click_id": click,
	}
}

func (f fixture) report(t testing.TB, body any) response {
	t.Helper()
	return f.sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions", body)
}

// earnCommission registers a click, reports a sale, and returns the id of the commission.
func (f fixture) earnCommission(t *testing.T) string {
	t.Helper()
	return f.report(t, purchase(f.click(t))).wantStatus(http.StatusCreated).text("commission.id")
}

func (sys *system) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), sql, args...)
		return err
	})
}

// execWithoutForeignKeys runs a statement like exec, but Postgres does not check foreign
// keys and runs no triggers. The check of many rows costs more than their insertion.
func (sys *system) execWithoutForeignKeys(t *testing.T, sql string, args ...any) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(t.Context(), `set session_replication_role = replica`); err != nil {
			return err
		}
		_, err := conn.Exec(t.Context(), sql, args...)
		return err
	})
}

// count returns the number that a query returns. Tests use it for data that the API does
// not return.
func (sys *system) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error { return conn.QueryRow(t.Context(), sql, args...).Scan(&n) })
	return n
}

func (sys *system) withDatabase(t *testing.T, do func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), sys.database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := do(conn); err != nil {
		t.Fatal(err)
	}
}

// wantPermissionDenied checks that the database rejects a statement because of a missing
// privilege.
func (sys *system) wantPermissionDenied(t *testing.T, sql string) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: got %v, want permission denied", sql, err)
		}
		return nil
	})
}
