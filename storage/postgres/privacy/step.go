package privacy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The steps of an erasure run twice. A request that was running when the erasure was
// committed can still store data of the subject. All such requests have ended secondPass
// after the erasure. Then the second run of the steps erases the data that they have stored.
const (
	passes     = 2
	secondPass = time.Minute
)

// pageSize is the number of rows that a page of a step reads at most. pageSize rows of any
// table are changed in much less than a second.
const pageSize = 2000

// target is what a step erases: the data of a participant, of a workspace, or of a partner's
// account without its participations.
type target struct {
	Workspace   affiliate.WorkspaceID    // the zero value: a partner's account
	Participant *affiliate.ParticipantID // nil: the workspace, or the account
	// Partner is the account, or the partner of the participant. It is nil for a workspace, and
	// for a participant that was deleted with test data.
	Partner   *affiliate.UserID
	Pseudonym string
	// Texts are the names, addresses and codes of the subject.
	Texts []string
	At    time.Time // time of the erasure
}

func (t target) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": t.Workspace, "participant": t.Participant, "partner": t.Partner, "pseudonym": t.Pseudonym, "texts": t.Texts,
		"at": t.At,
	}
}

// step is a part of an erasure. It has one of the functions run and request.
type step struct {
	name string
	// run processes the page of rows that follow the cursor. It returns the cursor of the next
	// page. The result done is true if there are no more rows after this page.
	run func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (next uuid.UUID, done bool, err error)
	// request returns a page with work that the caller of Advance does. It returns an empty
	// page if the step has ended.
	request func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (privacy.ErasurePage, error)
}

// Advance processes the next page of an erasure in one transaction. The caller must have done the work of the
// previous page, which it got from the call before and passes to this call. The page is empty in the first call.
// Errors: NOT_FOUND.
func Advance(ctx context.Context, db *postgres.DB, id privacy.ErasureID, previous privacy.ErasurePage, now time.Time) (page privacy.ErasurePage, err error) {
	err = db.InTx(ctx, func(tx *postgres.Tx) error {
		page = privacy.ErasurePage{}
		for _, codes := range previous.Delete {
			if err := replaceCodes(ctx, tx, codes); err != nil {
				return err
			}
		}
		p, err := lockErasure(ctx, tx, id)
		if err != nil {
			return err
		}
		if p.Finished {
			page.Finished = true
			return nil
		}
		if page, err = advance(ctx, tx, &p, previous, now); err != nil {
			return err
		}
		return setProgress(ctx, tx, p)
	})
	return page, err
}

// advance does the work of Advance for a locked erasure, and sets its position.
func advance(ctx context.Context, tx *postgres.Tx, p *Progress, previous privacy.ErasurePage, now time.Time) (privacy.ErasurePage, error) {
	plan, err := plan(ctx, tx, *p)
	if err != nil {
		return privacy.ErasurePage{}, err
	}
	switch {
	case p.Step >= passes*len(plan) && !previous.Exports:
		// An export that was made while the steps ran may have data that they had not erased yet.
		return privacy.ErasurePage{Exports: true, Workspaces: workspacesOf(plan)}, nil
	case p.Step >= passes*len(plan):
		return privacy.ErasurePage{Finished: true}, finish(ctx, tx, p.ID, now)
	case p.Step == len(plan) && now.Before(p.ErasedAt.Add(secondPass)):
		return privacy.ErasurePage{Wait: p.ErasedAt.Add(secondPass).Sub(now)}, nil
	}
	current := plan[p.Step%len(plan)]
	if request := current.step.request; request != nil {
		if read := previous.DeadLetters; read != nil && read.Step == p.Step && cursorAt(read.After) == p.Cursor {
			p.moveTo(cursorAt(read.Last), !read.More)
			return privacy.ErasurePage{}, nil
		}
		page, err := request(ctx, tx, current.target, p.Cursor)
		if err != nil {
			return page, fmt.Errorf("erase %s: %w", current.step.name, err)
		}
		switch {
		case page.DeadLetters != nil:
			page.DeadLetters.Step = p.Step
		case len(page.Delete) == 0:
			p.moveTo(p.Cursor, true)
		}
		return page, nil
	}
	next, done, err := current.step.run(ctx, tx, current.target, p.Cursor)
	if err != nil {
		return privacy.ErasurePage{}, fmt.Errorf("erase %s: %w", current.step.name, err)
	}
	p.moveTo(next, done)
	return privacy.ErasurePage{}, nil
}

