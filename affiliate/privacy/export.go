package privacy

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// ExportID identifies an export of personal data.
type ExportID = affiliate.ID[Export]

// ExportKind says whose data the bundle of an export contains.
type ExportKind string

// The kinds of exports.
const (
	// ExportPartner is the export of a partner's account with all participations.
	ExportPartner ExportKind = "partner"
	// ExportParticipant is the export of one participant of a programme.
	ExportParticipant ExportKind = "participant"
	// ExportMerchant is the export of a workspace.
	ExportMerchant ExportKind = "merchant"
)

// The times for which a bundle and a link to it are valid. If a job has made the bundle, the
// link is mailed, so it is valid for a longer time.
const (
	ExportLife       = 24 * time.Hour
	QueuedExportLife = 72 * time.Hour
)

// AbandonedExportLife is how long an incomplete export is kept. During this time, a request or
// an attempt of its job can continue it.
const AbandonedExportLife = 24 * time.Hour

// ExportSubject is the person or company whose data is exported.
type ExportSubject struct {
	Kind ExportKind
	// SubjectID is the id of the partner's user, of the participant, or of the workspace.
	SubjectID uuid.UUID
	// WorkspaceID is nil for the account of a partner.
	WorkspaceID *affiliate.WorkspaceID
	// ProgramID and Mode are the programme of a participant and its mode. They are nil for the
	// other kinds, whose bundles contain both modes.
	ProgramID *affiliate.ProgramID
	Mode      *affiliate.Mode
	// PartnerID is the user of a partner or of a participant. It is nil for a workspace.
	PartnerID *affiliate.UserID
}

// PartnerSubject returns the subject of the export of a partner's account.
func PartnerSubject(user affiliate.UserID) ExportSubject {
	return ExportSubject{Kind: ExportPartner, SubjectID: user.UUID, PartnerID: &user}
}

// ParticipantSubject returns the subject of the export of a participant.
func ParticipantSubject(scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, partner affiliate.UserID) ExportSubject {
	return ExportSubject{
		Kind: ExportParticipant, SubjectID: id.UUID, WorkspaceID: &scope.Workspace, ProgramID: &program, Mode: &scope.Mode, PartnerID: &partner,
	}
}

// WorkspaceSubject returns the subject of the export of a workspace.
func WorkspaceSubject(id affiliate.WorkspaceID) ExportSubject {
	return ExportSubject{Kind: ExportMerchant, SubjectID: id.UUID, WorkspaceID: &id}
}

// Export is an export of personal data. Its bundle is being made, or it can be downloaded.
type Export struct {
	ID ExportID
	ExportSubject
	// RequestMode is the mode of the first request. The event about the export belongs to
	// this mode.
	RequestMode affiliate.Mode
	// Queued means that a job makes the bundle and that the link is mailed.
	Queued bool
	// Lease names the process that makes the bundle. No other process continues the export
	// before LeaseUntil.
	Lease      uuid.UUID
	LeaseUntil time.Time
	Progress   ExportProgress
	CreatedAt  time.Time
	// ReadyAt and ExpiresAt are nil until the bundle is complete.
	ReadyAt   *time.Time
	ExpiresAt *time.Time
}

// NewExport returns an export that begins at the given time.
func NewExport(subject ExportSubject, requestMode affiliate.Mode, queued bool, at time.Time) Export {
	return Export{ID: affiliate.NewID[ExportID](at), ExportSubject: subject, RequestMode: requestMode, Queued: queued, CreatedAt: at}
}

// Ready reports whether the bundle is complete.
func (e Export) Ready() bool { return e.ReadyAt != nil }

// Expired reports whether the bundle is complete and can no longer be downloaded.
func (e Export) Expired(now time.Time) bool { return e.Ready() && !now.Before(*e.ExpiresAt) }

// Busy reports whether a process makes the bundle.
func (e Export) Busy(now time.Time) bool { return !e.Ready() && now.Before(e.LeaseUntil) }

// Complete returns the export with a complete bundle.
func (e Export) Complete(at time.Time) Export {
	life := ExportLife
	if e.Queued {
		life = QueuedExportLife
	}
	expires := at.Add(life)
	e.ReadyAt, e.ExpiresAt = &at, &expires
	return e
}

// FileName returns the name of the file that a download creates.
func (e Export) FileName() string {
	return "tributary-" + string(e.Kind) + "-" + e.CreatedAt.UTC().Format(time.DateOnly) + ".json"
}

