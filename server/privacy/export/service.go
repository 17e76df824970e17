// Package export exports the personal data of a partner, of a participant, or of a merchant's
// workspace as a bundle: one JSON document that is downloaded with a link.
//
//	request ─▶ lock the subject ─▶ bundle exists? ─ yes ─▶ new token ─▶ 200
//	                                   │ no
//	                     make the bundle, or wait for it ─▶ new token ─▶ 200
//	                                   │ large workspace
//	                     job makes the bundle ─▶ mail with the link      202
//
// A bundle is read in pages of one snapshot of the database and written in pieces. Each piece
// is compressed on its own and encrypted, and stored with the progress. The pieces together
// are one gzip stream. Neither making nor downloading a bundle needs memory for more than one
// page and one piece.
//
// The package guarantees:
//
//   - A bundle contains data of its subject only. It contains no secrets, and a pseudonym in
//     place of each buyer. The bundle of a partner contains no internal data of a merchant.
//   - At most one bundle of a subject is made at a time, by one process: the process holds a
//     lease, which it extends with each piece. If the process crashes, the next request or the
//     next attempt of the job continues from the last piece.
//   - A link works until the bundle expires or the data of its subject is erased. An erasure
//     also stops a bundle that is being made.
//   - A stored bundle cannot be read without the encryption keys, and its pieces cannot be
//     exchanged.
//
// The package does not guarantee that a bundle is read from one snapshot. A bundle that was
// continued, or that needed several jobs, is read from several. A record that changed in
// the meantime is in the bundle as it was when its page was read.
package export

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Limits are the sizes of bundles (docs/merchant/privacy.md#exports).
type Limits struct {
	// Records and Bytes are the largest bundle of a partner or of a participant. Bytes are
	// counted before compression.
	Records, Bytes int64
	// DirectRecords and DirectBytes are the largest bundle of a workspace that is made within
	// the request.
	DirectRecords, DirectBytes int64
}

// DefaultLimits are the limits of the service.
var DefaultLimits = Limits{Records: 250_000, Bytes: 50_000_000, DirectRecords: 10_000, DirectBytes: 5_000_000}

const (
	// leaseLife is how long a process that makes a bundle holds the lease after each piece.
	// If the process crashes, another one can continue after this time.
	leaseLife = 30 * time.Second
	// saveInterval is the longest time between two pieces while records are read. It is much
	// shorter than leaseLife.
	saveInterval = 5 * time.Second
	// waitInterval is the time between two reads of an export that another request makes.
	waitInterval = 50 * time.Millisecond
	// resumeLife is the age up to which a request continues an export that was interrupted.
	// An older export begins again, so that its records are not too old.
	resumeLife = 15 * time.Minute
	// maxDirect is the number of bundles that a process makes within requests at the same
	// time. Each uses a database connection.
	maxDirect = 6
	// busyRetry is the time after which a client can repeat a request that was refused
	// because too many bundles are being made.
	busyRetry = 10 * time.Second
)

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// Seal encrypts pieces of bundles and tokens in mails, and decrypts payout accounts.
	Seal server.Sealer
	// PublicURL is the base URL of the REST API as clients see it. If it is empty, exports
	// are refused, because there would be no link.
	PublicURL string
	// Limits are DefaultLimits if they are zero.
	Limits Limits
	Log    *slog.Logger
	Now    func() time.Time
}

// Service implements affiliatev1.ExportServiceServer.
type Service struct {
	affiliatev1.UnimplementedExportServiceServer
	Config
	// direct has an element for each bundle that is made within a request.
	direct chan struct{}
}

// New returns a Service.
func New(c Config) *Service {
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits
	}
	return &Service{Config: c, direct: make(chan struct{}, maxDirect)}
}

// now returns the time in the precision in which it is stored and shown.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// ExportPartnerAccount exports the account of the calling partner.
func (s *Service) ExportPartnerAccount(ctx context.Context, _ *affiliatev1.ExportPartnerAccountRequest) (*affiliatev1.Export, error) {
	user := server.PrincipalFrom(ctx).User
	return s.request(ctx, func(ctx context.Context, tx *postgres.Tx) (privacy.ExportSubject, error) {
		exists, err := exports.LockUser(ctx, tx, user)
		if err == nil && !exists {
			err = affiliate.Refuse(affiliate.ReasonUnauthorized) // erased after the authentication
		}
		return privacy.PartnerSubject(user), err
	})
}

