package analytics

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// fromTargets joins targets to their sums of a dimension in a range of days, with one search in
// the primary key for each. For a target with a link, the search reads the sums of all links of
// the participant.
var fromTargets = `
	from ` + postgres.Unnest[analytics.Target]("t") + `
	cross join lateral (
		select s.* from analytics_days s
		where s.workspace_id = t.workspace_id and s.mode = @mode and s.program_id = t.program_id and s.participant_id = t.participant_id
			and s.dimension = @dimension and s.day between @first and @last
			and (t.link_id = '00000000-0000-0000-0000-000000000000' or s.link_id = t.link_id)
		offset 0) as s`

// fromOwners joins programmes to the totals of their participants and links.
const fromOwners = `
	from unnest(@workspace_id::uuid[], @program_id::uuid[]) as t (workspace_id, program_id)
	cross join lateral (
		select s.* from analytics_days s
		where s.workspace_id = t.workspace_id and s.mode = @mode and s.program_id = t.program_id and s.day between @first and @last
			and s.dimension = '' and s.participant_id <> '00000000-0000-0000-0000-000000000000'
		offset 0) as s`

var (
	sumOfCounts = eachCount("coalesce(sum(s.%s), 0)::bigint")

	selectDays = `select s.day, s.currency, s.quarters ` + fromTargets
	// The statements with the suffix Edges return the sums of days that lie only partly in the period.
	selectTotalsOfDays  = `select s.program_id, s.currency, ` + sumOfCounts + fromTargets + ` group by s.program_id, s.currency`
	selectTotalsOfEdges = `select s.program_id, s.currency, s.quarters ` + fromTargets
	selectValuesOfDays  = `select s.value, s.currency, ` + sumOfCounts + fromTargets + ` group by s.value, s.currency`
	selectValuesOfEdges = `select s.value, s.currency, s.quarters ` + fromTargets
	selectOwnersOfDays  = `select s.participant_id, s.link_id, s.currency, ` + sumOfCounts + fromOwners + ` group by s.participant_id, s.link_id, s.currency`
	selectOwnersOfEdges = `select s.participant_id, s.link_id, s.currency, s.quarters ` + fromOwners
	selectLinksOfDays   = `select s.participant_id, s.link_id, s.currency, ` + sumOfCounts + fromTargets + ` group by s.participant_id, s.link_id, s.currency`
	selectLinksOfEdges  = `select s.participant_id, s.link_id, s.currency, s.quarters ` + fromTargets
)

// targetArgs returns the arguments of fromTargets and fromOwners.
func targetArgs(mode affiliate.Mode, targets []analytics.Target, dimension analytics.Dimension, first, last analytics.Day) pgx.NamedArgs {
	args := postgres.Arrays(affiliate.Scope{Mode: mode}, targets)
	args["dimension"], args["first"], args["last"] = dimension, first.Time(), last.Time()
	return args
}

// Reader reads sums. All its statements read the same snapshot.
type Reader struct{ tx pgx.Tx }

// InSnapshot runs fn with a Reader. It uses a connection until fn has returned.
func InSnapshot(ctx context.Context, db *postgres.DB, fn func(r *Reader) error) error {
	return db.InSnapshot(ctx, func(_ context.Context, tx pgx.Tx) error { return fn(&Reader{tx}) })
}

// Days calls the function add with the quarters of each day of targets and each currency. It reads one row
// for each target, day and currency. For a target with a participant, it reads one such row for each link.
func (r *Reader) Days(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period, add func(analytics.Day, string, analytics.Quarters),
) error {
	first, last := p.Days()
	type daySum struct {
		Day      analytics.Day
		Currency string
		Quarters analytics.Quarters
	}
	sums, err := postgres.List[daySum](ctx, r.tx, selectDays, targetArgs(mode, targets, analytics.Total, first, last))
	for _, s := range sums {
		add(s.Day, s.Currency, s.Quarters)
	}
	return err
}

