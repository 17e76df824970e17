package testmode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// Store is the database.
type Store interface {
	// ReferralCodes returns at most limit referral codes of test mode with their links,
	// ordered by code. The result starts after the given code.
	ReferralCodes(ctx context.Context, workspace affiliate.WorkspaceID, after string, limit int) ([]privacy.TestCode, error)
	// PublicKeys returns the public keys of test mode, also those that were revoked.
	PublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]string, error)
	// ClickWriters returns the names of the running transactions that write clicks.
	ClickWriters(ctx context.Context) ([]string, error)
	// Steps returns the number of steps that Tx.DeleteRows can execute.
	Steps() int
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more than
	// once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// InSnapshot does the same as InTx, but all statements see the same snapshot.
	InSnapshot(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// CountRecords counts the records that the API reports. The result is larger than limit
	// if there are more, or if the workspace has maxClicks or more clicks in both modes.
	CountRecords(ctx context.Context, workspace affiliate.WorkspaceID, limit, maxClicks int) (int64, error)
	// StartReset stores that a deletion is running. started is false if another deletion of
	// the workspace is running.
	StartReset(ctx context.Context, r privacy.TestDataReset) (started bool, err error)
	// LockReset locks a running deletion. found is false if it is finished.
	LockReset(ctx context.Context, workspace affiliate.WorkspaceID, id privacy.TestDataResetID) (r privacy.RunningReset, found bool, err error)
	// SaveProgress stores the progress of a locked deletion.
	SaveProgress(ctx context.Context, r privacy.RunningReset) error
	// FinishReset stores that a locked deletion is finished.
	FinishReset(ctx context.Context, r privacy.RunningReset, at time.Time) error
	// ArchivePrograms archives at most limit programmes of test mode and returns their
	// number.
	ArchivePrograms(ctx context.Context, workspace affiliate.WorkspaceID, limit int, at time.Time) (int64, error)
	// HasOpenPrograms reports whether test mode has a programme that is not archived.
	HasOpenPrograms(ctx context.Context, workspace affiliate.WorkspaceID) (bool, error)
	// DeleteTestExports deletes the exports that contain data of test mode.
	DeleteTestExports(ctx context.Context, workspace affiliate.WorkspaceID) error
	// SetResetAt stores the time until which clicks of test mode are not stored any more.
	SetResetAt(ctx context.Context, workspace affiliate.WorkspaceID, at time.Time) error
	// DeleteClicks reads at most limit clicks whose ids follow the id after, and deletes
	// those of test mode. It returns the last id and the number of clicks that it has read.
	DeleteClicks(ctx context.Context, workspace affiliate.WorkspaceID, after affiliate.ClickID, limit int) (
		last affiliate.ClickID, read int, deleted []click.Click, err error)
	// DeleteEvents does the same with events.
	DeleteEvents(ctx context.Context, workspace affiliate.WorkspaceID, after affiliate.EventID, limit int) (
		last affiliate.EventID, read int, deleted int64, err error)
	// ClearAuditLog reads at most limit entries of the audit log that follow the id after. It
	// removes the values and the network from entries about test data. It returns the last id
	// and the number of entries that it has read.
	ClearAuditLog(ctx context.Context, workspace affiliate.WorkspaceID, after affiliate.AuditID, limit int) (
		last affiliate.AuditID, read int, err error)
	// DeleteRows executes a step: it deletes at most limit rows of one table. The steps are
	// numbered from 0, and their order respects the foreign keys.
	DeleteRows(ctx context.Context, workspace affiliate.WorkspaceID, step, limit int) (privacy.DeletedTestRows, error)
	// PromoCodesAtProcessor returns at most limit promo codes that are active at the payment
	// processor.
	PromoCodesAtProcessor(ctx context.Context, workspace affiliate.WorkspaceID, limit int) ([]affiliate.PromoCodeID, error)

	Audit(ctx context.Context, line affiliate.AuditLine) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
}

// Edge is the directory from which collectors read codes and links. Package directory
// implements it.
type Edge interface {
	// DeleteCodes writes that codes and links do not exist.
	DeleteCodes(ctx context.Context, codes privacy.DirectoryCodes) error
}

// Visitors stores the visitors of the last days. Package storage/visitors implements it.
type Visitors interface {
	// Delete deletes the visitors of clicks.
	Delete(ctx context.Context, clicks []click.Click) error
}

// DeadLetters is the Redis stream of the clicks that could not be stored. Package
// storage/clickstream implements it.
type DeadLetters interface {
	// Delete reads a page of the records after a position and deletes the records that the
	// search selects. last is the position of the last record of the page. more is false if the
	// page was the last one.
	Delete(ctx context.Context, search affiliate.DeadLetterSearch, after affiliate.StreamPosition) (last affiliate.StreamPosition, more bool, err error)
}