// ExportProgress says how much of a bundle is stored. An interrupted export continues from this
// position.
type ExportProgress struct {
	// Part is the position in the list of the parts of the bundle. Some parts exist once for
	// each participation of the subject. For these parts, Participation is the position in the
	// list of participations.
	Part          int `json:"part"`
	Participation int `json:"participation"`
	// After is the position of the last stored record of the part.
	After ExportPosition `json:"after"`
	// InList is the number of stored records of the part.
	InList int64 `json:"in_list"`
	// Begun means that the beginning of the part is stored.
	Begun bool `json:"begun"`
	// Chunks, Records and Bytes are the numbers of stored chunks, records and bytes before
	// compression. Checksum is the CRC-32 of these bytes.
	Chunks   int    `json:"chunks"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	Checksum uint32 `json:"checksum"`
}

// ExportPosition is the position of a record in the order in which the records of a part are
// read. Each part uses some of the fields. The zero value is before the first record.
type ExportPosition struct {
	At     time.Time `json:"at"`
	ID     uuid.UUID `json:"id"`
	Text   string    `json:"text"`
	Number int64     `json:"number"`
}

// ExportToken is a token in a link to a bundle. It can be used any number of times until it
// expires. The token is stored as a digest.
type ExportToken struct {
	Export    ExportID
	CreatedAt time.Time
	ExpiresAt time.Time
}

// NewToken returns a new token of a complete export, its text and the digest of the text. The
// token expires with the bundle, and after QueuedExportLife (mailed) or ExportLife at the
// latest.
func (e Export) NewToken(at time.Time, mailed bool) (token ExportToken, text string, digest [sha256.Size]byte) {
	life := ExportLife
	if mailed {
		life = QueuedExportLife
	}
	expires := at.Add(life)
	if e.ExpiresAt != nil && e.ExpiresAt.Before(expires) {
		expires = *e.ExpiresAt
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	text = "exp_" + base64.RawURLEncoding.EncodeToString(random)
	return ExportToken{Export: e.ID, CreatedAt: at, ExpiresAt: expires}, text, DigestExportToken(text)
}

// DigestExportToken returns the digest by which a token is looked up.
func DigestExportToken(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// ExportPath is the path of the download, without the token.
const ExportPath = "/api/v1/exports/"

// BuildExport is the job that makes the bundle of a large workspace. It may run more than
// once for the same export.
type BuildExport struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Export    ExportID              `json:"export"`
}

// ExportAttempts is the maximum number of attempts of one BuildExport job. A later request for
// the export inserts another job.
const ExportAttempts = 8

// Kind returns the name of the job.
func (BuildExport) Kind() string { return "build_export" }

// ExportQueue is the queue of BuildExport. It has its own queue because an export takes
// minutes.
const ExportQueue = "export"

// ExportObject is the object of gdpr.export_ready.
type ExportObject struct {
	Subject   ExportSubjectObject `json:"subject"`    // whose data was exported
	ExpiresAt string              `json:"expires_at"` // the time after which the export can no longer be downloaded
}

// ExportSubjectObject is the subject of an export in an event.
type ExportSubjectObject struct {
	Type ExportKind `json:"type"` // whether the export contains the data of a workspace or of a participant
	ID   string     `json:"id"`   // the id of the workspace or of the participant
}

// Notice returns the facts for the notifications about the event.
func (o ExportObject) Notice() affiliate.Notice { return affiliate.Notice{} }

// ReadyEvent returns the event that reports a complete bundle. It returns no event for the
// account of a partner, because that account does not belong to a workspace.
func (e Export) ReadyEvent(at time.Time) []affiliate.Event {
	if e.WorkspaceID == nil {
		return nil
	}
	scope := affiliate.Scope{Workspace: *e.WorkspaceID, Mode: e.RequestMode}
	return []affiliate.Event{affiliate.NewEvent(scope, affiliate.EventGDPRExportReady, at, ExportObject{
		Subject:   ExportSubjectObject{Type: e.Kind, ID: e.SubjectID.String()},
		ExpiresAt: affiliate.FormatTime(*e.ExpiresAt),
	}, nil)}
}

// ReadyNotification returns the notification to a partner that the bundle of the account is complete.
// For the other kinds it returns none: the event (ReadyEvent) notifies the members of the workspace.
func (e Export) ReadyNotification(at time.Time) []notification.Notification {
	if e.Kind != ExportPartner {
		return nil
	}
	user := *e.PartnerID
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(user), notification.Type(affiliate.EventGDPRExportReady), nil, at)
	n.User = &user
	return []notification.Notification{n}
}

// ParticipationKey names a participant with the partner and the programme.
type ParticipationKey struct {
	Workspace   affiliate.WorkspaceID
	Mode        affiliate.Mode
	Program     affiliate.ProgramID
	Participant affiliate.ParticipantID
	Partner     affiliate.UserID
}

// ExportRecipient is a member to whom the link to a bundle is mailed.
type ExportRecipient struct {
	User    affiliate.UserID
	Name    string
	Address string
	Role    affiliate.Role
}
