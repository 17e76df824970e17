package landing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/mail"
)

// Sender sends a message to the mail server. *mail.Sender implements it.
type Sender interface {
	Send(ctx context.Context, m mail.Message) error
}

// Mailer configures the mails to the operator. Each contact message is one mail.
type Mailer struct {
	Sender Sender
	// Operator is the recipient.
	Operator mail.Address
	// RetryDelay returns the time until the next attempt for a message of the given age. nil
	// means retryDelay.
	RetryDelay func(age time.Duration) time.Duration
}

const (
	// mailTimeout is the longest time of one attempt. The Sender stops earlier.
	mailTimeout = time.Minute
	// markTimeout limits the time to store that a message was mailed. It is separate from
	// mailTimeout: if the mark is not stored, the mail is sent again.
	markTimeout = 10 * time.Second

	minRetryDelay = time.Minute
	maxRetryDelay = time.Hour
)

// retryDelay is the time until the next attempt for a message of the given age. Attempts
// never end: a message is mailed at most an hour after the mail server works again.
func retryDelay(age time.Duration) time.Duration {
	return min(max(age/2, minRetryDelay), maxRetryDelay)
}

// mailWorker runs the job store.MailContact.
type mailWorker struct {
	river.WorkerDefaults[store.MailContact]
	Mailer
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*mailWorker) Timeout(*river.Job[store.MailContact]) time.Duration { return mailTimeout }

// NextRetry returns the time of the next attempt after a panic, or after the process has
// crashed.
func (w *mailWorker) NextRetry(job *river.Job[store.MailContact]) time.Time {
	now := w.service.serverTime()
	return now.Add(w.RetryDelay(now.Sub(job.CreatedAt)))
}

// Work makes one attempt to mail a message. After a failure it snoozes the job, which does
// not count as an attempt of River. Only panics and crashes of the process count.
func (w *mailWorker) Work(ctx context.Context, job *river.Job[store.MailContact]) error {
	err := w.attempt(ctx, job.Args)
	if err == nil {
		return nil
	}
	reason, level := failureInternal, slog.LevelError
	var failure *mail.SendError
	if errors.As(err, &failure) {
		reason = failure.Kind.String()
		if failure.Kind == mail.Temporary {
			level = slog.LevelWarn
		}
	}
	w.service.metrics.mailFailures.WithLabelValues(reason).Inc()
	delay := w.RetryDelay(w.service.serverTime().Sub(job.CreatedAt))
	w.service.log.LogAttrs(ctx, level, "a contact message could not be mailed",
		slog.String("message", job.Args.Message.String()), slog.Duration("retry_after", delay), slog.Any("error", err))
	return river.JobSnooze(delay)
}

func (w *mailWorker) attempt(ctx context.Context, args store.MailContact) error {
	m, found, err := w.service.store.ContactMessage(ctx, args.Message)
	if err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	if !found || m.MailedAt != nil {
		return nil
	}
	content, err := document(m).Render()
	if err != nil {
		return err
	}
	err = w.Sender.Send(ctx, mail.Message{
		ID: m.ID.String(), To: w.Operator, ReplyTo: mail.Address{Name: m.Name, Address: m.Email}, Content: content, Date: m.CreatedAt,
	})
	if err != nil {
		return err
	}
	w.service.metrics.mails.Inc()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if err := w.service.store.MarkMailed(ctx, m.ID, w.service.now()); err != nil {
		return fmt.Errorf("mark the message as mailed: %w", err)
	}
	return nil
}

// document returns the mail about a message. Package mail keeps the texts of the sender
// from becoming markup, links or headers.
func document(m store.ContactMessage) mail.Document {
	return mail.Document{
		Brand:   "Tributary",
		Subject: "Contact form: " + m.Name,
		Heading: "Message from " + m.Name,
		Blocks: []mail.Block{
			{Facts: []mail.Fact{
				{Label: "Name", Value: m.Name},
				{Label: "E-mail", Value: m.Email},
				{Label: "Received", Value: m.CreatedAt.UTC().Format("2 January 2006 15:04 UTC")},
			}},
			{Paragraph: m.Message},
		},
		Footer: mail.Footer{Reason: "The contact form of your landing page sends this mail. The name and the address are not verified."},
	}
}
