package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// decisionColumns are the fields of decisionRow, selected from attribution_decisions d.
// The other parts of a decision are in its trace.
const decisionColumns = `
	d.id, d.conversion_id, d.attributed, d.method, d.reason_code, d.explanation, d.engine_version, d.trace,
	d.supersedes, d.decided_at,
	(
		select s.id from attribution_decisions s
		where s.workspace_id = d.workspace_id and s.mode = d.mode and s.supersedes = d.id limit 1
	) as superseded_by,
	(
		select v.customer_ref from conversions v
		where v.workspace_id = d.workspace_id and v.mode = d.mode and v.id = d.conversion_id
	) as customer_ref`

type decisionRow struct {
	ID            affiliate.DecisionID
	ConversionID  affiliate.ConversionID
	Attributed    bool
	Method        *attribution.Method
	ReasonCode    attribution.Reason
	Explanation   string
	EngineVersion string
	Trace         storedTrace
	Supersedes    *affiliate.DecisionID
	DecidedAt     time.Time
	SupersededBy  *affiliate.DecisionID
	CustomerRef   *string
}

// storedTrace is a decision's trace. It also keeps the JSON of the commission rules
// exactly as it was stored in the trace.
type storedTrace struct {
	attribution.Trace
	ruleJSON json.RawMessage
}

// UnmarshalJSON decodes a stored trace.
func (t *storedTrace) UnmarshalJSON(stored []byte) error {
	// For the JSON value null, the pointer is nil. A plain RawMessage would contain the
	// text null.
	var raw struct {
		Rule *json.RawMessage `json:"rule"`
	}
	if err := json.Unmarshal(stored, &raw); err != nil {
		return err
	}
	if raw.Rule != nil {
		t.ruleJSON = *raw.Rule
	}
	return json.Unmarshal(stored, &t.Trace)
}

func (r decisionRow) record() attribution.DecisionRecord {
	return attribution.DecisionRecord{
		Decision: attribution.Decision{
			ID: r.ID, Conversion: r.ConversionID, Attributed: r.Attributed, Method: r.Method, Reason: r.ReasonCode,
			Explanation: r.Explanation, EngineVersion: r.EngineVersion, DecidedAt: r.DecidedAt,
			Supersedes: r.Supersedes, Trace: r.Trace.Trace,
		},
		RuleJSON: r.Trace.ruleJSON, CustomerRef: r.CustomerRef, SupersededBy: r.SupersededBy,
	}
}

const selectDecision = `
	select ` + decisionColumns + `
	from conversions c
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3`

// GetDecision returns the decision in force about a conversion. Errors: NOT_FOUND.
func GetDecision(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ConversionID) (attribution.DecisionRecord, error) {
	return readDecision(db.Query(ctx, selectDecision, scope.Workspace, scope.Mode, id))
}

const selectDecisionOfExternal = `
	select ` + decisionColumns + `
	from conversions c
	join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
	where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3`

// GetDecisionByExternalID returns the decision in force about the conversion with the given
// external id, which is the merchant's own id. Errors: NOT_FOUND.
func GetDecisionByExternalID(ctx context.Context, db *postgres.DB, scope affiliate.Scope, external string) (attribution.DecisionRecord, error) {
	return readDecision(db.Query(ctx, selectDecisionOfExternal, scope.Workspace, scope.Mode, external))
}

func readDecision(rows pgx.Rows, err error) (attribution.DecisionRecord, error) {
	row, err := postgres.OneRow[decisionRow](rows, err)
	return row.record(), err
}

// ListDecisions returns one page of decisions, newest first, including superseded ones, and
// the number of rows on all pages, up to affiliate.MaxTotal. The page and the total are
// read by two statements. A decision that is made between them is missing from the page
// but included in the total.
func ListDecisions(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter attribution.DecisionFilter, page affiliate.Page,
) ([]attribution.DecisionRecord, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, nil, nil); err != nil {
		return nil, 0, err
	}
	where := decisionConditions(scope, filter)
	pageSQL, countSQL := decisionListSQL(where)
	args := append([]any{postgres.PlanForArgs}, where.Args...)
	rows, err := db.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	decisions, err := postgres.AllRows(rows, err, decisionRow.record)
	if err != nil {
		return nil, 0, fmt.Errorf("read decisions: %w", err)
	}
	if n := int64(len(decisions)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return decisions, page.Offset() + n, nil
	}
	var total int64
	if err := db.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count decisions: %w", err)
	}
	return decisions, total, nil
}

// decisionConditions returns the conditions for the rows of attribution_decisions d
// that match the filter. The column program_id is set only if the conversion is
// attributed. The programme filter therefore uses the trace, which also names the
// programme of an unattributed conversion if a signal led to a programme.
func decisionConditions(scope affiliate.Scope, filter attribution.DecisionFilter) postgres.Conditions {
	var where postgres.Conditions
	where.Add("d.workspace_id = ?", scope.Workspace)
	where.Add("d.mode = ?", scope.Mode)
	if filter.Attributed != nil {
		// The term has no parameter, because Postgres uses the partial index of
		// unattributed decisions only if the condition is a constant.
		if *filter.Attributed {
			where.Add("d.attributed")
		} else {
			where.Add("not d.attributed")
		}
	}
	if filter.Reason != "" {
		where.Add("d.reason_code = ?", filter.Reason)
	}
	if filter.Program != nil {
		where.Add("d.trace #>> '{program,id}' = ?", filter.Program.String())
	}
	if filter.Decided.From != nil {
		where.Add("d.decided_at >= ?", *filter.Decided.From)
	}
	if filter.Decided.Before != nil {
		where.Add("d.decided_at < ?", *filter.Decided.Before)
	}
	return where
}

