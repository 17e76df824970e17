package privacy

import (
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// MaxSynchronousReset is the maximum number of records of test data that a request deletes
// itself. If there are more records, a job deletes them.
const MaxSynchronousReset = 5_000

// TestDataResetID identifies a deletion of test data.
type TestDataResetID = affiliate.ID[TestDataReset]

// TestDataReset is a deletion of all test data of a workspace.
type TestDataReset struct {
	Workspace affiliate.WorkspaceID
	ID        TestDataResetID
	// Actor is the member who requested the deletion.
	Actor     affiliate.Actor
	StartedAt time.Time
}

// RunningReset is a deletion that is not finished, with its progress. The clicks of test mode
// up to the id ClicksAfter and the events up to the id EventsAfter are already deleted.
type RunningReset struct {
	TestDataReset
	ClicksAfter affiliate.ClickID
	EventsAfter affiliate.EventID
	Deleted     TestDataCounts
}

// TestCode is a referral code of test mode and the key of its short link.
type TestCode struct{ Code, ShortKey string }

// DeletedTestRows describes rows that one statement has deleted from a table.
type DeletedTestRows struct {
	Table string
	Rows  int64
	// Counted is the number of rows that the API reports. It is less than Rows if some of the
	// rows are links that a user had deleted before.
	Counted int64
	// Codes and Links are the deleted referral codes and the keys of the deleted links.
	Codes, Links []string
}

// TestDataCounts are the numbers of deleted rows, by the name of the table.
type TestDataCounts map[string]int64

// Public returns the counts of the records that the API reports. They are also the records
// that count for MaxSynchronousReset.
func (c TestDataCounts) Public() DeletedTestData {
	return DeletedTestData{
		Programs: c["programs"], Participants: c["participants"], Links: c["links"], Clicks: c["clicks"],
		Conversions: c["conversions"], Commissions: c["commissions"], WebhookDeliveries: c["webhook_deliveries"],
		NotificationLogs: c["mails"], PromoCodes: c["promo_codes"], Payouts: c["payouts"],
	}
}

// DeletedTestData contains the numbers of deleted records. The audit log contains it as
// JSON.
type DeletedTestData struct {
	Programs          int64 `json:"programs"`
	Participants      int64 `json:"participants"`
	Links             int64 `json:"links"`
	Clicks            int64 `json:"clicks"`
	Conversions       int64 `json:"conversions"`
	Commissions       int64 `json:"commissions"`
	WebhookDeliveries int64 `json:"webhookDeliveries"`
	NotificationLogs  int64 `json:"notificationLogs"`
	PromoCodes        int64 `json:"promoCodes"`
	Payouts           int64 `json:"payouts"`
}

// Audit returns the audit log entry for a finished deletion.
func (r TestDataReset) Audit(deleted TestDataCounts, at time.Time) affiliate.AuditLine {
	mode := affiliate.ModeTest
	return affiliate.AuditLine{
		Workspace: r.Workspace, Mode: &mode, Actor: r.Actor, At: at,
		Action: "test_data.delete", ResourceType: "workspace", ResourceID: r.Workspace, After: deleted.Public(),
	}
}

// DeleteTestData is the job that executes a deletion of test data, or the rest of it if the
// process of the request has crashed.
type DeleteTestData struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Reset     TestDataResetID       `json:"reset"`
	// NotBefore is the earliest time at which the job runs. It is zero if the job can run
	// at once.
	NotBefore time.Time `json:"-"`
}

// DeleteTestDataAttempts is the maximum number of attempts of the job. With the longest delay
// between two attempts, they last a week. No other deletion can start until the running one is
// finished.
const DeleteTestDataAttempts = 10_000

// Kind returns the name of the job.
func (DeleteTestData) Kind() string { return "delete_test_data" }

// ErrParticipantDeleted means that a deletion of test data has deleted the participant of a
// decision before the decision was stored. Nothing was stored. A new decision does not find
// the participant.
var ErrParticipantDeleted = errors.New("the participant was deleted with the test data")

// ErrTestDataBusy means that a transaction of a deletion has failed because other
// transactions use the same test data. The deletion can try again.
var ErrTestDataBusy = errors.New("other transactions use the test data")
