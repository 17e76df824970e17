package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
)

var (
	// errTooLarge means that a bundle exceeds its sizeLimit.
	errTooLarge = errors.New("the export is too large")
	// errLost means that the export was deleted, or that another process makes the bundle.
	errLost = errors.New("the export was deleted or continued by another process")
	// errTimeUp means that the time of a job is over. The next job continues.
	errTimeUp = errors.New("the time of the job is over")
)

// sizeLimit is the largest size of a bundle. A field that is 0 is not a limit.
type sizeLimit struct{ records, bytes int64 }

const (
	// pageSize is the number of records that are read at once.
	pageSize = 1000
	// storeTimeout is the longest time for storing the outcome of an attempt.
	storeTimeout = 10 * time.Second
)

// builder makes the bundle of an export. export.Progress is the stored progress. The field progress
// also includes what is not stored yet.
type builder struct {
	*Service
	export   *privacy.Export
	reader   *exports.Reader
	limit    sizeLimit
	until    time.Time // zero: no limit
	progress privacy.ExportProgress
	pending  pieces
	savedAt  time.Time
	// participations of the subject. A part at LevelParticipation is read once for each.
	participations []privacy.ParticipationKey
}

// build continues a bundle until it is complete, and stores it piece by piece. The caller
// holds the lease of the export. If build fails, e has the progress that is stored. until is
// the time after which build stops with errTimeUp, or zero.
func (s *Service) build(ctx context.Context, e *privacy.Export, limit sizeLimit, until time.Time) error {
	return exports.Snapshot(ctx, s.DB, func(r *exports.Reader) error {
		b := builder{Service: s, export: e, reader: r, limit: limit, until: until, progress: e.Progress, savedAt: s.now()}
		if err := b.readParticipations(ctx); err != nil {
			return err
		}
		if limit.records > 0 && e.Progress.Records == 0 {
			if err := b.count(ctx); err != nil {
				return err
			}
		}
		return b.write(ctx)
	})
}

func (b *builder) readParticipations(ctx context.Context) (err error) {
	switch subject := b.export.ExportSubject; subject.Kind {
	case privacy.ExportPartner:
		b.participations, err = b.reader.Participations(ctx, *subject.PartnerID)
	case privacy.ExportParticipant:
		var key privacy.ParticipationKey
		scope := affiliate.Scope{Workspace: *subject.WorkspaceID, Mode: *subject.Mode}
		key, err = b.reader.Participation(ctx, scope, affiliate.ParticipantID{UUID: subject.SubjectID})
		b.participations = []privacy.ParticipationKey{key}
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			err = errLost
		}
	case privacy.ExportMerchant:
	}
	return err
}

// filters returns the filters of a part, in the order in which their records are written.
func (b *builder) filters(spec exports.PartSpec) []exports.Filter {
	subject := b.export.ExportSubject
	filter := exports.Filter{Level: spec.Level, ForPartner: subject.Kind == privacy.ExportPartner, ClicksSince: b.export.CreatedAt.Add(-exports.ClickPeriod)}
	switch {
	case spec.Empty:
		return nil
	case spec.Level == exports.LevelAccount:
		filter.User = *subject.PartnerID
		return []exports.Filter{filter}
	case spec.Level == exports.LevelWorkspace:
		filter.Workspace = *subject.WorkspaceID
		return []exports.Filter{filter}
	}
	all := make([]exports.Filter, len(b.participations))
	for i, p := range b.participations {
		filter.Workspace, filter.Mode, filter.Participant, filter.User = p.Workspace, p.Mode, p.Participant, p.Partner
		all[i] = filter
	}
	return all
}

