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

// The sizes of the parts that one transaction does. A statement takes much less than two
// seconds.
const (
	searchBatch   = 1_000
	followBatch   = 200
	customerBatch = 10
	saleBatch     = 20
	responseBatch = 1_000
	eventBatch    = 50
)

const (
	// applyGrace is the age up to which a received event of a payment processor is left to its
	// job. It may be a refund or a dispute, which must not be lost.
	applyGrace = 10 * time.Minute
	// applyWait is the time until the events are read again.
	applyWait = 30 * time.Second
)

// part is the result of a part of a step. If wait is not zero, the step continues after that
// time. If next is not empty, the erasure continues with that step.
type part struct {
	position string
	finished bool
	wait     time.Duration
	next     privacy.BuyerErasureStep
}

// work does one part of the current step of an erasure.
func (s *Service) work(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	switch e.Progress.Step {
	case privacy.EraseSearch:
		if kind := e.Identity.Kind; kind == privacy.BuyerEmail || kind == privacy.BuyerCustomerID {
			return part{finished: true}, nil // the next step finds the conversions by the hash
		}
		return s.search(ctx, tx, e)
	case privacy.EraseFollow:
		return s.follow(ctx, tx, e)
	case privacy.EraseSales:
		return s.eraseSales(ctx, tx, e)
	case privacy.EraseExports:
		return s.deleteExports(ctx, tx, e)
	case privacy.EraseCustomers:
		return part{finished: true}, buyers.DeleteCustomers(ctx, tx, e)
	case privacy.EraseResponses:
		return s.deleteResponses(ctx, tx, e)
	case privacy.EraseProcessorEvents:
		return s.emptyEvents(ctx, tx, e)
	case privacy.EraseAgain:
		return s.again(ctx, tx, e)
	}
	return part{}, fmt.Errorf("unknown step %q", e.Progress.Step)
}

// search compares the ids of all conversions with the identity, and with the customers in the
// list. It is needed if conversions do not store the digest of the identity, and for ids that
// were added to a conversion after the step follow. It reads all conversions of the workspace, a
// batch in some hundredths of a second.
func (s *Service) search(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	var after affiliate.ConversionID
	if e.Progress.Position != "" {
		var ok bool
		if after, ok = affiliate.ParseID[affiliate.ConversionID](e.Progress.Position); !ok {
			return part{}, errors.New("the position is not an id")
		}
	} else if e.Identity.Kind == privacy.BuyerTransactionID {
		if err := s.searchParked(ctx, tx, e); err != nil {
			return part{}, err
		}
	}
	sales, err := buyers.SearchSales(ctx, tx, e.Workspace, after, searchBatch)
	if err != nil {
		return part{}, err
	}
	refs := make([][]string, len(sales)) // of the customers of the processor
	for i, sale := range sales {
		if sale.ProcessorCustomer != nil {
			refs[i] = s.BuyerKeys.CustomerRefs(e.Workspace, *sale.ProcessorCustomer)
		}
	}
	listed, err := buyers.Customers(ctx, tx, e, slices.Concat(refs...))
	if err != nil {
		return part{}, err
	}
	var found []affiliate.ConversionID
	for i, sale := range sales {
		after = sale.ID
		isListed := func(ref string) bool { return slices.Contains(listed, ref) }
		if slices.ContainsFunc(refs[i], isListed) || sale.Matches(s.BuyerKeys, e.Workspace, e.Identity) {
			found = append(found, sale.ID)
		}
	}
	return part{position: after.String(), finished: len(sales) < searchBatch}, buyers.AddSales(ctx, tx, e, found)
}

