//go:build operations

package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
	"github.com/tributary-hq/tributary/test/operations/stack"
	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
)

// cacheDatabase is the Redis database of the caches. The click stream is in database 0.
const cacheDatabase = "1"

// site is the whole system: a cluster with backups, Redis, and the programs.
type site struct {
	*cluster
	*stack.Stack
	manual     *manual
	redis      *servers.Server
	redisPort  int
	erasureLog string

	core, landing *process.Process
	shop          *shop.Shop
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &site{cluster: newCluster(t, dir), manual: readManual(t), erasureLog: filepath.Join(dir, "erasures.log")}
	address, err := servers.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(address[0], ":")
	if s.redisPort, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	s.startRedis("redis-1")
	journal := filepath.Join(dir, "journal")
	if err := os.Mkdir(journal, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Stack = stack.At(t,
		"TRIBUTARY_DATABASE_URL="+s.url("tributary"), "TRIBUTARY_LANDING_DATABASE_URL="+s.url("tributary_landing"),
		"TRIBUTARY_REDIS_URL="+s.redis.URL, "TRIBUTARY_CACHE_REDIS_URL="+s.cacheURL(), "TRIBUTARY_JOURNAL_DIR="+journal,
		"TRIBUTARY_ERASURE_LOG="+s.erasureLog, "TRIBUTARY_LIMIT_LANDING=1000")
	return s
}

// startRedis starts Redis with the data in a folder, always on the same port.
func (s *site) startRedis(folder string) {
	s.t.Helper()
	var err error
	if s.redis, err = servers.StartRedis(s.t.Context(), servers.RedisConfig{Dir: s.file(folder), Port: s.redisPort, Durable: true}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.redis.Kill)
}

func (s *site) cacheURL() string {
	target, err := url.Parse(s.redis.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	target.Path = "/" + cacheDatabase
	return target.String()
}

// createDatabase creates the roles and the database of the service, as the pages
// docs/operations/postgres.md and docs/operations/landing.md say, and the schemas.
func (s *site) createDatabase() {
	s.t.Helper()
	s.run(`psql -q -c 'create role tributary login createrole' -c 'create role tributary_landing login'
		createdb --owner=tributary tributary
		psql -q -d tributary -c 'create schema landing authorization tributary_landing' -c 'create schema landing_river authorization tributary_landing'`)
	s.runCore("core migrate\nlanding migrate")
}

// runCore runs a script as the user of the core, with the settings of the core. Settings
// can be replaced.
func (s *site) runCore(script string, settings ...string) string {
	s.t.Helper()
	env := service.Environ(s.With(settings...)...)
	env = append(env, "PATH="+filepath.Dir(process.Binary(s.t, "core"))+":"+os.Getenv("PATH"))
	out, err := shell(s.t, nil, env, s.t.TempDir(), script)
	if err != nil {
		s.t.Fatalf("%s\nends with %v:\n%s", script, err, out)
	}
	return out
}

func (s *site) startPrograms() {
	s.t.Helper()
	s.core, s.landing = s.StartCoreWithGateway(s.t), s.StartLanding(s.t)
}

func (s *site) stopPrograms() {
	s.t.Helper()
	s.core.Stop(s.t)
	s.landing.Stop(s.t)
}

// sell reports n sales with the given prefix.
func (s *site) sell(prefix string, n int, p *shop.Partner) (last shop.Sale) {
	s.t.Helper()
	for i := range n {
		last = s.shop.MustSell(s.t, fmt.Sprintf("%s-%d", prefix, i), p)
	}
	return last
}

// wantSales checks that each sale with the prefix is stored once.
func (s *site) wantSales(prefix string, want int) {
	s.t.Helper()
	const count = `select count(*) || ' rows, ' || count(distinct external_transaction_id) || ' sales' from conversions where external_transaction_id like $1 || '-%'`
	if got := s.query(count, prefix); got != fmt.Sprintf("%d rows, %d sales", want, want) {
		s.t.Errorf("sales with the prefix %s: %s, want %d", prefix, got, want)
	}
}

// click sends n clicks with the code of a partner and returns their ids.
func (s *site) click(n int, p *shop.Partner) (ids []string) {
	s.t.Helper()
	for range n {
		status, id, err := s.shop.Click(s.t.Context(), p.Code)
		if err != nil || id == "" {
			s.t.Fatalf("a click returns %d, %v; want an id", status, err)
		}
		ids = append(ids, id)
	}
	return ids
}

// awaitClicks waits until the clicks are stored.
func (s *site) awaitClicks(ids []string) {
	s.t.Helper()
	process.Await(s.t, "the clicks are stored", func() error {
		if n := s.storedClicks(ids); n != len(ids) {
			return fmt.Errorf("%d of %d clicks are stored", n, len(ids))
		}
		return nil
	})
}

// wantClicks checks how many of the clicks are stored.
func (s *site) wantClicks(ids []string, want int) {
	s.t.Helper()
	if n := s.storedClicks(ids); n != want {
		s.t.Errorf("%d of %d clicks are stored, want %d", n, len(ids), want)
	}
}

func (s *site) storedClicks(ids []string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.query("select count(*)::text from clicks where id = any($1::text[]::uuid[])", ids))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// wantCodeRefused waits until the collector refuses the code of a partner.
func (s *site) wantCodeRefused(p *shop.Partner) {
	s.t.Helper()
	process.Await(s.t, "the code "+p.Code+" is refused", func() error {
		status, _, err := s.shop.Click(s.t.Context(), p.Code)
		if status < http.StatusBadRequest {
			return errors.Join(err, fmt.Errorf("a click returns %d", status))
		}
		return nil
	})
}

// loginStatus returns the status of a login of a partner.
func (s *site) loginStatus(p *shop.Partner) int {
	s.t.Helper()
	return s.post("http://"+s.Gateway+"/api/v1/auth/partner/login", shop.Object{"email": p.Email, "password": shop.Password})
}

// contactText returns the text of a contact message, which has a minimum length.
func contactText(name string) string { return "A message from " + name }

// sendContact sends a contact message to the landing service.
func (s *site) sendContact(name string) {
	s.t.Helper()
	message := shop.Object{"name": "Ada", "email": "ada@example.com", "message": contactText(name), "website": "", "elapsedMs": 21000}
	if status := s.post("http://"+s.Landing+"/api/public/contact", message); status >= http.StatusBadRequest {
		s.t.Errorf("a contact message returns %d", status)
	}
}

func (s *site) post(url string, body shop.Object) int {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(url, "application/json", bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// erase erases the account of a partner, and the buyers of sales. The erasure log then has
// entries for all of them.
func (s *site) erase(p *shop.Partner, orders ...string) {
	s.t.Helper()
	confirmed := shop.Object{"confirmation": "DELETE"}
	s.shop.Must(s.t, http.MethodPost, "/partner/account/erase", p.Token, confirmed, &struct{}{})
	for _, order := range orders {
		confirmed["buyer"] = shop.Object{"customerId": "customer-of-" + order}
		s.shop.Must(s.t, http.MethodPost, "/merchant/gdpr/buyer-erasure", s.shop.Token, confirmed, &struct{}{})
		s.awaitBuyerErased(order)
	}
}

// awaitBuyerErased waits until a sale has lost its id.
func (s *site) awaitBuyerErased(order string) {
	s.t.Helper()
	process.Await(s.t, "the buyer is erased", func() error {
		if n := s.query("select count(*)::text from conversions where external_transaction_id = $1", order); n != "0" {
			return fmt.Errorf("%s sales still have the id %s", n, order)
		}
		return nil
	})
}

// wantErased waits until the jobs of erase are done.
func (s *site) wantErased(p *shop.Partner, order string) {
	s.t.Helper()
	if status := s.loginStatus(p); status != http.StatusUnauthorized {
		s.t.Errorf("the login of an erased partner returns %d, want 401", status)
	}
	var participant struct{ PartnerName, PartnerEmail string }
	s.shop.Must(s.t, http.MethodGet, "/programs/"+s.shop.ProgramID+"/partners/"+p.Participant, s.shop.Token, nil, &participant)
	if !strings.HasPrefix(participant.PartnerName, "erased-") || participant.PartnerEmail == p.Email {
		s.t.Errorf("the merchant sees the erased partner as %+v, want a pseudonym", participant)
	}
	s.awaitBuyerErased(order)
	if _, _, err := s.shop.Sell(s.t.Context(), order, p.Promo, ""); err == nil || !strings.Contains(err.Error(), "CONVERSION_DUPLICATE") {
		s.t.Errorf("a second report of the erased sale returns %v, want CONVERSION_DUPLICATE", err)
	}
}