// count returns errTooLarge if the bundle would have more records than its limit. It counts at
// most one record more than the limit.
func (b *builder) count(ctx context.Context) error {
	left := b.limit.records
	for _, spec := range exports.Parts(b.export.Kind) {
		for _, from := range b.filters(spec) {
			n, err := b.reader.Count(ctx, spec.Part, from, int(left)+1)
			if err != nil {
				return err
			}
			if left -= int64(n); left < 0 {
				return errTooLarge
			}
			if err := b.keepLease(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the parts from the stored progress on.
func (b *builder) write(ctx context.Context) error {
	parts, p := exports.Parts(b.export.Kind), &b.progress
	if p.Bytes == 0 {
		if err := b.writeHead(); err != nil {
			return err
		}
	}
	for ; p.Part < len(parts); p.Part++ {
		spec := parts[p.Part]
		if !p.Begun {
			p.Begun, p.InList, p.Participation, p.After = true, 0, 0, privacy.ExportPosition{}
			b.pending.text(",\n" + `"` + string(spec.Part) + `":`)
			if !spec.Object {
				b.pending.text("[")
			}
		}
		for filters := b.filters(spec); p.Participation < len(filters); p.Participation++ {
			if err := b.writeRecords(ctx, spec, filters[p.Participation]); err != nil {
				return err
			}
			p.After = privacy.ExportPosition{}
		}
		switch {
		case !spec.Object:
			b.pending.text("]")
		case p.InList == 0:
			b.pending.text("null")
		}
		p.Begun = false
	}
	// The position after the last part means that the end is written too.
	if p.Part == len(parts) {
		p.Part++
		b.pending.text("}\n")
	}
	if b.tooLarge() {
		return errTooLarge
	}
	return b.save(ctx)
}

// tooLarge reports whether the bundle exceeds its limit.
func (b *builder) tooLarge() bool {
	return b.limit.records > 0 && b.progress.Records > b.limit.records ||
		b.limit.bytes > 0 && b.progress.Bytes+int64(b.pending.size()) > b.limit.bytes
}

// head is the beginning of a bundle.
type head struct {
	SchemaVersion int     `json:"schema_version"`
	GeneratedAt   string  `json:"generated_at"`
	Subject       subject `json:"subject"`
}

type subject struct {
	Type      privacy.ExportKind     `json:"type"`
	ID        string                 `json:"id"`
	Workspace *affiliate.WorkspaceID `json:"workspace_id"`
	Program   *affiliate.ProgramID   `json:"program_id"`
	Mode      *affiliate.Mode        `json:"mode"`
}

func (b *builder) writeHead() error {
	of := b.export.ExportSubject
	text, err := json.Marshal(head{
		SchemaVersion: exports.SchemaVersion, GeneratedAt: affiliate.FormatTime(b.export.CreatedAt),
		Subject: subject{Type: of.Kind, ID: of.SubjectID.String(), Workspace: of.WorkspaceID, Program: of.ProgramID, Mode: of.Mode},
	})
	if err != nil {
		return err
	}
	b.pending.text(string(text[:len(text)-1])) // the parts follow inside the object
	return nil
}

// writeRecords writes the records of a part that follow the progress.
func (b *builder) writeRecords(ctx context.Context, spec exports.PartSpec, filter exports.Filter) error {
	for {
		records, positions, err := b.reader.Page(ctx, spec.Part, filter, b.progress.After, pageSize)
		if err != nil {
			return err
		}
		for i, record := range records {
			if err := b.writeRecord(ctx, spec, record, positions[i]); err != nil {
				return err
			}
		}
		if len(records) < pageSize {
			return nil
		}
		if err := b.keepLease(ctx); err != nil {
			return err
		}
	}
}

func (b *builder) writeRecord(ctx context.Context, spec exports.PartSpec, record exports.Record, position privacy.ExportPosition) error {
	if spec.Part == exports.PartProfile && spec.Level == exports.LevelAccount {
		record = b.openPayoutMethod(ctx, record)
	}
	if !spec.Object {
		if b.progress.InList > 0 {
			b.pending.text(",")
		}
		b.pending.text("\n")
	}
	if err := b.pending.record(record); err != nil {
		return fmt.Errorf("export %s: %w", spec.Part, err)
	}
	b.progress.InList++
	b.progress.Records++
	b.progress.After = position
	if b.tooLarge() {
		return errTooLarge
	}
	if b.pending.size() < saveSize {
		return nil
	}
	return b.save(ctx)
}

// payoutMethod is how a partner wants to be paid. Account and AccountHolder are nil if the
// method has no account.
type payoutMethod struct {
	Method        any     `json:"method"`
	Account       *string `json:"account"`
	AccountHolder *string `json:"account_holder"`
	AccountHint   any     `json:"account_hint"`
	UpdatedAt     any     `json:"updated_at"`
	HeldUntil     any     `json:"held_until"`
}

// openPayoutMethod replaces the columns of the payout method, the last ones of the profile, by an
// object with the decrypted account, or by null if the partner has no method. The account is null
// if it cannot be decrypted, for example because its key is no longer configured.
func (b *builder) openPayoutMethod(ctx context.Context, profile exports.Record) exports.Record {
	sealed, heldUntil, updatedAt, hint, method := profile.Take(), profile.Take(), profile.Take(), profile.Take(), profile.Take()
	if method == nil {
		return append(profile, exports.Field{Name: "payout_method"})
	}
	opened := payoutMethod{Method: method, AccountHint: hint, UpdatedAt: updatedAt, HeldUntil: heldUntil}
	if sealed, ok := sealed.([]byte); ok {
		user := b.export.SubjectID.String()
		var account payout.Account
		plain, err := b.Seal.Open(sealed, []byte(user))
		if err == nil {
			err = json.Unmarshal(plain, &account)
		}
		if err != nil {
			b.Log.LogAttrs(ctx, slog.LevelWarn, "a payout account cannot be decrypted for an export", slog.String("user", user), slog.Any("error", err))
		} else {
			opened.Account = &account.Account
			if account.Holder != "" {
				opened.AccountHolder = &account.Holder
			}
		}
	}
	return append(profile, exports.Field{Name: "payout_method", Value: opened})
}

// keepLease stores the progress if this was not done for saveInterval, so that the lease does
// not end.
func (b *builder) keepLease(ctx context.Context) error {
	if b.now().Sub(b.savedAt) < saveInterval {
		return nil
	}
	return b.save(ctx)
}

// save stores the written pieces with the progress, and extends the lease.
func (b *builder) save(ctx context.Context) error {
	now := b.now()
	next := *b.export
	next.LeaseUntil = now.Add(leaseLife)
	chunks := b.pending.seal(&b.progress, b.Seal, b.export.ID)
	next.Progress = b.progress
	saved := false
	err := b.DB.InTx(ctx, func(tx *postgres.Tx) (err error) {
		saved, err = exports.SaveProgress(ctx, tx, next, chunks)
		return err
	})
	if err != nil {
		return err
	}
	if !saved {
		return errLost
	}
	*b.export, b.savedAt = next, now
	if !b.until.IsZero() && now.After(b.until) && !b.written() {
		return errTimeUp
	}
	return nil
}

// written reports whether the whole bundle is written.
func (b *builder) written() bool { return b.progress.Part > len(exports.Parts(b.export.Kind)) }
