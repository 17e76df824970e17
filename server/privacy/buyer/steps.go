package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	buyers "github.com/tributary-hq/tributary/storage/postgres/buyer"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
)

// The largest numbers of rows that one transaction processes. A statement takes much less than
// two seconds.
const (
	searchBatch   = 1_000
	followBatch   = 200
	customerBatch = 10
	saleBatch     = 20
	responseBatch = 1_000
	eventBatch    = 50
)

const (
	// applyGrace is the age from which the content of a received event is deleted. The job of a
	// younger event may still apply it. A refund or a dispute must not be lost.
	applyGrace = 10 * time.Minute
	// applyWait is the time until the events are read again.
	applyWait = 30 * time.Second
)

// partResult is the result of a part of a step. If wait is not zero, the step continues after
// that time. If next is not empty, the erasure continues with that step.
type partResult struct {
	position string
	finished bool
	wait     time.Duration
	next     privacy.BuyerErasureStep
}

// work does one part of the current step of an erasure.
func (s *Service) work(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	switch e.Progress.Step {
	case privacy.EraseSearch:
		if kind := e.Identity.Kind; kind == privacy.BuyerEmail || kind == privacy.BuyerCustomerID {
			return partResult{finished: true}, nil // the next step finds the conversions by the hash
		}
		return s.search(ctx, tx, e)
	case privacy.EraseFollow:
		return s.follow(ctx, tx, e)
	case privacy.EraseSales:
		return s.eraseSales(ctx, tx, e)
	case privacy.EraseExports:
		return s.deleteExports(ctx, tx, e)
	case privacy.EraseCustomers:
		return partResult{finished: true}, buyers.DeleteCustomers(ctx, tx, e)
	case privacy.EraseResponses:
		return s.deleteResponses(ctx, tx, e)
	case privacy.EraseProcessorEvents:
		return s.emptyEvents(ctx, tx, e)
	case privacy.EraseAgain:
		return s.again(ctx, tx, e)
	}
	return partResult{}, fmt.Errorf("unknown step %q", e.Progress.Step)
}

// search compares the transaction ids and the processor's ids of each conversion with the identity and
// the listed customers of the buyer. It is needed if no stored digest finds the conversions, and for ids
// that were added to a conversion after EraseFollow. It reads all conversions of the workspace that are
// not erased. One batch takes some hundredths of a second.
func (s *Service) search(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	var after affiliate.ConversionID
	if e.Progress.Position != "" {
		var ok bool
		if after, ok = affiliate.ParseID[affiliate.ConversionID](e.Progress.Position); !ok {
			return partResult{}, errors.New("the position is not an id")
		}
	} else if e.Identity.Kind == privacy.BuyerTransactionID {
		if err := s.deleteParked(ctx, tx, e); err != nil {
			return partResult{}, err
		}
	}
	sales, err := buyers.SearchSales(ctx, tx, e.Workspace, after, searchBatch)
	if err != nil {
		return partResult{}, err
	}
	refs := make([][]string, len(sales)) // of the customers of the processor
	for i, sale := range sales {
		if sale.ProcessorCustomer != nil {
			refs[i] = s.BuyerKeys.CustomerRefs(e.Workspace, *sale.ProcessorCustomer)
		}
	}
	listed, err := buyers.Customers(ctx, tx, e, slices.Concat(refs...))
	if err != nil {
		return partResult{}, err
	}
	var found []affiliate.ConversionID
	for i, sale := range sales {
		after = sale.ID
		isListed := func(ref string) bool { return slices.Contains(listed, ref) }
		if slices.ContainsFunc(refs[i], isListed) || sale.Matches(s.BuyerKeys, e.Workspace, e.Identity) {
			found = append(found, sale.ID)
		}
	}
	return partResult{position: after.String(), finished: len(sales) < searchBatch}, buyers.AddSales(ctx, tx, e, found)
}

// deleteParked deletes the parked refunds whose transaction id is the identity.
func (s *Service) deleteParked(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) error {
	parked, err := buyers.ParkedSales(ctx, tx, e.Workspace)
	if err != nil {
		return err
	}
	for _, external := range parked {
		if !e.Identity.Is(s.BuyerKeys, e.Workspace, privacy.BuyerTransactionID, external) {
			continue
		}
		if err := buyers.DeleteUnknownSale(ctx, tx, e.Workspace, external, s.now()); err != nil {
			return err
		}
	}
	return nil
}

