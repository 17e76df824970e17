package privacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	erasures "github.com/tributary-hq/tributary/storage/postgres/privacy"
)

const (
	// jobTimeout is the longest time of one job. It is shorter than the time after which
	// River treats a running job as lost.
	jobTimeout = 5 * time.Minute
	// workTime is the time after which a job ends and continues later, so that other jobs
	// of the queue can run.
	workTime = 2 * time.Minute
	// resumeInterval is the time between two searches for erasures that have not finished.
	resumeInterval = time.Hour
)

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &server.Worker[privacy.EraseData]{Limit: jobTimeout, Run: func(ctx context.Context, job *river.Job[privacy.EraseData]) error {
		return server.Snooze(s.Erase(ctx, job.Args.Erasure))
	}})
	river.AddWorker(workers, &server.Worker[privacy.ResumeErasures]{Run: func(ctx context.Context, _ *river.Job[privacy.ResumeErasures]) error {
		return errors.Join(s.Resume(ctx), s.EraseAbandoned(ctx))
	}})
}

// PeriodicJobs returns the hourly job that continues erasures whose job has failed in all
// attempts, and erases abandoned accounts.
func PeriodicJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{server.OneAtATime(river.PeriodicInterval(resumeInterval), privacy.ResumeErasures{}, true)}
}

// Erase processes the pages of an erasure until the erasure has finished or must wait, or until workTime
// has passed. The result wait is the time until the next call. It is 0 if the erasure has finished.
func (s *Service) Erase(ctx context.Context, id privacy.ErasureID) (wait time.Duration, err error) {
	erasure, logged, err := erasures.Erasure(ctx, s.DB, id)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !logged { // the process crashed after the commit, or the log could not be written
		if err := s.log(ctx, erasure); err != nil {
			return 0, err
		}
	}
	var previous privacy.ErasurePage
	for began := time.Now(); time.Since(began) < workTime; {
		page, err := erasures.Advance(ctx, s.DB, id, previous, s.Now())
		if err != nil || page.Finished || page.Wait > 0 {
			return page.Wait, err
		}
		if err := s.process(ctx, erasure, page); err != nil {
			return 0, err
		}
		previous = page
	}
	return time.Second, nil
}

// process does the work that a page requests and that is not part of the transaction of the page.
func (s *Service) process(ctx context.Context, erasure privacy.Erasure, page privacy.ErasurePage) (err error) {
	for _, codes := range page.Delete {
		if err := s.Directory.DeleteCodes(ctx, codes); err != nil {
			return err
		}
	}
	for _, workspace := range page.Workspaces {
		if err := s.Analytics.AddAll(ctx, workspace); err != nil {
			return err
		}
	}
	if page.Exports {
		return s.DB.InTx(ctx, func(tx *postgres.Tx) error { return deleteExports(ctx, tx, erasure) })
	}
	if letters := page.DeadLetters; letters != nil {
		letters.Last, letters.More, err = s.DeadLetters.Delete(ctx, letters.Search, letters.After)
	}
	return err
}

// deleteExports deletes all exports with data of the subject of an erasure.
func deleteExports(ctx context.Context, tx *postgres.Tx, e privacy.Erasure) error {
	switch e.Subject {
	case privacy.EraseParticipant:
		return exports.DeleteExportsWithParticipant(ctx, tx, *e.Workspace, affiliate.ParticipantID{UUID: e.SubjectID})
	case privacy.ErasePartner:
		return exports.DeleteExportsWithPartner(ctx, tx, affiliate.UserID{UUID: e.SubjectID})
	case privacy.EraseWorkspace:
		return exports.DeleteExportsOfWorkspace(ctx, tx, *e.Workspace)
	}
	return fmt.Errorf("unknown subject %q", e.Subject)
}

// Resume enqueues the jobs of erasures that should have finished.
func (s *Service) Resume(ctx context.Context) error {
	unfinished, err := erasures.UnfinishedErasures(ctx, s.DB, s.Now().Add(-resumeInterval))
	if err != nil {
		return err
	}
	jobs := make([]affiliate.Job, len(unfinished))
	for i, id := range unfinished {
		jobs[i] = privacy.EraseData{Erasure: id}
	}
	return erasures.Enqueue(ctx, s.DB, jobs...)
}

// abandonedPerRun is the maximum number of accounts that one job erases.
const abandonedPerRun = 1000

// EraseAbandoned erases accounts that merchants have made for partners, that nobody has claimed,
// and that take part in no programme any more: the participations were erased or, in test mode,
// deleted. The partners cannot erase these accounts, because they cannot log in.
func (s *Service) EraseAbandoned(ctx context.Context) error {
	abandoned, err := erasures.AbandonedAccounts(ctx, s.DB, abandonedPerRun)
	if err != nil {
		return err
	}
	for _, id := range abandoned {
		erasure := privacy.NewErasure(privacy.ErasePartner, id.UUID, s.currentTime())
		erased := false
		err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
			account, found, err := erasures.LockAccount(ctx, tx, id)
			if err != nil || !found || !account.Unclaimed {
				return err // somebody has claimed it since then
			}
			participations, err := participants.LockAllOfPartner(ctx, tx, id)
			if err != nil || len(participations) > 0 {
				return err // another merchant has added it since then
			}
			erased = true
			return s.erasePartner(ctx, tx, erasure, account, nil)
		})
		if err == nil && erased {
			err = s.log(ctx, erasure)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
