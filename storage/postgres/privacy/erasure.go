// Package privacy has the SQL that erases personal data: of a participant, of a partner's
// account, and of a workspace.
//
// An erasure has two parts. The first part runs in the transaction that begins the erasure. It
// ends every access of the subject and replaces the data that members, partners and receivers of
// webhooks can see. The second part is a list of steps (step.go). Each step walks through a table in
// pages; each page is one transaction, which also stores the position. A step can therefore
// stop and continue at any time.
//
// The callers check the permissions and call the functions in the right order.
package privacy

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// InsertErasure stores an erasure and enqueues its job. The parameter texts has the names, addresses and codes that
// the steps search for; they are deleted when the erasure has finished. The parameter participants has the
// participations that the steps process one by one; it is empty for a workspace.
func InsertErasure(ctx context.Context, tx *postgres.Tx, e privacy.Erasure, texts []string, participants []participant.Participant) error {
	const insert = `
		insert into erasures (id, subject, subject_id, workspace_id, mode, erased_at, texts, step, cursor)
		values (@id, @subject, @subject_id, @workspace, @mode, @at, @texts, 0, @cursor)`
	const insertParticipants = `
		insert into erasure_participants (erasure_id, workspace_id, participant_id)
		select $1, * from unnest($2::uuid[], $3::uuid[])`
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"id": e.ID, "subject": e.Subject, "subject_id": e.SubjectID, "workspace": e.Workspace, "mode": e.Mode,
		"at": e.At, "texts": texts, "cursor": uuid.UUID{},
	})
	if err != nil {
		return err
	}
	workspaces, ids := make([]affiliate.WorkspaceID, len(participants)), make([]affiliate.ParticipantID, len(participants))
	for i, p := range participants {
		workspaces[i], ids[i] = p.Workspace, p.ID
	}
	if _, err := tx.Exec(ctx, insertParticipants, e.ID, workspaces, ids); err != nil {
		return err
	}
	return tx.Enqueue(ctx, privacy.EraseData{Erasure: e.ID})
}

// Progress is the position of an erasure in its steps.
type Progress struct {
	ID        privacy.ErasureID
	Subject   privacy.ErasureSubject
	SubjectID uuid.UUID
	Workspace *affiliate.WorkspaceID
	Mode      *affiliate.Mode
	ErasedAt  time.Time
	LoggedAt  *time.Time
	Texts     []string
	Step      int
	Cursor    uuid.UUID
	// Finished is true if no step is left.
	Finished bool
}

// moveTo sets the position to a cursor of the same step, or to the next step if the step is
// done.
func (p *Progress) moveTo(cursor uuid.UUID, done bool) {
	if p.Cursor = cursor; done {
		p.Step, p.Cursor = p.Step+1, uuid.UUID{}
	}
}

func (p *Progress) erasure() privacy.Erasure {
	return privacy.Erasure{
		ID: p.ID, Subject: p.Subject, SubjectID: p.SubjectID, Workspace: p.Workspace, Mode: p.Mode, At: p.ErasedAt.UTC(),
	}
}

// selectErasure has no condition on a workspace, because the jobs of erasures name only the
// erasure.
const selectErasure = `
	select e.id, e.subject, e.subject_id, e.workspace_id as workspace, e.mode, e.erased_at, e.logged_at, e.texts, e.step, e.cursor,
		e.finished_at is not null as finished
	from erasures e
	where e.id = $1`

// Erasure returns an erasure, and whether it is in the erasure log. Errors: NOT_FOUND.
func Erasure(ctx context.Context, db *postgres.DB, id privacy.ErasureID) (e privacy.Erasure, logged bool, err error) {
	p, err := postgres.OneRow[Progress](db.Query(ctx, selectErasure, id))
	return p.erasure(), p.LoggedAt != nil, err
}

// MarkLogged stores that the erasure log contains an erasure.
func MarkLogged(ctx context.Context, db *postgres.DB, id privacy.ErasureID, at time.Time) error {
	const update = `update erasures set logged_at = $2 where id = $1 and logged_at is null`
	return postgres.Exec(ctx, db, update, id, at)
}

// Erased reports whether a subject was erased.
func Erased(ctx context.Context, db *postgres.DB, subject privacy.ErasureSubject, id uuid.UUID) (bool, error) {
	const query = `select exists (select from erasures where subject = $1 and subject_id = $2)`
	return postgres.Value[bool](ctx, db, query, subject, id)
}

// UnfinishedErasures returns the erasures that were inserted before the given time and have not
// finished. They are few.
func UnfinishedErasures(ctx context.Context, db *postgres.DB, before time.Time) ([]privacy.ErasureID, error) {
	const query = `select id from erasures where finished_at is null and erased_at < $1`
	return postgres.Values[privacy.ErasureID](ctx, db, query, before)
}

// selectAbandoned reads all accounts that nobody has claimed, and searches the participations of
// each of them.
const selectAbandoned = `
	select u.id from users u
	where u.unclaimed and not exists (select from participants t where t.partner_id = u.id and t.erased_at is null)
	order by u.id
	limit $1`

// AbandonedAccounts returns at most limit accounts that nobody has claimed and that take part in
// no programme.
func AbandonedAccounts(ctx context.Context, db *postgres.DB, limit int) ([]affiliate.UserID, error) {
	return postgres.Values[affiliate.UserID](ctx, db, selectAbandoned, limit)
}

// Enqueue inserts jobs in a transaction of their own.
func Enqueue(ctx context.Context, db *postgres.DB, jobs ...affiliate.Job) error {
	return db.InTx(ctx, func(tx *postgres.Tx) error { return tx.Enqueue(ctx, jobs...) })
}

// lockErasure returns an erasure and locks it, so that two jobs of one erasure process its
// pages one after the other.
func lockErasure(ctx context.Context, tx *postgres.Tx, id privacy.ErasureID) (Progress, error) {
	return postgres.OneRow[Progress](tx.Query(ctx, selectErasure+` for no key update`, id))
}

// setProgress stores the position of an erasure.
func setProgress(ctx context.Context, tx *postgres.Tx, p Progress) error {
	const update = `update erasures set step = $2, cursor = $3 where id = $1`
	return postgres.Exec(ctx, tx, update, p.ID, p.Step, p.Cursor)
}

// finish stores that no step of an erasure is left, and deletes its texts and its list of participants.
func finish(ctx context.Context, tx *postgres.Tx, id privacy.ErasureID, at time.Time) error {
	const (
		update = `update erasures set finished_at = $2, texts = '{}' where id = $1`
		remove = `delete from erasure_participants where erasure_id = $1`
	)
	if _, err := tx.Exec(ctx, update, id, at); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, remove, id)
}
