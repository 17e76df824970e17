// Package customer serves the customers of merchants. Package conversion stores a customer
// when a conversion with the customer's id is reported.
//
// The package guarantees that a label is shown only to the merchant, and that the erasure
// of a buyer deletes the label. The merchant's ids of customers are not stored, only their
// keyed hashes.
package customer

import (
	"context"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// Service implements affiliate.v1.CustomerService.
type Service struct {
	affiliatev1.UnimplementedCustomerServiceServer

	db   *postgres.DB
	keys privacy.BuyerKeys
}

// New returns a Service. keys are the secret keys with which the ids of customers are
// hashed.
func New(db *postgres.DB, keys affiliate.HashKeys) *Service {
	return &Service{db: db, keys: privacy.BuyerKeys(keys)}
}

// UpdateCustomer changes the label of a customer if the update mask contains the label.
func (s *Service) UpdateCustomer(ctx context.Context, req *affiliatev1.UpdateCustomerRequest) (*affiliatev1.Customer, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	var label affiliate.Change[string]
	if slices.Contains(req.GetUpdateMask().GetPaths(), "label") {
		label = affiliate.Change[string]{Given: true, Value: server.OptionalString(req.GetLabel())}
	}
	c, err := conversions.LabelCustomer(ctx, s.db, scope, s.keys.CustomerRefs(scope.Workspace, req.GetCustomerId()), label)
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
