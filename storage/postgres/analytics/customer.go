package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	selectCustomers = `
		select customer_ref, conversion_id, first_at, program_id, participant_id, link_id, activity from analytics_customers
		where workspace_id = $1 and mode = $2 and customer_ref = any($3)`
	// selectFirsts searches the index once for each customer.
	selectFirsts = `
		select n.customer_ref, f.conversion_id, f.occurred_at, f.program_id, f.participant_id, f.link_id, null::bytea
		from unnest($3::text[]) as n (customer_ref)
		cross join lateral (
			select c.conversion_id, c.occurred_at, c.program_id, c.participant_id, c.link_id from analytics_conversions c
			where c.workspace_id = $1 and c.mode = $2 and c.customer_ref = n.customer_ref
				and c.program_id <> '00000000-0000-0000-0000-000000000000'
			order by c.occurred_at, c.conversion_id
			limit 1) as f`
	storeCustomers = `
		insert into analytics_customers (workspace_id, mode, customer_ref, conversion_id, first_at, program_id, participant_id, link_id, activity)
		select @workspace, @mode, k.* from unnest(@refs::text[], @firsts::uuid[], @times::timestamptz[],
			@programs::uuid[], @participants::uuid[], @links::uuid[], @activities::bytea[]) as k
		on conflict (workspace_id, mode, customer_ref) do update
		set conversion_id = excluded.conversion_id, first_at = excluded.first_at, program_id = excluded.program_id,
			participant_id = excluded.participant_id, link_id = excluded.link_id, activity = excluded.activity`
	deleteCustomers = `delete from analytics_customers where workspace_id = $1 and mode = $2 and customer_ref = any($3)`
)

// Customers returns customers as they are part of the sums. Customers that are not part of the
// sums are missing.
func Customers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error) {
	customers, err := collectCustomers(tx.Query(ctx, selectCustomers, scope.Workspace, scope.Mode, refs))
	if err != nil {
		return nil, fmt.Errorf("read customers for the analytics: %w", err)
	}
	return customers, nil
}

// Firsts returns customers with their first attributed conversions, as they follow from the
// counted conversions, and without their activity. Customers without attributed conversions are
// missing.
func Firsts(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error) {
	customers, err := collectCustomers(tx.Query(ctx, selectFirsts, scope.Workspace, scope.Mode, refs))
	if err != nil {
		return nil, fmt.Errorf("read the first conversions of customers: %w", err)
	}
	return customers, nil
}

func collectCustomers(rows pgx.Rows, err error) (map[string]*analytics.Customer, error) {
	if err != nil {
		return nil, err
	}
	customers := map[string]*analytics.Customer{}
	var c analytics.Customer
	var encoded []byte
	_, err = pgx.ForEachRow(rows, []any{&c.Ref, &c.First, &c.FirstAt, &c.Owner.Program, &c.Owner.Participant, &c.Owner.Link, &encoded}, func() (err error) {
		found := c
		found.FirstAt = c.FirstAt.UTC()
		found.Activity, err = analytics.DecodeActivity(encoded)
		customers[c.Ref] = &found
		return err
	})
	return customers, err
}

// StoreCustomers stores customers as they are part of the sums, and deletes others.
func StoreCustomers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, stored []*analytics.Customer, deleted []string) error {
	batch := &pgx.Batch{}
	if len(stored) > 0 {
		var refs []string
		var firsts, programs, participants, links []uuid.UUID
		var times []time.Time
		var activities [][]byte
		for _, c := range stored {
			refs, firsts, times, activities = append(refs, c.Ref), append(firsts, c.First.UUID), append(times, c.FirstAt), append(activities, c.Activity.Encode())
			programs, participants, links = append(programs, c.Owner.Program.UUID), append(participants, c.Owner.Participant.UUID), append(links, c.Owner.Link.UUID)
		}
		batch.Queue(storeCustomers, pgx.NamedArgs{
			"workspace": scope.Workspace, "mode": scope.Mode, "refs": refs, "firsts": firsts, "times": times,
			"programs": programs, "participants": participants, "links": links, "activities": activities,
		})
	}
	if len(deleted) > 0 {
		batch.Queue(deleteCustomers, scope.Workspace, scope.Mode, deleted)
	}
	return send(ctx, tx, "store customers of the analytics", batch)
}
