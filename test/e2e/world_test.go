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

// uniqueCounter numbers the names that uniqueName returns.
var uniqueCounter atomic.Int64

// uniqueName returns a name that no other call returns.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, uniqueCounter.Add(1)) }

// account is a merchant or a partner with a session.
type account struct {
	caller
	kind      string
	email     string
	id        string
	workspace string // merchants only
	access    string
	refresh   string
}

func (sys *system) merchant(t *testing.T) account {
	t.Helper()
	email := uniqueName("merchant") + "@example.com"
	return sys.account("merchant", email, sys.caller().post(t, "/api/v1/auth/merchant/register", object{
		"email": email, "password": password, "name": "Mara Merchant", "workspaceName": uniqueName("Shop"),
	}).want(http.StatusCreated))
}

func (sys *system) partner(t *testing.T) account {
	t.Helper()
	email := uniqueName("partner") + "@example.com"
	return sys.account("partner", email, sys.caller().post(t, "/api/v1/auth/partner/register", object{
		"email": email, "password": password, "name": "Pia Partner",
	}).want(http.StatusCreated))
}

// account returns the account of a registration, login or refresh response.
func (sys *system) account(kind, email string, session response) account {
	session.t.Helper()
	a := account{
		kind: kind, email: email, id: session.text("user.id"),
		access: session.text("accessToken"), refresh: session.text("refreshToken"),
	}
	if kind == "merchant" {
		a.workspace = session.text("workspace.id")
	}
	a.caller = sys.caller().as(a.access)
	return a
}

// in returns the account with requests in a mode.
func (a account) in(mode string) account {
	a.caller = a.caller.in(mode)
	return a
}

// login opens another session of the account.
func (a account) login(t *testing.T) account {
	t.Helper()
	session := a.sys.caller().post(t, "/api/v1/auth/"+a.kind+"/login", object{"email": a.email, "password": password})
	again := a.sys.account(a.kind, a.email, session.want(http.StatusOK))
	if mode := a.header.Get("X-Mode"); mode != "" {
		again.caller = again.caller.in(mode)
	}
	return again
}

// setRole changes the role of a merchant's user in the database.
func (a account) setRole(t *testing.T, role string) {
	t.Helper()
	a.sys.exec(t, "update members set role = $2 where user_id = $1", a.id, role)
}

func (a account) publicKey(t *testing.T) string {
	t.Helper()
	return a.get(t, "/api/v1/api-keys").want(http.StatusOK).text("publicKey")
}

func (a account) secretKey(t *testing.T) string {
	t.Helper()
	return a.post(t, "/api/v1/api-keys", object{"name": uniqueName("key")}).want(http.StatusCreated).text("secretKey")
}

// rules returns commission rules with 20 percent and a hold period of one day, plus
// changes.
func rules(changes object) object {
	all := object{"commissionType": "percentage", "percentage": 20, "holdPeriodDays": 1}
	for name, value := range changes {
		all[name] = value
	}
	return object{"commissionRules": all}
}

// program creates an active programme. Its fraud rules only observe, because tests click
// and buy faster than people do.
func (a account) program(t *testing.T, fields object) string {
	t.Helper()
	body := object{"name": uniqueName("Programme"), "websiteUrl": "https://shop.example", "fraudPolicy": "observe"}
	for name, value := range fields {
		body[name] = value
	}
	id := a.post(t, "/api/v1/programs", body).want(http.StatusCreated).text("id")
	a.post(t, "/api/v1/programs/"+id+"/activate", nil).want(http.StatusOK)
	return id
}

// world is a programme with a merchant and an approved partner.
type world struct {
	sys         *system
	merchant    account // in the programme's mode
	partner     account // in the programme's mode
	program     string
	participant string
	code        string
	publicKey   string
	secretKey   string
}

// world creates an active programme with one approved partner.
func (sys *system) world(t *testing.T, mode string, fields object) world {
	t.Helper()
	return sys.worldOf(t, sys.merchant(t).in(mode), sys.partner(t).in(mode), fields)
}

func (sys *system) worldOf(t *testing.T, merchant, partner account, fields object) world {
	t.Helper()
	w := world{sys: sys, merchant: merchant, partner: partner, code: uniqueName("pia")}
	w.program = merchant.program(t, fields)
	w.participant = partner.post(t, w.applyPath(), object{"referralCode": w.code}).want(http.StatusCreated).text("id")
	merchant.patch(t, w.participantPath()+"/approve", nil).want(http.StatusOK)
	w.publicKey, w.secretKey = merchant.publicKey(t), merchant.secretKey(t)
	return w
}

func (w world) programPath() string { return "/api/v1/programs/" + w.program }
func (w world) applyPath() string   { return "/api/v1/partner/programs/" + w.program + "/apply" }

func (w world) participantPath() string { return w.programPath() + "/partners/" + w.participant }

func (w world) commissionPath(id string) string { return w.programPath() + "/commissions/" + id }

// click registers a click and returns its id. It waits until the collector accepts the
// code.
func (w world) click(t *testing.T) string {
	t.Helper()
	var id string
	eventually(t, waitTimeout, "the collector accepts a click", func() error {
		got := w.sys.click(t, w.publicKey, object{"referral_code": w.code})
		if got.status != http.StatusCreated {
			return fmt.Errorf("it returns %d %s", got.status, got.body)
		}
		id = got.text("click_id")
		return nil
	})
	return id
}

// purchase returns the report of a sale of 100.00 USD.
func purchase(click string) object {
	return object{
		"event_type": "purchase", "external_transaction_id": uniqueName("order"),
		"amount_cents": 10_000, "currency": "USD", "click_id": click,
	}
}

func (w world) report(t testing.TB, body any) response {
	t.Helper()
	return w.sys.caller().as(w.secretKey).post(t, "/api/v1/conversions", body)
}

// earn registers a click, reports a sale, and returns the commission's id.
func (w world) earn(t *testing.T) string {
	t.Helper()
	return w.report(t, purchase(w.click(t))).want(http.StatusCreated).text("commission.id")
}

func (sys *system) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), sql, args...)
		return err
	})
}

// count returns the result of a query for data that the API does not show.
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
			t.Errorf("%s: %v", sql, err)
		}
		return nil
	})
}
