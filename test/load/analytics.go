package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	reports "github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/test/service"
)

const (
	// manyClicks and fewClicks are the numbers of clicks of the two workspaces in a year.
	// SCALE multiplies them.
	manyClicks = 100_000_000
	fewClicks  = 10_000_000
	// reportRound is the length of the rounds of reports that take less than a second.
	// slowReportRound is the length for the other reports, which are requested over one
	// connection. A round must be twice as long as a request, because a request that begins
	// in the warm-up does not count.
	reportRound     = 3 * time.Second
	slowReportRound = 10 * time.Second
)

// measureAnalytics measures the rows A1 and A2.
func measureAnalytics(ctx context.Context, b *bench) error {
	if err := b.measureReports(ctx); err != nil {
		return err
	}
	return b.measureAddition(ctx)
}

// measureReports measures the rows A1. For a row, the same request is sent to two
// workspaces. One of them has ten times as many clicks as the other. The numbers of
// conversions, participants and values are the same in both, because the time of a report
// may depend on these numbers, but not on the number of clicks. Both workspaces are in the
// same database, so the size of the tables does not cause a difference.
func (b *bench) measureReports(ctx context.Context) error {
	database, err := b.newDatabase(ctx, "analytics", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	defer core.stop()
	first := analytics.DayOf(time.Now()) - reportDays + 1
	large, small := &year{first: first, clicks: manyClicks * b.scale}, &year{first: first, clicks: fewClicks * b.scale}
	if large.listedProgram, err = openProgram(ctx, core.address, "large"); err != nil {
		return core.fail(err)
	}
	if small.listedProgram, err = openProgram(ctx, core.address, "small"); err != nil {
		return core.fail(err)
	}
	b.say("analytics: making a year with %d clicks, and a year with %d", large.clicks, small.clicks)
	var filling sync.WaitGroup
	var largeErr, smallErr error
	filling.Go(func() { largeErr = large.fill(ctx, database) })
	filling.Go(func() { smallErr = small.fill(ctx, database) })
	filling.Wait()
	if err := errors.Join(largeErr, smallErr); err != nil {
		return err
	}
	if err := execute(ctx, database.url, "vacuum analyze"); err != nil {
		return err
	}
	for _, row := range []struct {
		what, path string
		// firstDay is the day of the year with which the period begins.
		firstDay    int
		connections int
		measured    time.Duration
		// shown returns a number of the response, which must be equal to made.
		shown func(report) int
		made  func(*year) int
	}{
		{"summary, compared with the year before", "summary?compare=previous&", 0, listClients, reportRound, report.total, (*year).allClicks},
		{"time series by day", "timeseries?interval=day&", 0, listClients, reportRound, report.total, (*year).allClicks},
		{
			"breakdown by country, in the time of India", "breakdown?groupBy=country&pageSize=100&timezone=Asia/Kolkata&", 1,
			listClients, reportRound, report.total, (*year).clicksInIndia,
		},
		{"breakdown by sub id", "breakdown?groupBy=sub_id&", 0, 1, slowReportRound, report.rows, (*year).subIDs},
		{"breakdown by participant", "breakdown?groupBy=participant&", 0, listClients, reportRound, report.total, (*year).allClicks},
		{"funnel", "funnel?", 0, listClients, reportRound, report.firstStep, (*year).allClicks},
		{"cohorts, in the time of India", "cohorts?timezone=Asia/Kolkata&", 0, listClients, reportRound, report.total, (*year).allCustomers},
	} {
		path := "/analytics/" + row.path + large.period(row.firstDay)
		for _, y := range []*year{large, small} {
			if err := y.refresh(ctx, core); err != nil {
				return core.fail(err)
			}
			var got report
			api := service.API{Address: core.address}
			if err := api.Call(ctx, http.MethodGet, path, y.AccessToken, nil, &got); err != nil {
				return core.fail(err)
			}
			if shown, made := row.shown(got), row.made(y); shown != made {
				return fmt.Errorf("%s: the response shows %d instead of %d", row.what, shown, made)
			}
		}
		request := func(y *year) side { return y.getDuring(core, path, row.connections, row.measured) }
		got, err := b.takeTurns(ctx, row.what, request(large), b.yardstick(request(small)))
		if err != nil {
			return err
		}
		b.compare("A1", fmt.Sprintf("%s, of %d clicks, p50", row.what, large.clicks), fmt.Sprintf("of %d", small.clicks), "≤ 1.3", got[0], got[1], p50, millis)
	}
	return nil
}

// report is a response. Each kind of report has some of the fields.
type report struct {
	Metrics      element
	Points, Rows []element
	Steps        []element
	Cohorts      []element
	Total        int
}

// element is a part of a response. Each kind of part has one of the fields.
type element struct{ Clicks, Count, Size int }

// total returns the sum of all clicks or customers of a summary, time series, breakdown or
// cohorts.
func (r report) total() int {
	sum := r.Metrics.Clicks
	for _, list := range [][]element{r.Points, r.Rows, r.Cohorts} {
		for _, e := range list {
			sum += e.Clicks + e.Size
		}
	}
	return sum
}

// rows returns the number of rows of a breakdown, on all pages.
func (r report) rows() int { return r.Total }

// firstStep returns the clicks of a funnel.
func (r report) firstStep() int {
	if len(r.Steps) == 0 {
		return 0
	}
	return r.Steps[0].Count
}

// measureAddition measures the row A2, and a row with many different sub ids. The service
// runs in this process and adds the clicks of a round of ingestion to the sums. The
// yardstick stores as many clicks.
func (b *bench) measureAddition(ctx context.Context) error {
	defer debug.SetGCPercent(debug.SetGCPercent(coreGCPercent))
	i, err := newIngestion(ctx, b)
	if i != nil {
		defer i.close()
	}
	if err != nil {
		return err
	}
	a := &addition{ingestion: i, service: reports.New(i.postgres, slog.New(slog.DiscardHandler), time.Now)}
	for _, row := range []struct {
		id, what, goal string
		click          func(end time.Time, n int) *edgev1.Click
	}{
		{"A2", "clicks added to the sums", "> 1", i.partnerClick},
		{"", "clicks added to the sums, each with a sub id of its own", "", i.networkClick},
	} {
		store := func(ctx context.Context) (sample, error) { return i.store(ctx, row.click) }
		if err := a.keepLog(ctx, store); err != nil {
			return err
		}
		got, err := b.takeTurns(ctx, row.what, a.add, b.yardstick(store))
		if err != nil {
			return err
		}
		b.compare(row.id, row.what, "stored", row.goal, got[0], got[1], rate, perSecond)
	}
	return nil
}

// addition adds the log of a round of ingestion to the sums. It adds the same log in each
// round, because the sums of most values exist before a click is added.
type addition struct {
	*ingestion
	service *reports.Service
	// added is the number of clicks in the sums.
	added int
}

// keepLog stores clicks, keeps a copy of their log for the rounds, and adds them once.
func (a *addition) keepLog(ctx context.Context, store side) error {
	if err := execute(ctx, a.ours.url, "truncate analytics_log", "drop table if exists kept_log"); err != nil {
		return err
	}
	if _, err := store(ctx); err != nil {
		return err
	}
	if err := execute(ctx, a.ours.url, "create table kept_log as table analytics_log"); err != nil {
		return err
	}
	if _, err := a.add(ctx); err != nil {
		return err
	}
	return execute(ctx, a.ours.url, "vacuum analyze")
}

// add measures the addition of the kept log to the sums.
func (a *addition) add(ctx context.Context) (sample, error) {
	err := execute(ctx, a.ours.url, "truncate analytics_log", `
		insert into analytics_log (workspace_id, mode, clicks, oldest_click)
		select workspace_id, mode, clicks, oldest_click from kept_log order by id`)
	if err := errors.Join(err, a.b.settle(ctx)); err != nil {
		return sample{}, err
	}
	began := time.Now()
	if err := a.service.AddAll(ctx, a.workspace); err != nil {
		return sample{}, err
	}
	got := a.sampleSince(began)
	a.added += a.rows
	var sum int
	const clicks = `select coalesce(sum(clicks), 0)::bigint from analytics_days where dimension = '' and participant_id = $1`
	if err := a.postgres.QueryRow(ctx, clicks, uuid.Nil).Scan(&sum); err != nil {
		return sample{}, err
	}
	if sum != a.added {
		return sample{}, fmt.Errorf("the sums have %d clicks instead of %d", sum, a.added)
	}
	return got, nil
}

// partnerClick returns a click with the participants and values of measureReports. The
// clicks of a round are spread over the UTC day before its end, so that the sums contain all
// quarters of the day.
func (i *ingestion) partnerClick(end time.Time, n int) *edgev1.Click {
	const day = 24 * time.Hour
	at := end.Truncate(day).Add(-day).Add(day / time.Duration(i.rows) * time.Duration(n))
	c, id, participant, partner := i.click(end, n), affiliate.NewID[affiliate.ClickID](at), i.workspace.UUID, n%reportPartners
	participant[len(participant)-1] = byte(partner)
	c.Id, c.ReceivedAtMs, c.ParticipantId, c.LinkId = id.UUID[:], at.UnixMilli(), participant[:], participant[:]
	n /= reportPartners
	c.Country, c.Device, c.SubId = countryOf(partner, n), deviceOf(n), subIDOf(partner, n)
	return c
}

// networkClick returns a click as partnerClick does, but with another sub id for each click.
// Affiliate networks use the sub id for the id of the click in their own systems.
func (i *ingestion) networkClick(end time.Time, n int) *edgev1.Click {
	c := i.partnerClick(end, n)
	c.SubId = hex.EncodeToString(c.Id)
	return c
}