// Totals returns the figures of the targets' programmes. Unattributed conversions are counted
// under the zero id.
func (r *Reader) Totals(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period,
) (map[affiliate.ProgramID]*analytics.Figures, error) {
	g := groups[affiliate.ProgramID]{figures: map[affiliate.ProgramID]*analytics.Figures{}, period: p}
	var program affiliate.ProgramID
	err := g.read(ctx, r.tx, selectTotalsOfDays, selectTotalsOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
		return targetArgs(mode, targets, analytics.Total, first, last)
	}, []any{&program}, func() affiliate.ProgramID { return program })
	return g.figures, err
}

// Values returns the figures of the values of a dimension. The figures of the values that are
// not counted separately have the key analytics.OtherValues.
func (r *Reader) Values(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, dimension analytics.Dimension, p analytics.Period,
) (map[string]*analytics.Figures, error) {
	g := groups[string]{figures: map[string]*analytics.Figures{}, period: p}
	var value string
	err := g.read(ctx, r.tx, selectValuesOfDays, selectValuesOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
		return targetArgs(mode, targets, dimension, first, last)
	}, []any{&value}, func() string { return value })
	return g.figures, err
}

// Owners returns the figures of participants and links, by keys without a programme.
func (r *Reader) Owners(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period,
) (map[analytics.Owner]*analytics.Figures, error) {
	var programs, participants []analytics.Target
	for _, t := range targets {
		switch {
		case t.Program.IsZero(): // conversions that are not attributed
		case t.Participant.IsZero():
			programs = append(programs, t)
		default:
			participants = append(participants, t)
		}
	}
	g := groups[analytics.Owner]{figures: map[analytics.Owner]*analytics.Figures{}, period: p}
	var key analytics.Owner
	columns, keyOf := []any{&key.Participant, &key.Link}, func() analytics.Owner { return key }
	if len(programs) > 0 {
		err := g.read(ctx, r.tx, selectOwnersOfDays, selectOwnersOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
			return targetArgs(mode, programs, analytics.Total, first, last)
		}, columns, keyOf)
		if err != nil {
			return nil, err
		}
	}
	if len(participants) > 0 {
		err := g.read(ctx, r.tx, selectLinksOfDays, selectLinksOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
			return targetArgs(mode, participants, analytics.Total, first, last)
		}, columns, keyOf)
		if err != nil {
			return nil, err
		}
	}
	return g.figures, nil
}

// groups collects figures by a key.
type groups[K comparable] struct {
	figures map[K]*analytics.Figures
	period  analytics.Period
}

func (g *groups[K]) add(key K, currency string, counts analytics.Counts) {
	if counts == (analytics.Counts{}) {
		return
	}
	if g.figures[key] == nil {
		g.figures[key] = &analytics.Figures{}
	}
	g.figures[key].Add(currency, counts)
}

// read adds the figures of a period. The statement ofDays reads its whole days. The statement ofEdges
// reads the days that are only partly in it. Both statements return the columns of the key first.
func (g *groups[K]) read(
	ctx context.Context, tx pgx.Tx, ofDays, ofEdges string, args func(first, last analytics.Day) pgx.NamedArgs, columns []any, key func() K,
) error {
	batch := &pgx.Batch{}
	if first, last := g.period.Whole(); first <= last {
		batch.Queue(ofDays, args(first, last)).Query(func(rows pgx.Rows) error {
			var currency string
			var counts analytics.Counts
			targets := append(columns[:len(columns):len(columns)], &currency)
			for i := range counts {
				targets = append(targets, &counts[i])
			}
			_, err := pgx.ForEachRow(rows, targets, func() error { g.add(key(), currency, counts); return nil })
			return err
		})
	}
	for _, edge := range g.period.Edges() {
		batch.Queue(ofEdges, args(edge, edge)).Query(func(rows pgx.Rows) error {
			var currency string
			var quarters analytics.Quarters
			_, err := pgx.ForEachRow(rows, append(columns[:len(columns):len(columns)], &currency, &quarters), func() error {
				for _, quarter := range quarters {
					if g.period.Contains(edge.First() + analytics.Quarter(quarter.Index)) {
						g.add(key(), currency, quarter.Counts)
					}
				}
				return nil
			})
			return err
		})
	}
	if batch.Len() == 0 {
		return nil
	}
	return postgres.Send(ctx, tx, batch)
}

