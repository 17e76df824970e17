package affiliate

// Page is one page of a list: Number from 1, Size 1 to 100 (SPEC.md section 8).
type Page struct {
	Number int
	Size   int
}

// Offset is how many rows lie before the page.
func (p Page) Offset() int64 { return int64(p.Number-1) * int64(p.Size) }
