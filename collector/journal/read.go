package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Record is one batch in a segment.
type Record struct {
	Segment string    // file name of the segment
	Offset  int64     // offset of the record's header in the file
	Time    time.Time // time of writing
	Clicks  int
	// Batch is a marshalled edge.v1.ClickBatch. A function that gets the record must not
	// use Batch after it has returned.
	Batch []byte
}

// Report is the summary that Read returns.
type Report struct {
	Segments       int
	Bytes          int64
	Records        int64
	Clicks         int64
	Oldest, Newest time.Time // zero if there are no records
	// Damage lists the ranges without a good record.
	Damage []Damage
	// Tail is an incomplete record at the end of the newest segment. A collector is
	// writing the record, or was killed while it wrote the record. Tail.Bytes is 0 if
	// there is no such record.
	Tail Damage
}

// Read reads the folder of a journal and calls visit for every good record, oldest first.
// It stops at the first error of visit and returns it. Read changes nothing and can run
// while a collector uses the journal. It skips segments that are drained while it runs.
// It also visits records whose Append failed, because the file does not show which
// records were acknowledged.
func Read(dir string, visit func(Record) error) (Report, error) {
	var report Report
	d := disk{dir}
	numbers, err := d.list()
	if err != nil {
		return report, err
	}
	for i, number := range numbers {
		tail, torn, err := report.read(d, &segment{number: number}, visit)
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

func (report *Report) read(d disk, s *segment, visit func(Record) error) (tail Damage, torn bool, err error) {
	opened, size, err := d.open(s.name())
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
	var visitErr error
	tail, torn, err = s.scan(opened, func(r Record) error {
		report.add(r)
		visitErr = visit(r)
		return visitErr
	}, func(d Damage) { report.Damage = append(report.Damage, d) })
	if err != nil && visitErr == nil {
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
