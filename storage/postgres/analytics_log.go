package postgres

import (
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

// QueueClickLog queues the insertion of new clicks into the log of the analytics.
func QueueClickLog(batch *pgx.Batch, clicks []click.Click) {
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
	QueueClickLogs(batch, logs)
}

// QueueClickLogs queues the insertion of new clicks of several workspaces and modes.
func QueueClickLogs(batch *pgx.Batch, logs map[affiliate.Scope]*analytics.ClickLog) {
	for scope, log := range logs {
		batch.Queue(insertClickLog, scope.Workspace, scope.Mode, log.Bytes(), log.Oldest())
	}
}

// QueueConversionLog queues the insertion of conversions into the log of the analytics. Each
// transaction that changes a property or a number that the analytics use must call it: the
// decision in force, the refunded amount, or the status and amount of the commission.
func QueueConversionLog(batch *pgx.Batch, scope affiliate.Scope, ids ...affiliate.ConversionID) {
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

// CountedClickColumns are the columns of a click that the counts and the analytics use.
const CountedClickColumns = `
	id, workspace_id, mode, program_id, participant_id, link_id, received_at, is_bot, is_unique,
	coalesce(country, '') as country, coalesce(device, '') as device, coalesce(browser, '') as browser, coalesce(os, '') as os,
	coalesce(referrer_domain, '') as referrer_domain, coalesce(landing_url, '') as landing_url, coalesce(utm_source, '') as utm_source,
	coalesce(utm_medium, '') as utm_medium, coalesce(utm_campaign, '') as utm_campaign, coalesce(sub_id, '') as sub_id`

// CountedClick reads a click from CountedClickColumns. Its other fields are not set.
var CountedClick = pgx.RowToStructByNameLax[click.Click]
