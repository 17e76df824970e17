package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Publish publishes events in a transaction that before may end with an error.
func (s *Store) Publish(ctx context.Context, before func() error, events ...affiliate.Event) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if err := tx.Publish(ctx, events...); err != nil {
			return err
		}
		return before()
	})
}

// MaxExtra bounds the attempts that were asked for.
const MaxExtra = maxExtra

// DeliveryListSQL are the statements of a list, with the arguments of both.
func DeliveryListSQL(
	scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter,
) (page, count string, args []any) {
	where, _ := deliveryConditions(scope, endpoint, since, filter)
	page, count = deliveryListSQL(where)
	return page, count, where.args
}

// The statements on single deliveries and on blocks of them.
const (
	SelectDeliverySQL   = selectDelivery
	RetryDeliverySQL    = retryDelivery
	CountRecoverableSQL = countRecoverable
	RecoverSomeSQL      = recoverSome
	CancelSomeSQL       = cancelSome
	// BlockPlan is what the last two run under.
	BlockPlan = blockPlan
)

// DeliveryArgs are those of SelectDeliverySQL.
func DeliveryArgs(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) pgx.NamedArgs {
	args, _ := deliveryArgs(scope, endpoint, id, time.Time{})
	return args
}

// RecoverableArgs are those of CountRecoverableSQL.
func RecoverableArgs(job affiliate.RecoverDeliveries, epoch int) pgx.NamedArgs {
	return recoverableArgs(job, epoch)
}