// ExportParticipant exports a participant of a programme of the caller's workspace.
func (s *Service) ExportParticipant(ctx context.Context, req *affiliatev1.ExportParticipantRequest) (*affiliatev1.Export, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	program, isProgram := affiliate.ParseID[affiliate.ProgramID](req.GetProgramId())
	id, isParticipant := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId())
	return s.request(ctx, func(ctx context.Context, tx *postgres.Tx) (privacy.ExportSubject, error) {
		var none privacy.ExportSubject
		if !isProgram {
			return none, affiliate.Refuse(affiliate.ReasonParticipantNotFound)
		}
		owned, err := programs.Owns(ctx, tx, scope.Workspace, program)
		if err != nil {
			return none, err
		}
		if !owned {
			return none, affiliate.Refuse(affiliate.ReasonExportForbidden)
		}
		if !isParticipant {
			return none, affiliate.Refuse(affiliate.ReasonParticipantNotFound)
		}
		p, err := participants.Share(ctx, tx, scope, program, id)
		switch {
		case errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)):
			return none, affiliate.Refuse(affiliate.ReasonParticipantNotFound)
		case err != nil:
			return none, err
		case p.ErasedAt != nil:
			return none, affiliate.Refuse(affiliate.ReasonParticipantErased)
		}
		return privacy.ParticipantSubject(scope, program, id, p.Partner), nil
	})
}

// ExportMerchantAccount exports the caller's workspace.
func (s *Service) ExportMerchantAccount(ctx context.Context, _ *affiliatev1.ExportMerchantAccountRequest) (*affiliatev1.Export, error) {
	workspace := server.PrincipalFrom(ctx).Workspace
	return s.request(ctx, func(ctx context.Context, tx *postgres.Tx) (privacy.ExportSubject, error) {
		exists, err := exports.LockSubjectWorkspace(ctx, tx, workspace)
		if err == nil && !exists {
			err = affiliate.Refuse(affiliate.ReasonUnauthorized) // erased after the authentication
		}
		return privacy.WorkspaceSubject(workspace), err
	})
}

// target returns the subject of a request and locks it until the transaction ends.
type target func(ctx context.Context, tx *postgres.Tx) (privacy.ExportSubject, error)

// step is what a request does next.
type step int

const (
	stepRespond step = iota // the bundle is complete, and the request has a token
	stepBuild               // the request holds the lease of the export and makes the bundle
	stepWait                // another request makes the bundle
	stepQueued              // a job makes the bundle
)

// request returns a link to the bundle of a subject. It makes the bundle if there is none,
// waits for a bundle that another request makes, and leaves a large workspace to a job.
func (s *Service) request(ctx context.Context, subjectOf target) (*affiliatev1.Export, error) {
	if s.PublicURL == "" {
		return nil, &affiliate.Error{
			Reason: affiliate.ReasonServiceUnavailable, Message: "The operator must set TRIBUTARY_PUBLIC_URL before data can be exported.",
		}
	}
	for {
		next, export, response, err := s.next(ctx, subjectOf)
		if err != nil {
			return nil, err
		}
		switch next {
		case stepRespond:
			return response, nil
		case stepQueued:
			return queued(ctx), nil
		case stepWait:
			if err := wait(ctx, waitInterval); err != nil {
				return nil, err
			}
		case stepBuild:
			handedOver, err := s.buildDirectly(ctx, export)
			if err != nil {
				return nil, err
			}
			if handedOver {
				return queued(ctx), nil
			}
		}
	}
}

func queued(ctx context.Context) *affiliatev1.Export {
	server.SetHTTPStatus(ctx, http.StatusAccepted)
	return &affiliatev1.Export{Status: affiliatev1.ExportStatus_EXPORT_STATUS_PROCESSING}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next returns the next step of a request. In the transaction in which it makes this
// decision, it issues a token, creates an export or takes its lease, or adds the caller to
// the recipients of the mail.
func (s *Service) next(ctx context.Context, subjectOf target) (next step, export privacy.Export, response *affiliatev1.Export, err error) {
	caller, now := server.PrincipalFrom(ctx), s.now()
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		subject, err := subjectOf(ctx, tx)
		if err != nil {
			return err
		}
		found, err := exports.LockExport(ctx, tx, subject, now)
		if err != nil {
			return err
		}
		if found != nil && !found.Ready() && !found.Queued && !found.Busy(now) && now.Sub(found.CreatedAt) > resumeLife {
			if err := exports.DropExport(ctx, tx, *found); err != nil {
				return err
			}
			found = nil
		}
		switch {
		case found == nil:
			export = privacy.NewExport(subject, caller.Mode, false, now)
			export.Lease, export.LeaseUntil = uuid.New(), now.Add(leaseLife)
			inserted, err := exports.InsertExport(ctx, tx, export)
			if next = stepBuild; !inserted {
				next = stepWait
			}
			return err
		case found.Ready():
			next, export = stepRespond, *found
			token, text, digest := export.NewToken(now, false)
			if err := exports.InsertToken(ctx, tx, token, digest); err != nil {
				return err
			}
			response = s.link(export, token, text)
			return s.audit(ctx, tx, export, now)
		case found.Queued:
			next, export = stepQueued, *found
			return s.queue(ctx, tx, &export, now)
		case found.Busy(now):
			next = stepWait
			return nil
		default: // the process that made the bundle has crashed
			next, export = stepBuild, *found
			export.Lease, export.LeaseUntil = uuid.New(), now.Add(leaseLife)
			return exports.TakeExport(ctx, tx, export)
		}
	})
	return next, export, response, err
}

