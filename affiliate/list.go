package affiliate

// Totals of lists are counted up to these limits. Some totals are exact at any size,
// because the service stores a count: the totals of commissions without a search, and of
// a programme's participants, links and promo codes. For all other lists, a query counts
// up to one row more than the limit. A total above the limit therefore means that
// counting stopped.
const (
	// MaxTotal is the limit for lists without a search.
	MaxTotal = 100_000
	// MaxSearchTotal is the limit for lists with a search, and for their stats.
	MaxSearchTotal = 10_000
)

// MaxTotalOf returns the limit for a total that is counted by a query. The parameter search is
// empty for a list without a search.
func MaxTotalOf(search string) int64 {
	if search == "" {
		return MaxTotal
	}
	return MaxSearchTotal
}

// MaxHits is the number of records of a kind that a search over all kinds returns.
const MaxHits = 5

// Hit is a record that a search over all kinds has found. The kind determines what the title and
// the subtitle are.
type Hit struct {
	ID       ID[Record]
	Title    string
	Subtitle *string
	Program  *ProgramID `db:"program_id"`
}

// Page is one page of a list. Number starts at 1, and Size is 1 to 100, so
// that each request reads a limited number of rows.
type Page struct {
	Number int
	Size   int
}

// Offset returns the number of rows before the page.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }
