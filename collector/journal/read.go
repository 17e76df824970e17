package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Record is one batch as it lies in a segment.
type Record struct {
	Segment string // the file's name
	Offset  int64  // of its header
	Time    time.Time
	Clicks  int
	// Batch is a marshalled edge.v1.ClickBatch. It is good until visit returns.
	Batch []byte
}

// Report is what Read found.
type Report struct {
	Segments       int
	Bytes          int64
	Records        int64
	Clicks         int64
	Oldest, Newest time.Time // zero without records
	// Damage is the stretches without a good record.
	Damage []Damage
	// Tail is a record at the end of the newest segment whose end is missing, 0 bytes
	// without one: it is being written, or was when the collector was killed.
	Tail Damage
}

// Read walks a journal's folder without opening it for writing, also while a
// collector runs, and calls visit for every good record, oldest first; it stops at
// visit's first error and returns it. Segments that are drained meanwhile are passed
// over. It cannot know which records of a broken journal were refused, and shows
// them.
func Read(dir string, visit func(Record) error) (Report, error) {
	var report Report
	from := disk{dir}
	numbers, err := from.list()
	if err != nil {
		return report, err
	}
	for i, number := range numbers {
		tail, torn, err := report.read(from, &segment{number: number}, visit)
		if err != nil {
			return report, err
		}
		if tail.Bytes == 0 {
			continue
		}
		if torn && i == len(numbers)-1 {
			report.Tail = tail
		} else {
			report.Damage = append(report.Damage, tail)
		}
	}
	return report, nil
}

func (report *Report) read(from disk, s *segment, visit func(Record) error) (tail Damage, torn bool, err error) {
	opened, size, err := from.open(s.name())
	if errors.Is(err, fs.ErrNotExist) {
		return Damage{}, false, nil
	}
	if err != nil {
		return Damage{}, false, err
	}
	defer opened.Close()
	s.size = size
	report.Segments++
	report.Bytes += size
	var refused error
	tail, torn, err = s.scan(opened, func(r Record) error {
		report.add(r)
		refused = visit(r)
		return refused
	}, func(d Damage) { report.Damage = append(report.Damage, d) })
	if err != nil && refused == nil {
		err = fmt.Errorf("%s: %w", s.name(), err)
	}
	return tail, torn, err
}

func (report *Report) add(r Record) {
	if report.Records == 0 || r.Time.Before(report.Oldest) {
		report.Oldest = r.Time
	}
	if r.Time.After(report.Newest) {
		report.Newest = r.Time
	}
	report.Records++
	report.Clicks += int64(r.Clicks)
}
