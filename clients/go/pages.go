package tributary

import "iter"

// Page is the response of a list.
type Page[T any] interface {
	GetData() []T
	GetLimit() int32
}

// Pages yields every item of a list. It calls get with the number of each page, which
// starts at 1:
//
//	for commission, err := range tributary.Pages(func(page int32) (*affiliatev1.ListCommissionsResponse, error) {
//		return client.Commissions.ListCommissions(ctx, &affiliatev1.ListCommissionsRequest{Page: &page})
//	}) {
//		…
//	}
//
// The iteration ends after the first page that is not full, or after the first error. If
// items are added or removed during the iteration, items may be missing or appear twice.
func Pages[T any, P Page[T]](get func(page int32) (P, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for number := int32(1); ; number++ {
			page, err := get(number)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.GetData() {
				if !yield(item, nil) {
					return
				}
			}
			if len(page.GetData()) < int(page.GetLimit()) {
				return
			}
		}
	}
}
