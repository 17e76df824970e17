package journal

import (
	"bytes"
	"errors"
	"io"
)

// Damage is a range of a segment without a good record.
type Damage struct {
	Segment string // file name of the segment
	Offset  int64  // offset of the first damaged byte
	Bytes   int64
	// Records is the number of damaged records. It counts the record markers in the range
	// and is at least 1.
	Records int
}

// scanner finds the good records of one segment. It keeps a part of the file in memory,
// the window, which has space for the largest record.
type scanner struct {
	source io.ReaderAt
	// end is the offset at which the segment ends.
	end int64
	// offset is the position in the segment at which the next record is expected.
	offset int64
	// window contains the bytes of the segment that begin at windowOffset.
	window       []byte
	windowOffset int64
}

// newScanner returns a scanner that starts after the header of the segment, or at the
// first byte if the header is damaged.
func newScanner(source io.ReaderAt, end int64) (*scanner, error) {
	s := &scanner{source: source, end: end, window: make([]byte, 0, min(2*maxRecord, end))}
	head, err := s.read(0, segmentHeader)
	if err != nil {
		return nil, err
	}
	intact, err := parseSegmentHeader(head)
	if intact {
		s.offset = segmentHeader
	}
	return s, err
}

// next returns the next good record and the damage before the record. damage.Bytes is 0
// if there is no damage. If there are no more good records, next returns io.EOF and the
// damage at the end of the segment. The batch of the record is valid until the next call.
func (s *scanner) next() (r Record, damage Damage, err error) {
	damage.Offset = s.offset
	for s.offset < s.end {
		head, err := s.read(s.offset, recordHeader)
		if err != nil {
			return Record{}, damage, err
		}
		hasMarker := bytes.HasPrefix(head, recordMarker)
		if length := s.completeLength(head); length > 0 {
			window, err := s.read(s.offset, length)
			if err != nil {
				return Record{}, damage, err
			}
			if r, ok := parseRecordIn(window, length); ok {
				r.Offset = s.offset
				damage.close(s.offset)
				s.offset += int64(length)
				return r, damage, nil
			}
		}
		if hasMarker {
			damage.Records++
		}
		if err := s.seek(); err != nil {
			return Record{}, damage, err
		}
	}
	damage.close(s.end)
	return Record{}, damage, io.EOF
}

// isTorn reports whether tail, the damage at the end of the segment, is a single
// incomplete record or an incomplete segment header. A process that is killed during a
// write leaves such a tail.
func (s *scanner) isTorn(tail Damage) (bool, error) {
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

// completeLength returns the length of the record that begins with head. It returns 0 if
// the header is not valid or the record does not fit into the segment.
func (s *scanner) completeLength(head []byte) int {
	if len(head) < recordHeader {
		return 0
	}
	length := recordLength(head)
	if s.offset+int64(length) > s.end {
		return 0
	}
	return length
}

// parseRecordIn parses the record of the given length at the start of window. It returns
// false if window is too short, because the file was truncated while it was read.
func parseRecordIn(window []byte, length int) (Record, bool) {
	if len(window) < length {
		return Record{}, false
	}
	return parseRecord(window[:length])
}

// close sets the end of the damaged range.
func (d *Damage) close(end int64) {
	d.Bytes = end - d.Offset
	if d.Bytes > 0 {
		d.Records = max(d.Records, 1)
	}
}

// seek moves to the next marker after the current byte, or to the end.
func (s *scanner) seek() error {
	s.offset++
	for s.offset < s.end {
		rest, err := s.read(s.offset, len(recordMarker))
		if err != nil {
			return err
		}
		if i := bytes.Index(rest, recordMarker); i >= 0 {
			s.offset += int64(i)
			return nil
		}
		// Keep the last bytes, because they may be the beginning of a marker.
		s.offset += int64(max(1, len(rest)-len(recordMarker)+1))
	}
	s.offset = s.end
	return nil
}

// read returns the bytes of the segment from the given offset to the end of the window.
// It moves the window, if necessary, so that it returns at least n bytes. At the end of
// the segment, it may return fewer.
func (s *scanner) read(offset int64, n int) ([]byte, error) {
	skip := offset - s.windowOffset
	size := int64(len(s.window))
	if skip >= 0 && skip <= size && (size-skip >= int64(n) || s.windowOffset+size >= s.end) {
		return s.window[skip:], nil
	}
	kept := 0
	if skip >= 0 && skip < size {
		kept = copy(s.window, s.window[skip:])
	}
	newSize := int(min(int64(cap(s.window)), s.end-offset))
	added, err := s.source.ReadAt(s.window[kept:newSize], offset+int64(kept))
	s.window, s.windowOffset = s.window[:kept+added], offset
	if errors.Is(err, io.EOF) {
		s.end = min(s.end, offset+int64(kept+added)) // another process truncated the file
		err = nil
	}
	return s.window, err
}