// afterIdentity is the position of EraseFollow after the conversions or customers of the identity were added.
const afterIdentity = "identity"

// follow adds the conversions of the identity to the list. Then it adds those of the same
// customers until it finds no more. It does not follow the hash of an e-mail address that a
// conversion has: shops report one address for all their guests.
func (s *Service) follow(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	if e.Progress.Position == "" {
		if refs := e.Identity.CustomerRefs(); refs != nil {
			return partResult{position: afterIdentity}, buyers.AddCustomers(ctx, tx, e, refs)
		}
		if e.Identity.Kind == privacy.BuyerEmail {
			for _, hash := range e.Identity.Digests {
				if err := buyers.AddSalesOf(ctx, tx, e, privacy.SaleOfEmailHash, hash); err != nil {
					return partResult{}, err
				}
			}
			return partResult{position: afterIdentity}, nil
		}
	}
	customers, err := buyers.FollowCustomers(ctx, tx, e, customerBatch)
	if err != nil {
		return partResult{}, err
	}
	sales, err := buyers.UnfollowedSales(ctx, tx, e, followBatch)
	if err != nil {
		return partResult{}, err
	}
	if customers == 0 && len(sales) == 0 {
		return partResult{finished: true}, nil
	}
	var ids []affiliate.ConversionID
	var refs, atProcessor []string
	for _, sale := range sales {
		ids = append(ids, sale.ID)
		if sale.CustomerRef != nil {
			refs = append(refs, *sale.CustomerRef)
		}
		if id := sale.ProcessorCustomer; id != nil {
			atProcessor = append(atProcessor, *id)
		}
	}
	if err := s.addProcessorCustomers(ctx, tx, e, atProcessor); err != nil {
		return partResult{}, err
	}
	if err := buyers.AddCustomers(ctx, tx, e, refs); err != nil {
		return partResult{}, err
	}
	return partResult{position: afterIdentity}, buyers.MarkFollowed(ctx, tx, e, ids)
}

// addProcessorCustomers adds customers of a payment processor and their conversions to the
// lists.
func (s *Service) addProcessorCustomers(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, ids []string) error {
	slices.Sort(ids)
	var refs []string
	for _, id := range slices.Compact(ids) {
		refs = append(refs, s.BuyerKeys.CustomerRefs(e.Workspace, id)...)
		if err := buyers.AddSalesOf(ctx, tx, e, privacy.SaleOfProcessorCustomer, id); err != nil {
			return err
		}
	}
	return buyers.AddCustomers(ctx, tx, e, refs)
}

// eraseSales erases some conversions in the list.
func (s *Service) eraseSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	ids, sales, err := buyers.LockSales(ctx, tx, e, saleBatch)
	if err != nil || len(ids) == 0 {
		return partResult{finished: true}, err
	}
	erased := make([]privacy.ErasedSale, len(sales))
	var given, customers []string
	for i, sale := range sales {
		if sale.ProcessorCustomer != "" {
			customers = append(customers, sale.ProcessorCustomer)
		}
		pseudonym, err := s.pseudonym(ctx, tx, sale, given)
		if err != nil {
			return partResult{}, err
		}
		given = append(given, pseudonym)
		if erased[i], err = s.ErasureKeys.First().Erase(sale, pseudonym); err != nil {
			return partResult{}, fmt.Errorf("conversion %s: %w", sale.Conversion, err)
		}
	}
	// A customer can have been added to a conversion after EraseFollow.
	if err := s.addProcessorCustomers(ctx, tx, e, customers); err != nil {
		return partResult{}, err
	}
	return partResult{}, buyers.EraseSales(ctx, tx, e, ids, erased, s.now())
}

// deleteExports deletes the exports of the workspace if they can contain an id of the buyer. The
// step runs after the conversions were erased, so an export that begins later has no such id.
func (s *Service) deleteExports(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	found, _, err := buyers.HasSales(ctx, tx, e)
	// A transaction id without a conversion may have had parked refunds. An export may contain the id.
	if err != nil || !found && e.Identity.Kind != privacy.BuyerTransactionID {
		return partResult{finished: true}, err
	}
	return partResult{finished: true}, exports.DeleteExportsWithSales(ctx, tx, e.Workspace)
}

// pseudonymCandidates is the number of candidates that one look-up checks.
const pseudonymCandidates = 8

