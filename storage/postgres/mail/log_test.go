package mail_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestLog_ShowsCompletedMailOfTestModeAndAccounts(t *testing.T) {
	f := newFixture(t)
	other := f.NewWorkspace()
	live := affiliate.ModeLive
	at := func(minute int) func(*notification.Mail) {
		return func(m *notification.Mail) {
			m.CreatedAt = f.Now().Add(time.Duration(minute) * time.Minute)
			m.ID = affiliate.NewID[notification.MailID](m.CreatedAt)
		}
	}
	payout := f.newMail(at(1))
	reset := f.newMail(at(2), func(m *notification.Mail) {
		m.Kind, m.Type, m.Mode, m.Address = notification.MailPasswordReset, "password_reset", nil, "zoe@example.com"
	})
	pending := f.newMail(at(3))
	liveMail := f.newMail(at(4), func(m *notification.Mail) { m.Mode = &live })
	foreign := f.newMail(at(5), func(m *notification.Mail) { m.Workspace = &other })
	f.store(payout, reset, pending, liveMail, foreign)
	for _, m := range []notification.Mail{payout, reset, liveMail, foreign} {
		f.complete(notification.MailOutcome{Mail: m.ID, Recipient: m.Address, Status: notification.MailSuppressed, Reason: notification.MailTestMode, At: f.Now()})
	}

	minute := f.Now().Add(2 * time.Minute)
	for name, tc := range map[string]struct {
		filter notification.MailLogFilter
		want   []notification.MailID
	}{
		"all":               {notification.MailLogFilter{}, []notification.MailID{reset.ID, payout.ID}},
		"status":            {notification.MailLogFilter{Status: notification.MailSuppressed}, []notification.MailID{reset.ID, payout.ID}},
		"another status":    {notification.MailLogFilter{Status: notification.MailDelivered}, nil},
		"type":              {notification.MailLogFilter{Type: "password_reset"}, []notification.MailID{reset.ID}},
		"recipient":         {notification.MailLogFilter{Recipient: "mar"}, []notification.MailID{payout.ID}},
		"recipient's end":   {notification.MailLogFilter{Recipient: "example.com"}, nil},
		"recipient pattern": {notification.MailLogFilter{Recipient: "%"}, nil},
		"from":              {notification.MailLogFilter{CreatedAt: affiliate.Period{From: &minute}}, []notification.MailID{reset.ID}},
		"before":            {notification.MailLogFilter{CreatedAt: affiliate.Period{Before: &minute}}, []notification.MailID{payout.ID}},
	} {
		entries, total, err := mails.Log(t.Context(), f.DB, f.Scope.Workspace, tc.filter, affiliate.Page{Number: 1, Size: 20})
		if err != nil {
			t.Fatal(err)
		}
		var ids []notification.MailID
		for _, entry := range entries {
			ids = append(ids, entry.ID)
		}
		if !slices.Equal(ids, tc.want) || total != int64(len(tc.want)) {
			t.Errorf("%s: entries %v with the total %d, want %v", name, ids, total, tc.want)
		}
	}
	for number, want := range []int{1: 1, 2: 1, 3: 0} {
		entries, total, err := mails.Log(t.Context(), f.DB, f.Scope.Workspace, notification.MailLogFilter{}, affiliate.Page{Number: max(1, number), Size: 1})
		if number > 0 && (err != nil || len(entries) != want || total != 2) {
			t.Errorf("page %d has %d entries with the total %d, %v; want %d and 2", number, len(entries), total, err, want)
		}
	}
	for name, m := range map[string]notification.Mail{"pending": pending, "live": liveMail, "foreign": foreign} {
		_, err := mails.LogEntry(t.Context(), f.DB, f.Scope.Workspace, m.ID)
		if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonNotificationLogNotFound {
			t.Errorf("%s mail: LogEntry returns %s, want NOTIFICATION_LOG_NOT_FOUND", name, got)
		}
	}
}

func TestMailStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fill := func(workspace affiliate.WorkspaceID, n int) {
		f.Exec(`
			insert into mails (id, kind, type, category, workspace_id, logged, mode, account_kind, recipient_name, recipient, facts, status, created_at)
			select gen_random_uuid(), 'notifications', 'type-' || n % 10, 'payouts', $1, n % 2 = 0, 'test', 'merchant', '', n % 50 || '@example.com', '{}',
				case when n % 1000 = 0 then 'pending' else 'suppressed' end, $2::timestamptz - n * interval '1 minute'
			from generate_series(1, $3::int) n`, workspace, f.Now(), n)
	}
	// The ids have the order of the rows. The planner measures how well both orders agree, so
	// with random ids its choice for a rare recipient would differ from run to run.
	fill(f.Scope.Workspace, 6_000)
	for i := range 4 {
		fill(affiliate.NewID[affiliate.WorkspaceID](f.Now().Add(time.Duration(i+1)*time.Hour)), 6_000)
	}
	f.Exec(`insert into mail_provider_messages (id, received_at) select n, $1::timestamptz - n * interval '1 minute' from generate_series(1, 5000) n`, f.Now())
	f.VacuumAnalyze()

	day := f.Now().AddDate(0, 0, -2)
	for name, filter := range map[string]notification.MailLogFilter{
		"all": {}, "status": {Status: notification.MailSuppressed}, "type": {Type: "type-2"}, "recipient": {Recipient: "12@"},
		"period": {CreatedAt: affiliate.Period{From: &day}},
	} {
		page, count, pageArgs, countArgs := mails.LogSQL(f.Scope.Workspace, filter, 20)
		if plan := f.Plan(page, pageArgs...); !strings.Contains(plan, "mails_log") || strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s: the page does not read the index mails_log in order\n%s", name, plan)
		}
		if plan := f.Plan(count, countArgs...); !strings.Contains(plan, "Index Only Scan using mails_log") {
			t.Errorf("%s: the count does not read the index mails_log only\n%s", name, plan)
		}
	}
	id := affiliate.NewID[notification.MailID](f.Now())
	for name, tc := range map[string]struct{ plan, index string }{
		"entry":  {f.Plan(mails.SelectLogEntrySQL, f.Scope.Workspace, id), "mails_pkey"},
		"mail":   {f.Plan(mails.SelectMailSQL, id), "mails_pkey"},
		"lost":   {f.Plan(mails.EndLostMailsSQL, day, 1000), "mails_pending"},
		"delete": {f.Plan(mails.DeleteOldMailsSQL, day, 1000), "mails_by_age"},
	} {
		if !strings.Contains(tc.plan, tc.index) || strings.Contains(tc.plan, "Seq Scan on mails") {
			t.Errorf("%s: the plan does not use the index %s\n%s", name, tc.index, tc.plan)
		}
	}
}
