package journal

import (
	"bytes"
	"errors"
	"io"
)

// Damage is a stretch of a segment in which there is no good record.
type Damage struct {
	Segment string // the file's name
	Offset  int64  // of its first byte
	Bytes   int64
	// Records is how many records were there, by their markers; at least 1.
	Records int
}

// scanner finds the good records of one segment. It holds a window of the file in
// memory, which is larger than the largest record.
type scanner struct {
	source io.ReaderAt
	// end is where the segment ends, at where the next record is expected.
	end, at int64
	// window is the bytes of the segment from windowAt on.
	window   []byte
	windowAt int64
}

// newScanner begins behind the segment's header, or at the first byte when that is
// damaged.
func newScanner(source io.ReaderAt, end int64) (*scanner, error) {
	s := &scanner{source: source, end: end, window: make([]byte, 0, min(2*maxRecord, end))}
	head, err := s.read(0, segmentHeader)
	if err != nil {
		return nil, err
	}
	sound, err := parseSegmentHeader(head)
	if sound {
		s.at = segmentHeader
	}
	return s, err
}

// next finds the next good record. damage is what lies before it, 0 bytes when
// nothing does. After the last record it returns io.EOF, and what lies behind that
// record. The record's batch is good until the next call.
func (s *scanner) next() (r Record, damage Damage, err error) {
	damage.Offset = s.at
	for s.at < s.end {
		head, err := s.read(s.at, recordHeader)
		if err != nil {
			return Record{}, damage, err
		}
		marked := bytes.HasPrefix(head, recordMarker)
		if length := s.whole(head); length > 0 {
			whole, err := s.read(s.at, length)
			if err != nil {
				return Record{}, damage, err
			}
			if r, ok := parseWhole(whole, length); ok {
				r.Offset = s.at
				damage.close(s.at)
				s.at += int64(length)
				return r, damage, nil
			}
		}
		if marked {
			damage.Records++
		}
		if err := s.seek(); err != nil {
			return Record{}, damage, err
		}
	}
	damage.close(s.end)
	return Record{}, damage, io.EOF
}

// torn says whether the stretch at the segment's end is one record, or the segment's
// header, that only its end is missing of: what a process leaves that is killed while
// it writes.
func (s *scanner) torn(tail Damage) (bool, error) {
	head, err := s.read(tail.Offset, recordHeader)
	if err != nil || tail.Bytes == 0 || tail.Records > 1 {
		return false, err
	}
	if tail.Offset == 0 {
		return len(head) < segmentHeader && bytes.HasPrefix(appendSegmentHeader(nil), head), nil
	}
	if len(head) < recordHeader {
		n := min(len(head), len(recordMarker))
		return bytes.Equal(head[:n], recordMarker[:n]), nil
	}
	length := recordLength(head)
	return length > 0 && tail.Offset+int64(length) > s.end, nil
}

// whole is the length of the record that head begins, 0 when there is no room for
// one.
func (s *scanner) whole(head []byte) int {
	if len(head) < recordHeader {
		return 0
	}
	length := recordLength(head)
	if s.at+int64(length) > s.end {
		return 0
	}
	return length
}

// parseWhole is parseRecord for what may have been read short.
func parseWhole(whole []byte, length int) (Record, bool) {
	if len(whole) < length {
		return Record{}, false
	}
	return parseRecord(whole[:length])
}

// close ends the stretch.
func (d *Damage) close(end int64) {
	d.Bytes = end - d.Offset
	if d.Bytes > 0 {
		d.Records = max(d.Records, 1)
	}
}

// seek moves to the next marker behind the current byte, or to the end.
func (s *scanner) seek() error {
	s.at++
	for s.at < s.end {
		rest, err := s.read(s.at, len(recordMarker))
		if err != nil {
			return err
		}
		if i := bytes.Index(rest, recordMarker); i >= 0 {
			s.at += int64(i)
			return nil
		}
		// The last bytes may be the beginning of a marker.
		s.at += int64(max(1, len(rest)-len(recordMarker)+1))
	}
	s.at = s.end
	return nil
}

// read returns the window from at on: n bytes or more, fewer only where the segment
// ends.
func (s *scanner) read(at int64, n int) ([]byte, error) {
	skip := at - s.windowAt
	have := int64(len(s.window))
	if skip >= 0 && skip <= have && (have-skip >= int64(n) || s.windowAt+have >= s.end) {
		return s.window[skip:], nil
	}
	kept := 0
	if skip >= 0 && skip < have {
		kept = copy(s.window, s.window[skip:])
	}
	want := int(min(int64(cap(s.window)), s.end-at))
	got, err := s.source.ReadAt(s.window[kept:want], at+int64(kept))
	s.window, s.windowAt = s.window[:kept+got], at
	if errors.Is(err, io.EOF) {
		s.end = min(s.end, at+int64(kept+got)) // cut shorter by somebody
		err = nil
	}
	return s.window, err
}