const (
	selectPrograms = `select id, currency from programs where workspace_id = $1 and mode = $2`
	selectProgram  = selectPrograms + ` and id = $3`
	selectCurrency = `select currency from workspaces where id = $1`
)

// Programs returns all programmes of a workspace and mode.
func Programs(ctx context.Context, db *postgres.DB, scope affiliate.Scope) ([]analytics.Program, error) {
	return postgres.List[analytics.Program](ctx, db, selectPrograms, scope.Workspace, scope.Mode)
}

// Program returns a programme. Errors: NOT_FOUND.
func Program(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ProgramID) (analytics.Program, error) {
	return postgres.OneRow[analytics.Program](db.Query(ctx, selectProgram, scope.Workspace, scope.Mode, id))
}

// WorkspaceCurrency returns the currency of a workspace. Errors: NOT_FOUND.
func WorkspaceCurrency(ctx context.Context, db *postgres.DB, id affiliate.WorkspaceID) (string, error) {
	found, err := postgres.OneRow[struct{ Currency string }](db.Query(ctx, selectCurrency, id))
	return found.Currency, err
}

const (
	selectParticipant = `
		select program_id, id as participant_id, null::uuid as link_id from participants where workspace_id = $1 and mode = $2 and id = $3`
	selectLink = `
		select l.program_id, l.participant_id, l.id as link_id from links l where l.workspace_id = any($1) and l.mode = $2 and l.id = $3`
)

// Participant returns a participant with its programme. Errors: NOT_FOUND.
func Participant(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ParticipantID) (analytics.Owner, error) {
	return postgres.OneRow[analytics.Owner](db.Query(ctx, selectParticipant, scope.Workspace, scope.Mode, id))
}

// Link returns a link of one of the workspaces, even if it is deleted. Errors: NOT_FOUND.
func Link(ctx context.Context, db *postgres.DB, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, id affiliate.LinkID) (analytics.Owner, error) {
	return postgres.OneRow[analytics.Owner](db.Query(ctx, selectLink, workspaces, mode, id))
}

// selectParticipations finds a partner's participants in all workspaces.
const selectParticipations = `
	select t.workspace_id as workspace, t.program_id as program, t.id as participant, p.currency
	from participants t
	join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
	where t.partner_id = $1 and t.mode = $2`

// Participations returns the participants of a partner.
func Participations(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode) ([]analytics.Participation, error) {
	return postgres.List[analytics.Participation](ctx, db, selectParticipations, partner, mode)
}

// These statements read the labels of ids, with one search in the primary key for each id and workspace.
const (
	fromIDs          = ` from unnest($3::uuid[]) as n (id) cross join unnest($1::uuid[]) as w (workspace_id) `
	labelsOfPrograms = `select t.id::text, t.name as label` + fromIDs + `
		cross join lateral (select id, name from programs where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
	labelsOfParticipants = `select t.id::text, t.partner_name as label` + fromIDs + `
		cross join lateral (select id, partner_name from participants where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
	labelsOfLinks = `select t.id::text, t.code as label` + fromIDs + `
		cross join lateral (select id, code from links where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
)

// Labels returns the names of programmes or partners, or the codes of links, by their ids. It
// searches the ids only in the given workspaces.
func (r *Reader) Labels(
	ctx context.Context, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, dimension analytics.Dimension, ids []string,
) (map[string]string, error) {
	statements := map[analytics.Dimension]string{
		analytics.ByProgram: labelsOfPrograms, analytics.ByParticipant: labelsOfParticipants, analytics.ByLink: labelsOfLinks,
	}
	type row struct{ ID, Label string }
	rows, err := postgres.List[row](ctx, r.tx, statements[dimension], workspaces, mode, ids)
	labels := make(map[string]string, len(rows))
	for _, row := range rows {
		labels[row.ID] = row.Label
	}
	return labels, err
}
