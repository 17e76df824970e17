package account

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// AddWorkers registers the worker of the job that processes the requests for mails.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &requestWorker{service: s})
}

type requestWorker struct {
	river.WorkerDefaults[account.ProcessEmailRequest]
	service *Service
}

// Work processes one request.
func (w *requestWorker) Work(ctx context.Context, job *river.Job[account.ProcessEmailRequest]) error {
	return w.service.processRequest(ctx, job.Args.Request)
}

// storeRequest stores a request for a mail and the job that processes it. The job contains
// only the id of the request, because the arguments of jobs contain no addresses.
func storeRequest(ctx context.Context, tx *postgres.Tx, request account.EmailRequest) error {
	if err := accounts.InsertEmailRequest(ctx, tx, request); err != nil {
		return err
	}
	return tx.Enqueue(ctx, account.ProcessEmailRequest{Request: request.ID})
}

// processRequest stores the mails that answer a request, and deletes the request.
func (s *Service) processRequest(ctx context.Context, id account.EmailRequestID) error {
	at := s.currentTime()
	return s.db.InTx(ctx, func(tx *postgres.Tx) error {
		request, found, err := accounts.EmailRequest(ctx, tx, id)
		if err != nil || !found {
			return err
		}
		if request.User != nil {
			// A reset of the password and the confirmation of a second factor lock the user and
			// then delete the requests of the user. So the lock comes before the deletion here
			// too.
			if err := accounts.LockUserByID(ctx, tx, *request.User); err != nil && !isNotFound(err) {
				return err
			}
		}
		if found, err := accounts.DeleteEmailRequest(ctx, tx, id); err != nil || !found {
			return err
		}
		if request.Purpose == account.TokenChange {
			return s.answerChange(ctx, tx, request, at)
		}
		return s.answerReset(ctx, tx, request, at)
	})
}

// answerReset mails a token for a reset, if an account has the address and the address
// has not received too many tokens.
func (s *Service) answerReset(ctx context.Context, tx *postgres.Tx, request account.EmailRequest, at time.Time) error {
	account, found, err := accounts.AccountByEmail(ctx, tx, request.Account, request.Address)
	if err != nil || !found || !account.MayLogIn() {
		return err
	}
	return s.sendLimited(ctx, tx, notification.MailPasswordReset, request, account, at)
}

// answerChange mails a token to the new address, unless another account has the address,
// and a notice to the current address. The notice does not say whether a token was sent.
func (s *Service) answerChange(ctx context.Context, tx *postgres.Tx, request account.EmailRequest, at time.Time) error {
	account, err := accounts.Account(ctx, tx, *request.User)
	if isNotFound(err) || err == nil && account.User.Email == request.Address {
		return nil // the account was erased, or its address has changed in the meantime
	}
	if err != nil {
		return err
	}
	_, taken, err := accounts.AccountByEmail(ctx, tx, request.Account, request.Address)
	if err != nil {
		return err
	}
	if !taken {
		if err := s.sendLimited(ctx, tx, notification.MailEmailChange, request, account, at); err != nil {
			return err
		}
	}
	notice := accountMail(notification.MailEmailChangeNotice, account, account.User.Email, at)
	notice.Facts.NewAddress = affiliate.MaskEmail(request.Address)
	return tx.SendMail(ctx, notice)
}

// sendLimited mails a token to the address of the request. It sends nothing if the address
// has already received account.MaxTokensPerAddress tokens of the purpose, from any
// accounts, within account.TokenLimitWindow.
func (s *Service) sendLimited(ctx context.Context, tx *postgres.Tx, kind notification.MailKind, request account.EmailRequest, holder account.Account, at time.Time) error {
	sent, err := accounts.CountEmailTokens(ctx, tx, request.Purpose, request.Address, at.Add(-account.TokenLimitWindow))
	if err != nil || sent >= account.MaxTokensPerAddress {
		return err
	}
	token, text, digest := account.NewEmailToken(holder.User.ID, request.Purpose, request.Address, at)
	token.Session = request.Session
	return s.sendToken(ctx, tx, kind, holder, token, text, digest)
}

func isNotFound(err error) bool { return errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) }