// queue adds the caller to the recipients of the mail about an export, and inserts a job
// unless one is making the bundle.
func (s *Service) queue(ctx context.Context, tx *postgres.Tx, e *privacy.Export, now time.Time) error {
	if err := exports.AddRecipient(ctx, tx, e.ID, server.PrincipalFrom(ctx).User, now); err != nil {
		return err
	}
	if !e.Queued || !e.Busy(now) {
		e.Queued, e.Lease, e.LeaseUntil = true, uuid.Nil, now.Add(leaseLife)
		if err := exports.TakeExport(ctx, tx, *e); err != nil {
			return err
		}
		if err := tx.Enqueue(ctx, privacy.BuildExport{Workspace: *e.WorkspaceID, Export: e.ID}); err != nil {
			return err
		}
	}
	return s.audit(ctx, tx, *e, now)
}

// buildDirectly makes a bundle within a request. If a workspace is too large for this, it
// leaves the rest to a job; handedOver is then true.
func (s *Service) buildDirectly(ctx context.Context, e privacy.Export) (handedOver bool, err error) {
	limit := sizeLimit{records: s.Limits.Records, bytes: s.Limits.Bytes}
	if e.Kind == privacy.ExportMerchant {
		limit = sizeLimit{records: s.Limits.DirectRecords, bytes: s.Limits.DirectBytes}
	}
	select {
	case s.direct <- struct{}{}:
		defer func() { <-s.direct }()
		err = s.build(ctx, &e, limit, time.Time{})
	default:
		err = affiliate.TooManyExports(busyRetry)
	}
	// The outcome is stored even if the caller has left.
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	switch {
	case err == nil:
		return false, s.complete(storeCtx, e)
	case errors.Is(err, errLost):
		return false, nil // request calls next again
	case errors.Is(err, errTooLarge) && e.Kind == privacy.ExportMerchant:
		return s.handOver(storeCtx, e)
	case errors.Is(err, errTooLarge):
		refusal := affiliate.Refuse(affiliate.ReasonExportTooLarge)
		return false, errors.Join(refusal, s.DB.InTx(storeCtx, func(tx *postgres.Tx) error { return exports.DropExport(storeCtx, tx, e) }))
	}
	return false, errors.Join(err, s.release(storeCtx, e))
}

// handOver leaves the rest of a bundle to a job. handedOver is false if the export was
// deleted or another process has its lease.
func (s *Service) handOver(ctx context.Context, e privacy.Export) (handedOver bool, err error) {
	now := s.now()
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		found, err := exports.LockExport(ctx, tx, e.ExportSubject, now)
		if handedOver = err == nil && found != nil && found.ID == e.ID && found.Lease == e.Lease; !handedOver {
			return err
		}
		return s.queue(ctx, tx, found, now)
	})
	return handedOver, err
}

// release ends the lease of an export, so that the next request or attempt continues it.
func (s *Service) release(ctx context.Context, e privacy.Export) error {
	e.LeaseUntil = s.now()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		_, err := exports.SaveProgress(ctx, tx, e, nil)
		return err
	})
}

// audit records that the caller has got, or will get, a link to a bundle.
func (s *Service) audit(ctx context.Context, tx *postgres.Tx, e privacy.Export, at time.Time) error {
	by, subject := server.ActorFrom(ctx), e.ExportSubject
	after := map[string]string{"exportId": e.ID.String()}
	switch subject.Kind {
	case privacy.ExportPartner:
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{User: *subject.PartnerID, Actor: by, At: at, Action: "account.export", After: after})
	case privacy.ExportParticipant:
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: *subject.WorkspaceID, Mode: subject.Mode, Actor: by, At: at, Action: "participant.export",
			ResourceType: "participant", ResourceID: subject.SubjectID, After: after,
		})
	case privacy.ExportMerchant:
	}
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: *subject.WorkspaceID, Actor: by, At: at, Action: "workspace.export", ResourceType: "workspace", ResourceID: subject.SubjectID, After: after,
	})
}

// link returns the response with a link to a bundle.
func (s *Service) link(e privacy.Export, token privacy.ExportToken, text string) *affiliatev1.Export {
	return &affiliatev1.Export{
		DownloadUrl: proto.String(s.PublicURL + privacy.ExportPath + text),
		ExpiresAt:   timestamppb.New(token.ExpiresAt),
		Filename:    proto.String(e.FileName()),
	}
}