// searchParked deletes parked refunds whose transaction is the identity.
func (s *Service) searchParked(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) error {
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

// followed is the position of the step follow after the conversions of the identity were added.
const followed = "identity"

// follow adds the conversions of the identity to the list. Then it adds those of the same
// customers until it finds no more. It does not follow the hash of an e-mail address that a
// conversion has: shops report one address for all their guests.
func (s *Service) follow(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	if e.Progress.Position == "" {
		if refs := e.Identity.CustomerRefs(); refs != nil {
			return part{position: followed}, buyers.AddCustomers(ctx, tx, e, refs)
		}
		if e.Identity.Kind == privacy.BuyerEmail {
			for _, hash := range e.Identity.Digests {
				if err := buyers.AddSalesOf(ctx, tx, e, privacy.SaleOfEmailHash, hash); err != nil {
					return part{}, err
				}
			}
			return part{position: followed}, nil
		}
	}
	customers, err := buyers.FollowCustomers(ctx, tx, e, customerBatch)
	if err != nil {
		return part{}, err
	}
	sales, err := buyers.UnfollowedSales(ctx, tx, e, followBatch)
	if err != nil {
		return part{}, err
	}
	if customers == 0 && len(sales) == 0 {
		return part{finished: true}, nil
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
		return part{}, err
	}
	if err := buyers.AddCustomers(ctx, tx, e, refs); err != nil {
		return part{}, err
	}
	return part{position: followed}, buyers.MarkFollowed(ctx, tx, e, ids)
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
func (s *Service) eraseSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	ids, sales, err := buyers.LockSales(ctx, tx, e, saleBatch)
	if err != nil || len(ids) == 0 {
		return part{finished: true}, err
	}
	erased := make([]privacy.ErasedSale, len(sales))
	var given, customers []string
	for i, sale := range sales {
		if sale.ProcessorCustomer != "" {
			customers = append(customers, sale.ProcessorCustomer)
		}
		pseudonym, err := s.pseudonym(ctx, tx, sale, given)
		if err != nil {
			return part{}, err
		}
		given = append(given, pseudonym)
		if erased[i], err = s.ErasureKeys.First().Erase(sale, pseudonym); err != nil {
			return part{}, fmt.Errorf("conversion %s: %w", sale.Conversion, err)
		}
	}
	// A customer can have been added to a conversion after the step follow.
	if err := s.addProcessorCustomers(ctx, tx, e, customers); err != nil {
		return part{}, err
	}
	return part{}, buyers.EraseSales(ctx, tx, e, ids, erased, s.now())
}

// deleteExports deletes the exports of the workspace if they can contain an id of the buyer. The
// step runs after the conversions were erased, so an export that begins later has no such id.
func (s *Service) deleteExports(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	found, _, err := buyers.HasSales(ctx, tx, e)
	// A transaction that has no conversion can have refunds, which were deleted by the request.
	if err != nil || !found && e.Identity.Kind != privacy.BuyerTransactionID {
		return part{finished: true}, err
	}
	return part{finished: true}, exports.DeleteExportsWithSales(ctx, tx, e.Workspace)
}

// pseudonymCandidates is the number of candidates that one look-up checks.
const pseudonymCandidates = 8

// pseudonym returns the first candidate for the pseudonym of a sale that is not taken.
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

// deleteResponses deletes responses about conversions in the list that are stored under
// Idempotency-Keys.
func (s *Service) deleteResponses(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	var after privacy.StoredResponseKey
	if err := decodePosition(e.Progress.Position, &after); err != nil {
		return part{}, err
	}
	last, err := buyers.DeleteResponses(ctx, tx, e, after, responseBatch)
	if err != nil || last == nil {
		return part{finished: true}, err
	}
	return part{position: encodePosition(last)}, nil
}

// walkPosition is the position of the step processor_events.
type walkPosition struct {
	After privacy.WaitingEventKey `json:"after"`
	// Waits is true if an event about the buyer is left to its job for now.
	Waits bool `json:"waits"`
}

// emptyEvents empties events about the buyer that had arrived before the last request and are
// not applied yet.
func (s *Service) emptyEvents(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	var at walkPosition
	if err := decodePosition(e.Progress.Position, &at); err != nil {
		return part{}, err
	}
	events, err := buyers.WaitingEvents(ctx, tx, e, at.After, eventBatch)
	if err != nil {
		return part{}, err
	}
	for _, event := range events {
		at.After = privacy.WaitingEventKey{Connection: event.ConnectionID, ID: event.ID}
		waits, err := s.emptyEvent(ctx, tx, e, event)
		if err != nil {
			return part{}, fmt.Errorf("event %s: %w", event.ID, err)
		}
		at.Waits = at.Waits || waits
	}
	switch {
	case len(events) == eventBatch:
		return part{position: encodePosition(at)}, nil
	case at.Waits:
		return part{wait: applyWait}, nil
	}
	return part{finished: true}, nil
}

// emptyEvent empties an event if it is about the buyer, and deletes what the attempts to apply it
// have stored. waits is true if the event is about the buyer and left to its job for now.
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

// again searches once more. Since the first search, the job of an event that had arrived before
// may have recorded a sale, added the ids of the payment processor to a sale, or bound a
// customer, and a request that has joined may have added conversions.
func (s *Service) again(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (part, error) {
	if e.Progress.Position == "" {
		if err := buyers.UnfollowCustomers(ctx, tx, e); err != nil {
			return part{}, err
		}
	}
	if e.Progress.Position != followed {
		has, err := buyers.HasProcessorEvents(ctx, tx, e.Workspace)
		if err != nil {
			return part{}, err
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
		return part{next: privacy.EraseSales}, err
	}
	return part{finished: true}, buyers.DeleteCustomers(ctx, tx, e)
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
