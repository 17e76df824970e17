package account

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

// AddWorkers registers the worker of the job that processes the requests for mails.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &requestWorker{service: s})
}

type requestWorker struct {
	river.WorkerDefaults[affiliate.ProcessEmailRequest]
	service *Service
}

// Work processes one request.
func (w *requestWorker) Work(ctx context.Context, job *river.Job[affiliate.ProcessEmailRequest]) error {
	return w.service.processRequest(ctx, job.Args.Request)
}

// storeRequest stores a request for a mail and the job that processes it. The job contains
// only the id of the request, because the arguments of jobs contain no addresses.
func storeRequest(ctx context.Context, tx Tx, request affiliate.EmailRequest) error {
	if err := tx.InsertEmailRequest(ctx, request); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.ProcessEmailRequest{Request: request.ID})
}

// processRequest stores the mails that answer a request, and deletes the request.
func (s *Service) processRequest(ctx context.Context, id affiliate.EmailRequestID) error {
	at := s.currentTime()
	return s.store.InTx(ctx, func(tx Tx) error {
		request, found, err := tx.EmailRequest(ctx, id)
		if err != nil || !found {
			return err
		}
		if request.User != nil {
			// A reset of the password and the confirmation of a second factor lock the user and
			// then delete the requests of the user. So the lock comes before the deletion here
			// too.
			if err := tx.LockUserByID(ctx, *request.User); err != nil && !isNotFound(err) {
				return err
			}
		}
		if found, err := tx.DeleteEmailRequest(ctx, id); err != nil || !found {
			return err
		}
		if request.Purpose == affiliate.TokenChange {
			return s.answerChange(ctx, tx, request, at)
		}
		return s.answerReset(ctx, tx, request, at)
	})
}

// answerReset mails a token for a reset, if an account has the address and the address
// has not received too many tokens.
func (s *Service) answerReset(ctx context.Context, tx Tx, request affiliate.EmailRequest, at time.Time) error {
	account, found, err := tx.AccountByEmail(ctx, request.Account, request.Address)
	if err != nil || !found || !account.MayLogIn() {
		return err
	}
	return s.sendLimited(ctx, tx, affiliate.MailPasswordReset, request, account, at)
}

// answerChange mails a token to the new address, unless another account has the address,
// and a notice to the current address. The notice does not say whether a token was sent.
func (s *Service) answerChange(ctx context.Context, tx Tx, request affiliate.EmailRequest, at time.Time) error {
	account, err := tx.Account(ctx, *request.User)
	if isNotFound(err) || err == nil && account.User.Email == request.Address {
		return nil // the account was erased, or its address has changed in the meantime
	}
	if err != nil {
		return err
	}
	_, taken, err := tx.AccountByEmail(ctx, request.Account, request.Address)
	if err != nil {
		return err
	}
	if !taken {
		if err := s.sendLimited(ctx, tx, affiliate.MailEmailChange, request, account, at); err != nil {
			return err
		}
	}
	notice := accountMail(affiliate.MailEmailChangeNotice, account, account.User.Email, at)
	notice.Facts.NewAddress = affiliate.MaskEmail(request.Address)
	return tx.SendMail(ctx, notice)
}

// sendLimited mails a token to the address of the request. It sends nothing if the address
// has already received affiliate.MaxTokensPerAddress tokens of the purpose, from any
// accounts, within affiliate.TokenLimitWindow.
func (s *Service) sendLimited(ctx context.Context, tx Tx, kind affiliate.MailKind, request affiliate.EmailRequest, account affiliate.Account, at time.Time) error {
	sent, err := tx.CountEmailTokens(ctx, request.Purpose, request.Address, at.Add(-affiliate.TokenLimitWindow))
	if err != nil || sent >= affiliate.MaxTokensPerAddress {
		return err
	}
	token, text, digest := affiliate.NewEmailToken(account.User.ID, request.Purpose, request.Address, at)
	token.Session = request.Session
	return s.sendToken(ctx, tx, kind, account, token, text, digest)
}

func isNotFound(err error) bool { return errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) }
