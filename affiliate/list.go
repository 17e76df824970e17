package affiliate

// The bounds up to which the totals of lists are counted. Some totals are exact at any
// size, because the service stores a count: commissions without a search, and a
// programme's participants, links and promo codes. For the others, a query counts up to
// one row more than the bound, so a total above the bound means that counting stopped.
const (
	// MaxTotal is the bound of lists without a search.
	MaxTotal = 100_000
	// MaxSearchTotal is the bound of lists with a search, and of their stats.
	MaxSearchTotal = 10_000
)

// MaxTotalOf returns the bound of a total that is counted by a query. search is empty
// for a list without a search.
func MaxTotalOf(search string) int64 {
	if search == "" {
		return MaxTotal
	}
	return MaxSearchTotal
}

// Page is one page of a list. Number starts at 1, and Size is 1 to 100 (SPEC.md section
// 8).
type Page struct {
	Number int
	Size   int
}

// Offset returns the number of rows before the page.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }
