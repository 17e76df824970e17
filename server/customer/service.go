// Package customer serves the customers of merchants. A customer is stored by the report of
// a conversion that has its id; package conversion does this.
//
// The package guarantees that a label is shown only to the merchant, and that the erasure of
// a buyer deletes it. It does not keep the merchant's ids of customers: only their keyed
// hashes are stored.
package customer

import (
	"context"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Store stores customers.
type Store interface {
	// LabelCustomer changes the label of a customer, which may be stored under any of the
	// given references. Without a change, it only reads the customer. Errors: NOT_FOUND.
	LabelCustomer(ctx context.Context, scope affiliate.Scope, refs []string, label affiliate.Change[string]) (conversion.Customer, error)
}

// Service implements affiliate.v1.CustomerService.
type Service struct {
	affiliatev1.UnimplementedCustomerServiceServer

	store Store
	keys  privacy.BuyerKeys
}

// New returns a Service. keys are the secret keys with which the ids of customers are
// hashed.
func New(store Store, keys affiliate.HashKeys) *Service {
	return &Service{store: store, keys: privacy.BuyerKeys(keys)}
}

// UpdateCustomer changes the label of a customer if the update mask names it.
func (s *Service) UpdateCustomer(ctx context.Context, req *affiliatev1.UpdateCustomerRequest) (*affiliatev1.Customer, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	var label affiliate.Change[string]
	if slices.Contains(req.GetUpdateMask().GetPaths(), "label") {
		label = affiliate.Change[string]{Given: true, Value: server.OptionalString(req.GetLabel())}
	}
	c, err := s.store.LabelCustomer(ctx, scope, s.keys.CustomerRefs(scope.Workspace, req.GetCustomerId()), label)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.Customer{
		CustomerId:  req.GetCustomerId(),
		CustomerRef: *conversion.CustomerName(&c.Ref, c.Label),
		Label:       c.Label,
		CreatedAt:   server.Timestamp(c.CreatedAt),
	}, nil
}
