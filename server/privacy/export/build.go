package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/bundle"
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

// builder makes the bundle of an export. Its export has the progress that is stored, and
// progress what is written on top of it.
type builder struct {
	*Service
	export   *privacy.Export
	reader   *exports.Reader
	limit    sizeLimit
	until    time.Time // zero: no limit
	progress privacy.ExportProgress
	pending  pieces
	savedAt  time.Time
	// participations are the participations that parts at LevelParticipation are read for.
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
	switch subject := b.export.Subject; subject.Kind {
	case privacy.ExportPartner:
		b.participations, err = b.reader.Participations(ctx, *subject.Partner)
	case privacy.ExportParticipant:
		var key privacy.ParticipationKey
		scope := affiliate.Scope{Workspace: *subject.Workspace, Mode: *subject.Mode}
		key, err = b.reader.Participation(ctx, scope, affiliate.ParticipantID{UUID: subject.ID})
		b.participations = []privacy.ParticipationKey{key}
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			err = errLost
		}
	case privacy.ExportMerchant:
	}
	return err
}

// filters select the records of a part, one after another.
func (b *builder) filters(spec bundle.PartSpec) []bundle.Filter {
	since := b.export.CreatedAt.Add(-bundle.ClickPeriod)
	switch {
	case spec.Empty:
		return nil
	case spec.Level == bundle.LevelAccount:
		return []bundle.Filter{{Level: spec.Level, User: *b.export.Subject.Partner, ClicksSince: since}}
	case spec.Level == bundle.LevelWorkspace:
		return []bundle.Filter{{Level: spec.Level, Workspace: *b.export.Subject.Workspace, ClicksSince: since}}
	}
	all := make([]bundle.Filter, len(b.participations))
	for i, p := range b.participations {
		all[i] = bundle.Filter{
			Level: spec.Level, Workspace: p.Workspace, Mode: p.Mode, Participant: p.Participant, User: p.Partner, ClicksSince: since,
		}
	}
	return all
}

// count returns errTooLarge if the bundle would have more records than its limit. It counts at
// most one record more than the limit.
func (b *builder) count(ctx context.Context) error {
	left := b.limit.records
	for _, spec := range bundle.Parts(b.export.Subject.Kind) {
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
	parts, p := bundle.Parts(b.export.Subject.Kind), &b.progress
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
	SchemaVersion int         `json:"schema_version"`
	GeneratedAt   bundle.Time `json:"generated_at"`
	Subject       subject     `json:"subject"`
}

type subject struct {
	Type      privacy.ExportKind     `json:"type"`
	ID        string                 `json:"id"`
	Workspace *affiliate.WorkspaceID `json:"workspace_id"`
	Program   *affiliate.ProgramID   `json:"program_id"`
	Mode      *affiliate.Mode        `json:"mode"`
}

func (b *builder) writeHead() error {
	of := b.export.Subject
	text, err := json.Marshal(head{
		SchemaVersion: bundle.SchemaVersion, GeneratedAt: bundle.Time(b.export.CreatedAt),
		Subject: subject{Type: of.Kind, ID: of.ID.String(), Workspace: of.Workspace, Program: of.Program, Mode: of.Mode},
	})
	if err != nil {
		return err
	}
	b.pending.text(string(text[:len(text)-1])) // the parts follow inside the object
	return nil
}

// writeRecords writes the records of a part that follow the progress.
func (b *builder) writeRecords(ctx context.Context, spec bundle.PartSpec, filter bundle.Filter) error {
	for {
		page, err := b.reader.Page(ctx, spec.Part, filter, b.progress.After, pageSize)
		if err != nil {
			return err
		}
		for i, record := range page.Records {
			if err := b.writeRecord(ctx, spec, record, page.Positions[i]); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		if err := b.keepLease(ctx); err != nil {
			return err
		}
	}
}

func (b *builder) writeRecord(ctx context.Context, spec bundle.PartSpec, record any, position privacy.ExportPosition) error {
	bundle.Prepare(b.export.Subject.Kind, record)
	if profile, ok := record.(*bundle.Profile); ok {
		b.openPayoutMethod(ctx, profile)
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

// openPayoutMethod decrypts the payout account of a profile. The account is left out if its
// key is no longer configured.
func (b *builder) openPayoutMethod(ctx context.Context, profile *bundle.Profile) {
	if profile.Method == nil {
		return
	}
	method := bundle.PayoutMethod{Method: *profile.Method, AccountHint: profile.AccountHint, UpdatedAt: profile.MethodUpdatedAt, HeldUntil: profile.HeldUntil}
	if profile.SealedAccount != nil {
		var account payout.Account
		plain, err := b.Seal.Open(profile.SealedAccount, []byte(profile.ID.String()))
		if err == nil {
			err = json.Unmarshal(plain, &account)
		}
		if err != nil {
			b.Log.LogAttrs(ctx, slog.LevelWarn, "a payout account cannot be decrypted for an export",
				slog.String("user", profile.ID.String()), slog.Any("error", err))
		} else {
			method.Account = &account.Account
			if account.Holder != "" {
				method.AccountHolder = &account.Holder
			}
		}
	}
	profile.PayoutMethod = &method
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
func (b *builder) written() bool { return b.progress.Part > len(bundle.Parts(b.export.Subject.Kind)) }
