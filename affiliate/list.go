package affiliate

// How far the totals of lists are counted. Where the service keeps a count the total
// is exact at any size: commissions without a search, and a programme's
// participants, links and promo codes. A count reads one row more than its bound, so
// that a total above the bound tells that counting stopped.
const (
	// MaxTotal bounds the totals of the other lists.
	MaxTotal = 100_000
	// MaxSearchTotal bounds the total of a search, and its stats.
	MaxSearchTotal = 10_000
)

// MaxTotalOf returns the bound of a total that is not kept, with a search or without.
func MaxTotalOf(search string) int64 {
	if search == "" {
		return MaxTotal
	}
	return MaxSearchTotal
}

// Page is one page of a list: Number from 1, Size 1 to 100 (SPEC.md section 8).
type Page struct {
	Number int
	Size   int
}

// Offset is how many rows lie before the page.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }
