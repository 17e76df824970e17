package buyer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	buyers "github.com/tributary-hq/tributary/storage/postgres/buyer"
)

// maxValue is the greatest length of a value that can identify a buyer.
const maxValue = 320

// isAbout reports whether an event of a payment processor is about the buyer: it contains the
// identity, a customer in the list, or an id of an erased sale in the list. It compares the
// digests of all texts in the event. ids are the ids of sales and charges in the event.
func (s *Service) isAbout(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, event privacy.WaitingEvent) (about bool, ids []string, err error) {
	body, err := s.Events.OpenEvent(event.ConnectionID, event.Body)
	if err != nil {
		return false, nil, err
	}
	texts, err := textsIn(body)
	if err != nil {
		return false, nil, err
	}
	scope := affiliate.Scope{Workspace: e.Workspace, Mode: event.Mode}
	var refs, erased []string
	for _, text := range texts {
		about = about || e.Identity.Is(s.BuyerKeys, e.Workspace, e.Identity.Kind, text)
		refs = append(refs, s.BuyerKeys.CustomerRefs(e.Workspace, text)...)
		if conversion.IsProcessorID(text) {
			ids, erased = append(ids, text), append(erased, s.ErasureKeys.ProcessorIDs(scope, text)...)
		}
	}
	if about {
		return true, ids, nil
	}
	found, err := buyers.Customers(ctx, tx, e, refs)
	if err == nil && len(found) == 0 {
		found, err = buyers.ErasedAliases(ctx, tx, e, event.Mode, erased)
	}
	return len(found) > 0, ids, err
}

// textsIn returns the different texts in a JSON document that can identify a buyer. Keys are
// texts too, which is harmless.
func textsIn(document []byte) ([]string, error) {
	var texts []string
	in := json.NewDecoder(bytes.NewReader(document))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			slices.Sort(texts)
			return slices.Compact(texts), nil
		}
		if err != nil {
			return nil, err
		}
		if text, ok := token.(string); ok && text != "" && len(text) <= maxValue {
			texts = append(texts, text)
		}
	}
}
