package stripe

import (
	"cmp"
	"context"
	"slices"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
)

// maxHistory is the greatest number of sessions, and of invoices, of a customer that are
// read. Stripe lists the newest first.
const maxHistory = 1_000

// entry is a sale of a history.
type entry struct {
	sale affiliate.ProcessorSale
	// session means that the sale was read from a session. Otherwise it was read from an
	// invoice.
	session bool
}

// history returns the sale of an event and the sales of its customer that happened before
// it. objectID is the id of the event's session or invoice.
func (rd *reader) history(ctx context.Context, customer string, own entry, objectID string) ([]affiliate.ProcessorSale, error) {
	sessions, err := rd.customerSessions(ctx, customer, objectID)
	if err != nil {
		return nil, err
	}
	invoices, err := rd.customerInvoices(ctx, customer, objectID)
	if err != nil {
		return nil, err
	}
	entries := slices.Concat(sessions, invoices, []entry{own})
	// The sort is stable, so the event's own sale stays the last of equal sales.
	slices.SortStableFunc(entries, compareEntries)
	mergeSessions(entries)
	var sales []affiliate.ProcessorSale
	for _, e := range entries {
		if !e.sale.OccurredAt.After(own.sale.OccurredAt) {
			sales = append(sales, e.sale)
		}
	}
	return sales, nil
}

// compareEntries orders sales by their time. At the same time, a session is before an
// invoice, because the session binds the customer.
func compareEntries(a, b entry) int {
	if order := a.sale.OccurredAt.Compare(b.sale.OccurredAt); order != 0 {
		return order
	}
	if a.session != b.session {
		if a.session {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.sale.ID, b.sale.ID)
}

// mergeSessions adds to the sale of an invoice what the session that names the invoice says.
// The session has the click, and a refund may name the session.
func mergeSessions(entries []entry) {
	for _, from := range entries {
		if !from.session || from.sale.IDs.Invoice == "" {
			continue
		}
		for i := range entries {
			into := &entries[i].sale
			if entries[i].session || into.IDs.Invoice != from.sale.IDs.Invoice || into.IDs.Session != "" {
				continue
			}
			into.IDs.Session = from.sale.IDs.Session
			setAliases(into)
			into.Click = cmp.Or(into.Click, from.sale.Click)
			into.Reference = cmp.Or(into.Reference, from.sale.Reference)
			if len(into.PromotionCodes) == 0 {
				into.PromotionCodes = from.sale.PromotionCodes
			}
		}
	}
}

// customerSessions returns the sales of the complete sessions of a customer, without one
// session.
func (rd *reader) customerSessions(ctx context.Context, customer, except string) ([]entry, error) {
	sessions, err := collect(ctx, "list the checkout sessions of a customer", rd.api.V1CheckoutSessions.List(ctx, &stripe.CheckoutSessionListParams{
		ListParams:   stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Customer:     stripe.String(customer),
		Status:       stripe.String(string(stripe.CheckoutSessionStatusComplete)),
		CreatedRange: rd.createdRange(),
	}), maxHistory)
	if err != nil {
		return nil, err
	}
	var entries []entry
	seen := map[string]bool{except: true}
	for _, session := range sessions {
		if seen[session.ID] || session.Customer == nil || session.Customer.ID != customer || !rd.inRange(session.Created) {
			continue
		}
		seen[session.ID] = true
		sale, reason, err := rd.sessionSale(ctx, session)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			entries = append(entries, entry{sale: sale, session: true})
		}
	}
	return entries, nil
}

// customerInvoices returns the sales of the paid invoices of a customer, without one invoice.
func (rd *reader) customerInvoices(ctx context.Context, customer, except string) ([]entry, error) {
	invoices, err := collect(ctx, "list the invoices of a customer", rd.api.V1Invoices.List(ctx, &stripe.InvoiceListParams{
		ListParams:   stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Customer:     stripe.String(customer),
		Status:       stripe.String(string(stripe.InvoiceStatusPaid)),
		CreatedRange: rd.createdRange(),
		Expand:       stripe.StringSlice([]string{"data.payments"}),
	}), maxHistory)
	if err != nil {
		return nil, err
	}
	var entries []entry
	seen := map[string]bool{except: true}
	for _, invoice := range invoices {
		if seen[invoice.ID] || invoice.Customer == nil || invoice.Customer.ID != customer || !rd.inRange(invoice.Created) {
			continue
		}
		seen[invoice.ID] = true
		sale, reason, err := rd.invoiceSale(ctx, invoice, true)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			entries = append(entries, entry{sale: sale})
		}
	}
	return entries, nil
}

// createdRange returns the filter of lists for the time of the earliest sale.
func (rd *reader) createdRange() *stripe.RangeQueryParams {
	if rd.request.Since.Unix() <= 0 {
		return nil
	}
	return &stripe.RangeQueryParams{GreaterThanOrEqual: rd.request.Since.Unix()}
}

func (rd *reader) inRange(created int64) bool { return created >= rd.request.Since.Unix() }
