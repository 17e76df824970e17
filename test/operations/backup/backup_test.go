//go:build operations

package backup

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/operations/shop"
)

const (
	salesBefore, salesAfter, salesLost = 20, 15, 5
	waitingClicks                      = 12
	setUp, dumps, checks               = "Set up backups", "Dumps", "Check the backups"
	newestState, pointInTime, dump     = "The newest state", "A point in time", "A dump"
	afterwards                         = "After the restore"
)

// story is what happened before the disaster.
type story struct {
	// The sales erased-0 and erased-1 belong to buyers who are erased. Sales of load were
	// reported during a backup.
	load int
	// target is a time after the sales before and before the sales after.
	target string
	// ada is erased after the last archived segment. cleo has joined after the target.
	ada, bob, cleo *shop.Partner
	payout         string
	// stored are clicks that were stored after the target, and archived. waiting are clicks
	// that were acknowledged after the disaster.
	stored, waiting []string
}

func TestBackupAndRestore(t *testing.T) {
	s := newSite(t)
	events := s.live()
	s.destroy()
	if _, _, err := s.shop.Sell(t.Context(), "refused", events.bob.Promo, ""); err == nil {
		t.Error("a sale without the database is acknowledged")
	}
	s.core.Kill(t)
	s.landing.Kill(t)
	events.waiting = s.click(waitingClicks, events.bob)

	t.Log("restoring the newest state")
	s.mkdir(s.data())
	began := time.Now()
	s.run(s.manual.block(t, newestState, 0))
	s.start()
	s.run(s.manual.block(t, newestState, 1))
	s.finish()
	t.Logf("%s, in the repository %s; the core accepts calls after %.1f s", s.query("select pg_size_pretty(sum(pg_database_size(oid))) from pg_database"),
		s.run("du -sh "+s.repository()), time.Since(began).Seconds())
	s.wantSales("before", salesBefore)
	s.wantSales("load", events.load)
	s.wantSales("after", salesAfter)
	s.wantSales("lost", 0)
	s.wantPayout(events.payout, "paid")
	s.wantClicks(events.stored, len(events.stored))
	s.shop.AwaitCode(t, events.cleo.Code)
	s.wantRestored(events)
	s.sell("lost", salesLost, events.bob) // the merchant reports them again
	s.checkFailures()
	s.checkKeys()

	t.Log("restoring a point in time")
	s.stopPrograms()
	s.checkStandby()
	s.destroy()
	events.waiting = s.click(waitingClicks, events.bob)
	s.mkdir(s.data())
	s.run(s.manual.block(t, pointInTime, 0), "TARGET="+time.Now().UTC().Add(time.Hour).Format("2006-01-02 15:04:05+00"))
	s.start()
	s.running.WantExit(t, "recovery ended before configured recovery target was reached")
	s.destroy()
	s.mkdir(s.data())
	s.run(s.manual.block(t, pointInTime, 0), "TARGET="+events.target)
	s.start()
	s.run(s.manual.block(t, newestState, 1))
	s.checkKeys()
	s.finish()
	s.wantSales("before", salesBefore)
	s.wantSales("after", 0)
	s.wantPayout(events.payout, "")
	s.wantClicks(events.stored, 0)
	s.wantCodeRefused(events.cleo)
	s.wantRestored(events)
	s.sell("after", salesAfter, events.bob)

	t.Log("restoring a dump; Redis is lost too")
	s.stopPrograms()
	s.destroy()
	s.redis.Kill()
	events.waiting = s.click(waitingClicks, events.bob)
	s.startRedis("redis-2")
	s.create()
	s.start()
	s.awaitWritable()
	s.run(s.manual.block(t, dump, 0))
	s.run(s.manual.block(t, dump, 1))
	s.finish()
	s.wantSales("before", salesBefore)
	s.wantSales("after", 0)
	s.wantCodeRefused(events.cleo)
	s.wantRestored(events)
	s.stopPrograms()
	s.manual.wantAllUsed(t)
}