// decisionListSQL returns the statements for a page and for the total. The statement for
// a page takes the arguments of where, and then the size and the offset of the page. The
// statement for the total takes only the arguments of where.
func decisionListSQL(where postgres.Conditions) (page, count string) {
	const newest = ` order by d.decided_at desc, d.id desc`
	page = `select ` + decisionColumns + ` from (
			select d.* from attribution_decisions d where ` + where.SQL() + newest + `
			limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `
		) d` + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, `from attribution_decisions d where `+where.SQL())
}

// selectClick reads a click. It opens a single partition, because it has a condition on
// clicked_at, the time inside the id. It does not read the columns that identify the
// visitor.
const selectClick = `
	select x.program_id, x.participant_id, x.link_id, x.referral_code, x.received_at, x.expires_at, x.created_at,
		coalesce(x.landing_url, '') as landing_url, coalesce(x.referrer_domain, '') as referrer_domain,
		coalesce(x.utm_source, '') as utm_source, coalesce(x.utm_medium, '') as utm_medium,
		coalesce(x.utm_campaign, '') as utm_campaign, coalesce(x.utm_term, '') as utm_term,
		coalesce(x.utm_content, '') as utm_content, coalesce(x.sub_id, '') as sub_id,
		coalesce(x.language, '') as language, x.consent, x.is_bot, coalesce(x.bot_reason, '') as bot_reason,
		coalesce(x.country, '') as country, coalesce(x.region, '') as region, coalesce(x.device, '') as device,
		coalesce(x.browser, '') as browser, coalesce(x.os, '') as os, coalesce(x.paid_platform, '') as paid_platform, x.is_unique,
		(
			select min(c.created_at)
			from conversions c
			join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
			where c.workspace_id = x.workspace_id and c.mode = x.mode and c.click_id = x.id and d.click_id = x.id and d.attributed
		) as converted_at
	from clicks x
	where x.workspace_id = $1 and x.mode = $2 and x.id = $3 and x.clicked_at = $4`

const conversionsOfClick = `
	select id, external_transaction_id, attributed, reason_code as reason, decision_id as decision, created_at
	from conversions
	where workspace_id = $1 and mode = $2 and click_id = $3
	order by created_at, id
	limit $4`

// GetClick returns a stored click of the given mode and up to
// attribution.MaxClickConversions conversions that were reported with its id. Errors:
// NOT_FOUND.
func GetClick(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ClickID) (attribution.ClickDetail, error) {
	clickedAt, ok := id.Time()
	if !ok {
		// The service only issues ids of version 7, which contain a time.
		return attribution.ClickDetail{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	click := attribution.ClickDetail{Click: click.Click{ID: id, Scope: scope, ClickedAt: clickedAt}}
	batch := &pgx.Batch{}
	batch.Queue(selectClick, scope.Workspace, scope.Mode, id, clickedAt).Query(func(rows pgx.Rows) error {
		return collectClick(rows, &click)
	})
	postgres.QueueList(batch, &click.Conversions, conversionsOfClick, scope.Workspace, scope.Mode, id, attribution.MaxClickConversions)
	err := db.SendBatch(ctx, batch).Close()
	return click, err
}

func collectClick(rows pgx.Rows, found *attribution.ClickDetail) error {
	type clickRow struct {
		ProgramID      affiliate.ProgramID
		ParticipantID  affiliate.ParticipantID
		LinkID         *affiliate.LinkID
		ReferralCode   string
		ReceivedAt     time.Time
		ExpiresAt      time.Time
		CreatedAt      time.Time
		LandingURL     string
		ReferrerDomain string
		UTMSource      string
		UTMMedium      string
		UTMCampaign    string
		UTMTerm        string
		UTMContent     string
		SubID          string
		Language       string
		Consent        click.Consent
		IsBot          bool
		BotReason      string
		Country        string
		Region         string
		Device         string
		Browser        string
		OS             string
		PaidPlatform   string
		IsUnique       bool
		ConvertedAt    *time.Time
	}
	r, err := postgres.OneRow[clickRow](rows, nil)
	if err != nil {
		return err
	}
	found.Program, found.Participant, found.ReferralCode = r.ProgramID, r.ParticipantID, r.ReferralCode
	if r.LinkID != nil {
		found.Link = *r.LinkID
	}
	found.ReceivedAt, found.ExpiresAt, found.CreatedAt = r.ReceivedAt, r.ExpiresAt, r.CreatedAt
	found.LandingURL, found.ReferrerDomain, found.SubID, found.Language = r.LandingURL, r.ReferrerDomain, r.SubID, r.Language
	found.UTM = click.UTM{
		Source: r.UTMSource, Medium: r.UTMMedium, Campaign: r.UTMCampaign, Term: r.UTMTerm, Content: r.UTMContent,
	}
	found.Consent, found.IsBot, found.BotReason, found.Unique = r.Consent, r.IsBot, r.BotReason, r.IsUnique
	found.Country, found.Region, found.PaidPlatform = r.Country, r.Region, r.PaidPlatform
	found.Device, found.Browser, found.OS = r.Device, r.Browser, r.OS
	found.ConvertedAt = r.ConvertedAt
	return nil
}
