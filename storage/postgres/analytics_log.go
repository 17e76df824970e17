package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// The log of the analytics. Package server/analytics adds the entries of the log to the sums.
const (
	insertClickLog      = `insert into analytics_log (workspace_id, mode, clicks, oldest_click) values ($1, $2, $3, $4)`
	insertConversionLog = `insert into analytics_log (workspace_id, mode, conversions) values ($1, $2, $3)`
)

// queueClickLog queues the insertion of new clicks into the log of the analytics.
func queueClickLog(batch *pgx.Batch, clicks []click.Click) {
	logs := map[affiliate.Scope]*analytics.ClickLog{}
	var log *analytics.ClickLog // of the previous click
	for n := range clicks {
		if n == 0 || clicks[n].Scope != clicks[n-1].Scope {
			if log = logs[clicks[n].Scope]; log == nil {
				log = &analytics.ClickLog{}
				logs[clicks[n].Scope] = log
			}
		}
		log.Add(&clicks[n])
	}
	queueClickLogs(batch, logs)
}

func queueClickLogs(batch *pgx.Batch, logs map[affiliate.Scope]*analytics.ClickLog) {
	for scope, log := range logs {
		batch.Queue(insertClickLog, scope.Workspace, scope.Mode, log.Bytes(), log.Oldest())
	}
}

// queueConversionLog queues the insertion of conversions into the log of the analytics. Each
// transaction that changes a property or a number that the analytics use must call it: the
// decision in force, the refunded amount, or the status and amount of the commission.
func queueConversionLog(batch *pgx.Batch, scope affiliate.Scope, ids ...affiliate.ConversionID) {
	if len(ids) > 0 {
		batch.Queue(insertConversionLog, scope.Workspace, scope.Mode, ids)
	}
}

// LogConversions is a statement that makes the analytics count the conversions of a workspace
// with the ids in @ids again.
const LogConversions = `
	insert into analytics_log (workspace_id, mode, conversions)
	select workspace_id, mode, array_agg(id) from conversions
	where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)
	group by workspace_id, mode`

// logConversionsOfClicks makes the analytics count all conversions of clicks again, also those of
// other buyers.
const logConversionsOfClicks = `
	insert into analytics_log (workspace_id, mode, conversions)
	select workspace_id, mode, array_agg(id) from conversions
	where workspace_id = $1 and mode = $2 and click_id = any($3)
	group by workspace_id, mode`

// EraseClicksOfBuyers removes the data of the visitors of clicks whose sales have erased
// buyers, and removes their values from the sums of the analytics. An id can occur several
// times, because a customer can buy several times after one click.
func (tx *Tx) EraseClicksOfBuyers(ctx context.Context, scope affiliate.Scope, ids ...affiliate.ClickID) error {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b affiliate.ClickID) int { return bytes.Compare(a.UUID[:], b.UUID[:]) })
	ids = slices.Compact(ids)
	clicks, err := tx.countedClicks(ctx, scope, ids)
	if err != nil || len(clicks) == 0 {
		return err
	}
	batch, log := &pgx.Batch{}, &analytics.ClickLog{}
	for i := range clicks {
		c := &clicks[i]
		clickedAt, _ := c.ID.Time()
		batch.Queue(eraseClickOfBuyer, pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "click": c.ID, "clicked_at": clickedAt})
		log.Remove(c)
		log.Add(&click.Click{Program: c.Program, Participant: c.Participant, Link: c.Link, ReceivedAt: c.ReceivedAt, IsBot: c.IsBot, Unique: c.Unique})
	}
	queueClickLogs(batch, map[affiliate.Scope]*analytics.ClickLog{scope: log})
	batch.Queue(logConversionsOfClicks, scope.Workspace, scope.Mode, ids)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("erase clicks of buyers: %w", err)
	}
	return nil
}

// lockCounted locks a click and returns what the analytics have counted.
const lockCounted = `
	select ` + CountedClickColumns + ` from clicks
	where workspace_id = $1 and mode = $2 and id = $3 and clicked_at = $4 for no key update`

func (tx *Tx) countedClicks(ctx context.Context, scope affiliate.Scope, ids []affiliate.ClickID) (clicks []click.Click, err error) {
	batch := &pgx.Batch{}
	for _, id := range ids {
		clickedAt, _ := id.Time()
		batch.Queue(lockCounted, scope.Workspace, scope.Mode, id, clickedAt).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, CountedClick)
			clicks = append(clicks, found...)
			return err
		})
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("lock clicks of buyers: %w", err)
	}
	return clicks, nil
}

// CountedClickColumns are the columns of a click that CountedClick reads: those that the
// counts and the analytics use.
const CountedClickColumns = `
	id, workspace_id, mode, program_id, participant_id, link_id, received_at, is_bot, is_unique,
	coalesce(country, ''), coalesce(device, ''), coalesce(browser, ''), coalesce(os, ''), coalesce(referrer_domain, ''),
	coalesce(landing_url, ''), coalesce(utm_source, ''), coalesce(utm_medium, ''), coalesce(utm_campaign, ''), coalesce(sub_id, '')`

// CountedClick reads a click from CountedClickColumns. Its other fields are not set.
func CountedClick(row pgx.CollectableRow) (click.Click, error) {
	var c click.Click
	var link *affiliate.LinkID
	err := row.Scan(
		&c.ID, &c.Scope.Workspace, &c.Scope.Mode, &c.Program, &c.Participant, &link, &c.ReceivedAt, &c.IsBot, &c.Unique,
		&c.Country, &c.Device, &c.Browser, &c.OS, &c.ReferrerDomain,
		&c.LandingURL, &c.UTM.Source, &c.UTM.Medium, &c.UTM.Campaign, &c.SubID)
	if link != nil {
		c.Link = *link
	}
	return c, err
}
