package stripe

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate/processor"
)

// maxHistory is the greatest number of sessions, and of invoices, of a customer that are
// read. Stripe lists the newest first.
const maxHistory = 1_000

// maxSessionAge is the maximum time between the start of a checkout session and its expiry.
const maxSessionAge = 24 * time.Hour

// entry is a sale in the history of a customer.
type entry struct {
	sale processor.Sale
	// session means that the sale was read from a session. Otherwise it was read from an
	// invoice.
	session bool
}

// history returns the sale of an event and the sales of its customer that happened before
// it. objectID is the id of the event's session or invoice.
func (rd *reader) history(ctx context.Context, customer string, own entry, objectID string) ([]processor.Sale, error) {
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
	var sales []processor.Sale
	for _, e := range entries {
		isOwn := e.sale.ID == own.sale.ID && e.session == own.session
		if isOwn || !e.sale.OccurredAt.After(own.sale.OccurredAt) && !e.sale.OccurredAt.Before(rd.request.Since) {
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

// mergeSessions copies data from a session to the sale of the invoice that the session
// names. The session has the click, and a refund may name the session.
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

// customerSessions returns the sales of the complete sessions of a customer, except the
// session of the event. It includes sessions that began up to maxSessionAge before
// rd.request.Since, because an invoice of such a session may be later.
func (rd *reader) customerSessions(ctx context.Context, customer, except string) ([]entry, error) {
	since := rd.request.Since.Add(-maxSessionAge).Unix()
	sessions, err := collect(ctx, "list the checkout sessions of a customer", rd.api.V1CheckoutSessions.List(ctx, &stripe.CheckoutSessionListParams{
		ListParams:   stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Customer:     stripe.String(customer),
		Status:       stripe.String(string(stripe.CheckoutSessionStatusComplete)),
		CreatedRange: createdSince(since),
	}), maxHistory)
	if err != nil {
		return nil, err
	}
	var entries []entry
	seen := map[string]bool{except: true}
	for _, session := range sessions {
		if seen[session.ID] || session.Customer == nil || session.Customer.ID != customer || session.Created < since {
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

// customerInvoices returns the sales of the paid invoices of a customer, except the invoice of the event.
func (rd *reader) customerInvoices(ctx context.Context, customer, except string) ([]entry, error) {
	since := rd.request.Since.Unix()
	invoices, err := collect(ctx, "list the invoices of a customer", rd.api.V1Invoices.List(ctx, &stripe.InvoiceListParams{
		ListParams:   stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Customer:     stripe.String(customer),
		Status:       stripe.String(string(stripe.InvoiceStatusPaid)),
		CreatedRange: createdSince(since),
		Expand:       stripe.StringSlice([]string{"data.payments"}),
	}), maxHistory)
	if err != nil {
		return nil, err
	}
	var entries []entry
	seen := map[string]bool{except: true}
	for _, invoice := range invoices {
		if seen[invoice.ID] || invoice.Customer == nil || invoice.Customer.ID != customer || invoice.Created < since {
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

// createdSince returns the filter of lists for objects that were created since a time in Unix
// seconds.
func createdSince(since int64) *stripe.RangeQueryParams {
	if since <= 0 {
		return nil
	}
	return &stripe.RangeQueryParams{GreaterThanOrEqual: since}
}