// pseudonym returns the first pseudonym for a sale that is neither taken nor in given.
func (s *Service) pseudonym(ctx context.Context, tx *postgres.Tx, sale privacy.BuyerSale, given []string) (string, error) {
	candidates := make([]string, pseudonymCandidates)
	for n := range candidates {
		candidates[n] = privacy.SalePseudonym(sale.Conversion, n)
	}
	taken, err := buyers.TakenPseudonyms(ctx, tx, sale.Scope, candidates)
	if err != nil {
		return "", err
	}
	for _, candidate := range candidates {
		if !slices.Contains(taken, candidate) && !slices.Contains(given, candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("all pseudonyms of conversion %s are taken", sale.Conversion)
}

// deleteResponses deletes the responses, stored under Idempotency-Keys, about the conversions in
// the list.
func (s *Service) deleteResponses(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	var after privacy.StoredResponseKey
	if err := decodePosition(e.Progress.Position, &after); err != nil {
		return partResult{}, err
	}
	last, err := buyers.DeleteResponses(ctx, tx, e, after, responseBatch)
	if err != nil || last == nil {
		return partResult{finished: true}, err
	}
	return partResult{position: encodePosition(last)}, nil
}

// eventsPosition is the position of EraseProcessorEvents.
type eventsPosition struct {
	After privacy.WaitingEventKey `json:"after"`
	// Waits is true if an event about the buyer is not emptied yet, because its job may still apply it.
	Waits bool `json:"waits"`
}

// emptyEvents deletes the content of events about the buyer that are not applied and arrived up
// to the time e.Until.
func (s *Service) emptyEvents(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	var at eventsPosition
	if err := decodePosition(e.Progress.Position, &at); err != nil {
		return partResult{}, err
	}
	events, err := buyers.WaitingEvents(ctx, tx, e, at.After, eventBatch)
	if err != nil {
		return partResult{}, err
	}
	for _, event := range events {
		at.After = privacy.WaitingEventKey{Connection: event.ConnectionID, ID: event.ID}
		waits, err := s.emptyEvent(ctx, tx, e, event)
		if err != nil {
			return partResult{}, fmt.Errorf("event %s: %w", event.ID, err)
		}
		at.Waits = at.Waits || waits
	}
	switch {
	case len(events) == eventBatch:
		return partResult{position: encodePosition(at)}, nil
	case at.Waits:
		return partResult{wait: applyWait}, nil
	}
	return partResult{finished: true}, nil
}

// emptyEvent empties an event if it is about the buyer, and deletes what the attempts to apply it
// have stored. waits is true if the event is about the buyer and must be read again later.
func (s *Service) emptyEvent(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, event privacy.WaitingEvent) (waits bool, err error) {
	about, ids, err := s.isAbout(ctx, tx, e, event)
	if err != nil || !about {
		return false, err
	}
	now := s.now()
	if event.Status == processor.EventReceived && now.Sub(event.ReceivedAt) < applyGrace {
		return true, nil
	}
	emptied, err := buyers.EmptyEvent(ctx, tx, e.Workspace, event, processor.IgnoredErased, now)
	if err != nil || !emptied {
		return true, err
	}
	for _, id := range ids {
		if err := buyers.DeleteUnknownSale(ctx, tx, e.Workspace, id, now); err != nil {
			return false, err
		}
	}
	return false, nil
}

// again searches once more. Since the first search, the job of an older event may have recorded a
// sale, added the ids of the payment processor to a sale, or bound a customer. Another request that
// joined this erasure may have added conversions.
func (s *Service) again(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (partResult, error) {
	if e.Progress.Position == "" {
		if err := buyers.UnfollowCustomers(ctx, tx, e); err != nil {
			return partResult{}, err
		}
	}
	if e.Progress.Position != afterIdentity {
		has, err := buyers.HasProcessorEvents(ctx, tx, e.Workspace)
		if err != nil {
			return partResult{}, err
		}
		if has {
			if searched, err := s.search(ctx, tx, e); err != nil || !searched.finished {
				return searched, err
			}
		}
		e.Progress.Position = ""
	}
	found, err := s.follow(ctx, tx, e)
	if err != nil || !found.finished {
		return found, err
	}
	_, unerased, err := buyers.HasSales(ctx, tx, e)
	if err != nil || unerased {
		return partResult{next: privacy.EraseSales}, err
	}
	return partResult{finished: true}, buyers.DeleteCustomers(ctx, tx, e)
}

func encodePosition(position any) string {
	text, err := json.Marshal(position)
	if err != nil {
		panic(err) // the positions have only texts, ids and booleans
	}
	return string(text)
}

func decodePosition(text string, position any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), position)
}
