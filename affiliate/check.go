package affiliate

// CheckBooks proves that what is kept twice agrees.
type CheckBooks struct{}

// Kind names the job.
func (CheckBooks) Kind() string { return "check_books" }

// CheckResult is what one check of the books found.
type CheckResult struct {
	Name     string
	Compares string // what is held against what
	Compared int64  // how many things
	Violated int64  // how many of them disagree
	// Violations say it of the first of them, for a person.
	Violations []string
}
