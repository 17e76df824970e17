package stripe

import (
	"context"
	"slices"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/server/processor"
)

const (
	// defaultMaxEvents is the greatest number of events of one call of Events, unless
	// Config.MaxEvents is set.
	defaultMaxEvents = 10_000
	// maxKeptPages is the number of pages of events whose bodies stay in memory. Older pages
	// are read a second time.
	maxKeptPages = 10
)

// eventPage is a page of a list of events, newest first.
type eventPage struct {
	after  string // id of the event before the page; empty for the first page
	bodies [][]byte
	last   string
	more   bool
}

// Events calls yield for each subscribed event that was created since a time and before
// another one, oldest first. Stripe lists the newest first, so Events first reads all pages
// and then goes back through them. Stripe keeps events for 30 days. Its times have whole
// seconds, so the result includes all events of the last second.
func (c *Client) Events(ctx context.Context, key string, since, before time.Time, yield func(body []byte) error) error {
	api := c.api(key)
	period := &stripe.RangeQueryParams{GreaterThanOrEqual: max(0, since.Unix()), LesserThan: before.Unix() + 1}
	var pages []eventPage
	for after, more := "", true; more; {
		if len(pages) == c.maxEvents/pageSize {
			return processor.ErrTooManyEvents
		}
		page, err := readEvents(ctx, api, period, after)
		if err != nil {
			return err
		}
		after, more = page.last, page.more
		if len(pages) >= maxKeptPages {
			page.bodies = nil
		}
		pages = append(pages, page)
	}
	for i, page := range slices.Backward(pages) {
		if i >= maxKeptPages {
			var err error
			if page, err = readEvents(ctx, api, period, page.after); err != nil {
				return err
			}
		}
		for _, body := range slices.Backward(page.bodies) {
			if err := yield(body); err != nil {
				return err
			}
		}
	}
	return nil
}

// readEvents reads the page of events after the event with the given id.
func readEvents(ctx context.Context, api *stripe.Client, period *stripe.RangeQueryParams, after string) (eventPage, error) {
	params := &stripe.EventListParams{
		ListParams:   stripe.ListParams{Limit: stripe.Int64(pageSize), Single: true},
		CreatedRange: period,
		Types:        stripe.StringSlice(subscribedEvents),
	}
	if after != "" {
		params.StartingAfter = stripe.String(after)
	}
	list := api.V1Events.List(ctx, params)
	if err := list.Err(); err != nil {
		return eventPage{}, failure(ctx, "list the events", err)
	}
	page := eventPage{after: after}
	for _, ev := range list.Data() {
		page.last = ev.ID
		page.bodies = append(page.bodies, ev.LastResponse.RawJSON)
	}
	// An empty page has no id after which the list continues.
	page.more = list.Meta().HasMore && page.last != ""
	return page, nil
}