// live runs the system until the moment before the disaster.
func (s *site) live() *story {
	t := s.t
	s.create()
	s.start()
	s.awaitWritable()
	s.createDatabase()
	s.run(s.manual.block(t, setUp, 0))
	s.startPrograms()
	s.StartCollector(t)
	s.shop = shop.Open(t, http.DefaultClient, "http://"+s.Gateway, "http://"+s.Collector)
	events := &story{ada: s.shop.Join(t, "ada"), bob: s.shop.Join(t, "bob")}
	for _, partner := range []*shop.Partner{events.ada, events.bob} {
		s.shop.AwaitCode(t, partner.Code)
	}
	s.sell("erased", 2, events.ada)

	events.load = s.sellDuring(events.bob, func() {
		s.run(unitCommand(t, "tributary-backup@.service", "full"))
		s.run(unitCommand(t, "tributary-backup@.service", "diff"))
	})
	s.sell("before", salesBefore, events.bob)
	s.sendContact("before")
	s.run(s.manual.block(t, dumps, 0))
	time.Sleep(10 * time.Millisecond) // the time of a commit is in microseconds
	events.target = s.query("select clock_timestamp()::text")

	paid := s.sell("after", salesAfter, events.bob)
	events.payout = s.shop.Pay(t, paid.Commission.ID)
	events.cleo = s.shop.Join(t, "cleo")
	s.shop.AwaitCode(t, events.cleo.Code)
	events.stored = s.click(waitingClicks, events.bob)
	s.awaitClicks(events.stored)
	s.archiveWAL()

	s.sell("lost", salesLost, events.bob)
	s.erase(events.ada, "erased-0", "erased-1")
	return events
}

// sellDuring reports sales until action has returned. It returns their number.
func (s *site) sellDuring(p *shop.Partner, action func()) (n int) {
	ctx, stop := context.WithCancel(s.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ; ctx.Err() == nil; n++ {
			if _, _, err := s.shop.Sell(s.t.Context(), fmt.Sprintf("load-%d", n), p.Promo, ""); err != nil {
				s.t.Error(err)
			}
		}
	})
	action()
	stop()
	group.Wait()
	return n
}

// finish runs the steps after a restore and starts the programs.
func (s *site) finish() {
	s.t.Helper()
	out := s.runCore(s.manual.block(s.t, afterwards, 0))
	if !erasedAgain(3).MatchString(out) || strings.Contains(out, "VIOLATED") {
		s.t.Errorf("the steps after the restore print\n%s\nwant 3 erasures and no violated check", out)
	}
	s.startPrograms()
}

// erasedAgain matches the output of a replay of the erasure log. The entry of the account
// can be in the log twice: from the request, and from a job that runs at the same time.
func erasedAgain(n int) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf("[34] entries, %d erased again, 0 invalid lines", n))
}

// wantRestored checks what holds after each restore.
func (s *site) wantRestored(events *story) {
	t := s.t
	t.Helper()
	s.wantErased(events.ada, "erased-0")
	s.wantCodeRefused(events.ada)
	s.awaitClicks(events.waiting)
	if status := s.loginStatus(events.bob); status != http.StatusOK {
		t.Errorf("the login of a partner returns %d, want 200", status)
	}
	if _, _, err := s.shop.Sell(t.Context(), "before-1", events.bob.Promo, ""); err == nil || !strings.Contains(err.Error(), "CONVERSION_DUPLICATE") {
		t.Errorf("a restored sale that is reported again returns %v, want CONVERSION_DUPLICATE", err)
	}
	click := s.shop.AwaitCode(t, events.bob.Code)
	if _, sale, err := s.shop.Sell(t.Context(), "new-"+click, "", click); err != nil || !sale.Attributed {
		t.Errorf("a new sale with a new click: %+v, %v; want an attributed sale", sale, err)
	}
	s.sendContact("new")
	s.wantContacts("before", "new")
	if out := s.runCore("core check"); strings.Contains(out, "VIOLATED") {
		t.Errorf("core check after new sales:\n%s", out)
	}
}

// wantPayout checks the status of a payout. If status is empty, the payout must not exist.
func (s *site) wantPayout(id, status string) {
	s.t.Helper()
	if got := s.query("select max(status) from payouts where id = $1::text::uuid", id); got != status {
		s.t.Errorf("the payout has the status %q, want %q", got, status)
	}
}

// wantContacts checks that the landing service has the messages.
func (s *site) wantContacts(names ...string) {
	s.t.Helper()
	out := s.runCore("landing contacts")
	for _, name := range names {
		if !strings.Contains(out, contactText(name)) {
			s.t.Errorf("landing contacts prints no message from %s:\n%s", name, out)
		}
	}
}