// planned is a step with its target.
type planned struct {
	target target
	step   step
}

// workspacesOf returns the workspaces of a plan.
func workspacesOf(plan []planned) (workspaces []affiliate.WorkspaceID) {
	for _, p := range plan {
		if id := p.target.Workspace; !id.IsZero() && !slices.Contains(workspaces, id) {
			workspaces = append(workspaces, id)
		}
	}
	return workspaces
}

// plan returns the steps of one pass of an erasure, in a fixed order.
func plan(ctx context.Context, tx *postgres.Tx, p Progress) ([]planned, error) {
	// A participant of test mode can be deleted during the erasure. Its steps stay, because the
	// position of the erasure counts them.
	const query = `
		select e.workspace_id as workspace, e.participant_id as participant, t.partner_id as partner
		from erasure_participants e
		left join participants t on t.workspace_id = e.workspace_id and t.id = e.participant_id and t.mode in ('test', 'live')
		where e.erasure_id = $1
		order by e.workspace_id, e.participant_id`
	type row struct {
		Workspace   affiliate.WorkspaceID
		Participant affiliate.ParticipantID
		Partner     *affiliate.UserID
	}
	var plan []planned
	add := func(t target, steps []step) {
		t.Texts, t.At = p.Texts, p.ErasedAt.UTC()
		for _, s := range steps {
			plan = append(plan, planned{t, s})
		}
	}
	pseudonym := privacy.Pseudonym(p.SubjectID)
	switch p.Subject {
	case privacy.EraseWorkspace:
		add(target{Workspace: affiliate.WorkspaceID{UUID: p.SubjectID}, Pseudonym: pseudonym}, workspaceSteps)
		return plan, nil
	case privacy.ErasePartner:
		add(target{Partner: &affiliate.UserID{UUID: p.SubjectID}, Pseudonym: pseudonym}, accountSteps)
	case privacy.EraseParticipant:
	}
	participants, err := postgres.List[row](ctx, tx, query, p.ID)
	for _, r := range participants {
		t := target{Workspace: r.Workspace, Participant: &r.Participant, Partner: r.Partner, Pseudonym: privacy.Pseudonym(r.Participant.UUID)}
		if r.Partner != nil {
			t.Pseudonym = privacy.Pseudonym(r.Partner.UUID)
		}
		add(t, participantSteps)
	}
	return plan, err
}

// walk returns a step that reads the ids of a page with the statement page, and then runs the
// other statements on these ids. The statements get the ids as @ids.
func walk(name, page string, statements ...string) step {
	return step{name: name, run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		args := t.args()
		args["after"], args["limit"] = cursor, pageSize
		found, err := ids(tx.Query(ctx, page, postgres.PlanForArgs, args))
		if err != nil || len(found) == 0 {
			return cursor, true, err
		}
		args["ids"] = found
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement, postgres.PlanForArgs, args); err != nil {
				return cursor, false, err
			}
		}
		return found[len(found)-1], len(found) < pageSize, nil
	}}
}

// deleteAll returns a step that deletes the rows of a table that satisfy the condition. The table must not have
// partitions, because the statement finds the rows by ctid.
func deleteAll(table, condition string) step {
	statement := "delete from " + table + " where " + condition + " and ctid = any(array(select ctid from " + table + " where " + condition + " limit @limit))"
	return step{name: table, run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		args := t.args()
		args["limit"] = pageSize
		tag, err := tx.Exec(ctx, statement, postgres.PlanForArgs, args)
		return cursor, tag.RowsAffected() == 0, err
	}}
}

// weeks returns a step that runs a statement for each week in which a feed can have
// notifications, from @from to @until. The cursor contains the time of @from.
func weeks(name, statement string) step {
	const kept = 27 * 7 * 24 * time.Hour // notifications are kept for 180 days, in whole weeks
	return step{name: name, run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		from := t.At.Add(-kept)
		if at, ok := (notification.ID{UUID: cursor}).Time(); ok {
			from = at
		}
		until := from.Add(7 * 24 * time.Hour)
		args := t.args()
		args["from"], args["until"] = from, until
		_, err := tx.Exec(ctx, statement, postgres.PlanForArgs, args)
		return affiliate.FirstID[notification.ID](until).UUID, until.After(t.At.Add(7 * 24 * time.Hour)), err
	}}
}
