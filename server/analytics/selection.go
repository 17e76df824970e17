package analytics

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// selection says which sums a request reads, and how its response shows them.
type selection struct {
	mode    affiliate.Mode
	targets []analytics.Target
	view    analytics.View
	// allPrograms is true if the targets are all programmes of a workspace.
	allPrograms bool
}

// cohortTargets returns the targets whose cohorts are read. The customers of a workspace
// can buy in several programmes, so the workspace has cohorts of its own.
func (s selection) cohortTargets() []analytics.Target {
	if !s.allPrograms {
		return s.targets
	}
	var targets []analytics.Target
	for _, workspace := range s.workspaces() {
		targets = append(targets, analytics.Target{Workspace: workspace})
	}
	return targets
}

// workspaces returns the workspaces of the targets.
func (s selection) workspaces() []affiliate.WorkspaceID {
	found := map[affiliate.WorkspaceID]bool{}
	for _, t := range s.targets {
		found[t.Workspace] = true
	}
	return slices.Collect(maps.Keys(found))
}

// filter holds the ids that a request selects. Zero ids select everything.
type filter struct {
	program     affiliate.ProgramID
	participant affiliate.ParticipantID
	link        affiliate.LinkID
}

// filterOf returns the filter of a request. An invalid id becomes zero. Only ids in paths can be invalid.
func filterOf(req request) filter {
	var f filter
	f.program, _ = affiliate.ParseID[affiliate.ProgramID](req.GetProgramId())
	f.participant, _ = affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	f.link, _ = affiliate.ParseID[affiliate.LinkID](req.GetLinkId())
	return f
}

// selectWorkspace returns the selection of a member on the routes of the workspace. Errors: NOT_FOUND.
func (s *Service) selectWorkspace(ctx context.Context, req request) (selection, error) {
	f, scope := filterOf(req), server.PrincipalFrom(ctx).Scope()
	if f != (filter{}) {
		return s.selectFiltered(ctx, req, f)
	}
	currency, err := rollups.WorkspaceCurrency(ctx, s.db, scope.Workspace)
	if err != nil {
		return selection{}, err
	}
	programs, err := rollups.Programs(ctx, s.db, scope)
	if err != nil {
		return selection{}, err
	}
	found := selection{mode: scope.Mode, view: analytics.View{Currency: currency, IncludeBots: req.GetIncludeBots()}, allPrograms: true}
	for _, p := range programs {
		found.targets = append(found.targets, analytics.Target{Workspace: scope.Workspace, Owner: analytics.Owner{Program: p.ID}})
	}
	if r, ok := req.(*affiliatev1.AnalyticsRequest); ok && r.GetIncludeUnattributed() {
		found.targets = append(found.targets, analytics.Target{Workspace: scope.Workspace})
	}
	return found, nil
}

// selectProgram returns the selection of a member on the routes of a programme. Errors: NOT_FOUND.
func (s *Service) selectProgram(ctx context.Context, req request) (selection, error) {
	if server.PathID[affiliate.ProgramID](req.GetProgramId()).IsZero() { // a filter without a programme selects all
		return selection{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return s.selectFiltered(ctx, req, filterOf(req))
}

// selectFiltered returns the selection of a member with a filter.
func (s *Service) selectFiltered(ctx context.Context, req request, f filter) (selection, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	owner := analytics.Owner{Program: f.program}
	if !f.participant.IsZero() {
		found, err := rollups.Participant(ctx, s.db, scope, f.participant)
		if err != nil {
			return selection{}, err
		}
		if !owner.Narrow(found) {
			return selection{}, affiliate.Refuse(affiliate.ReasonNotFound)
		}
	}
	if !f.link.IsZero() {
		found, err := rollups.Link(ctx, s.db, scope.Mode, []affiliate.WorkspaceID{scope.Workspace}, f.link)
		if err != nil {
			return selection{}, err
		}
		if !owner.Narrow(found) {
			return selection{}, affiliate.Refuse(affiliate.ReasonNotFound)
		}
	}
	program, err := rollups.Program(ctx, s.db, scope, owner.Program)
	if err != nil {
		return selection{}, err
	}
	return selection{
		mode:    scope.Mode,
		targets: []analytics.Target{{Workspace: scope.Workspace, Owner: owner}},
		view:    analytics.View{Currency: program.Currency, IncludeBots: req.GetIncludeBots()},
	}, nil
}

// selectPartner returns the selection of a partner: the partner's participations that match the
// filter, or that of a participant token. Errors: NOT_FOUND if no participation or no link of the partner matches the filter.
func (s *Service) selectPartner(ctx context.Context, req request) (selection, error) {
	caller, f := server.PrincipalFrom(ctx), filterOf(req)
	participations, err := rollups.Participations(ctx, s.db, caller.User, caller.Mode)
	if err != nil {
		return selection{}, err
	}
	if own := caller.Participation; own != nil {
		participations = slices.DeleteFunc(participations, func(p analytics.Participation) bool { return p.Participant != own.Participant })
	}
	found := selection{mode: caller.Mode, view: analytics.View{IncludeBots: req.GetIncludeBots(), HideCosts: true}}
	wanted := analytics.Owner{Program: f.program, Participant: f.participant}
	if !f.link.IsZero() {
		link, err := rollups.Link(ctx, s.db, caller.Mode, workspacesOf(participations), f.link)
		if err != nil {
			return selection{}, err
		}
		if !wanted.Narrow(link) {
			return selection{}, affiliate.Refuse(affiliate.ReasonNotFound)
		}
	}
	currencies := map[string]int{}
	for _, p := range participations {
		owner := analytics.Owner{Program: p.Program, Participant: p.Participant}
		if !owner.Narrow(wanted) {
			continue
		}
		found.targets = append(found.targets, analytics.Target{Workspace: p.Workspace, Owner: owner})
		currencies[p.Currency]++
	}
	if len(found.targets) == 0 && f != (filter{}) {
		return selection{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	found.view.Currency = mostFrequent(currencies)
	return found, nil
}

func workspacesOf(participations []analytics.Participation) []affiliate.WorkspaceID {
	ids := make([]affiliate.WorkspaceID, len(participations))
	for i, p := range participations {
		ids[i] = p.Workspace
	}
	return ids
}

// mostFrequent returns the most frequent currency of the programmes of a partner, because a partner has no
// currency. If the partner takes part in no programme, it returns the default currency of workspaces.
func mostFrequent(currencies map[string]int) string {
	if len(currencies) == 0 {
		return account.DefaultCurrency
	}
	names := slices.Collect(maps.Keys(currencies))
	return slices.MinFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(currencies[b], currencies[a]), cmp.Compare(a, b)) })
}
