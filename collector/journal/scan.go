package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
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
		if length := recordLength(head); length > 0 && s.offset+int64(length) <= s.end {
			window, err := s.read(s.offset, length)
			if err != nil {
				return Record{}, damage, err
			}
			var ok bool
			if len(window) >= length { // otherwise the file was truncated while it was read
				r, ok = parseRecord(window[:length])
			}
			if ok {
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
	// Tail is an incomplete record or segment header at the end of the newest segment. A
	// collector is writing it, or was killed while it wrote it. Tail.Bytes is 0 if there
	// is none.
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

const (
	segmentHeader = 16
	recordHeader  = 24
	formatVersion = 1
	// maxBatch is the maximum size of a batch in a record. It is a little larger than the
	// largest batch of the collector (batchBytes).
	maxBatch  = 272 << 10
	maxRecord = recordHeader + maxBatch

	suffix        = ".clicks"
	damagedSuffix = ".damaged"
	nameDigits    = 16
)

var (
	segmentMagic = []byte("tribclks")
	recordMarker = []byte{0xF9, 0xFB, 0xFD, 0xFE}
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

var errVersion = errors.New("the segment has another format version")

func appendSegmentHeader(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// parseSegmentHeader reports whether the first bytes of a segment are an intact header of this
// format. It returns errVersion if they are an intact header of another version.
func parseSegmentHeader(head []byte) (intact bool, err error) {
	if len(head) < segmentHeader || !bytes.HasPrefix(head, segmentMagic) ||
		binary.LittleEndian.Uint32(head[12:]) != crc32.Checksum(head[:12], castagnoli) {
		return false, nil
	}
	if version := binary.LittleEndian.Uint32(head[8:]); version != formatVersion {
		return false, fmt.Errorf("%w: %d; this program reads version %d", errVersion, version, formatVersion)
	}
	return true, nil
}

// makeHeader returns the record header for a batch of n clicks.
func makeHeader(batch []byte, n int, at time.Time) (head [recordHeader]byte) {
	copy(head[:], recordMarker)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(batch))) //nolint:gosec // at most maxBatch
	binary.LittleEndian.PutUint32(head[12:], uint32(n))         //nolint:gosec // at most len(batch)
	binary.LittleEndian.PutUint64(head[16:], uint64(at.UnixMilli()))
	sum := crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, batch)
	binary.LittleEndian.PutUint32(head[4:], sum)
	return head
}

// recordLength reads the header of a record and returns the length of the whole record,
// including the header. It returns 0 if the header is not valid.
func recordLength(head []byte) int {
	if len(head) < recordHeader || !bytes.HasPrefix(head, recordMarker) {
		return 0
	}
	length := binary.LittleEndian.Uint32(head[8:])
	if length == 0 || length > maxBatch || binary.LittleEndian.Uint32(head[12:]) == 0 {
		return 0
	}
	return recordHeader + int(length)
}

// parseRecord parses a complete record. ok is false if the checksum is wrong.
func parseRecord(whole []byte) (r Record, ok bool) {
	if binary.LittleEndian.Uint32(whole[4:]) != crc32.Checksum(whole[8:], castagnoli) {
		return Record{}, false
	}
	return Record{
		Time:   time.UnixMilli(int64(binary.LittleEndian.Uint64(whole[16:]))).UTC(), //nolint:gosec // makeHeader wrote an int64
		Clicks: int(binary.LittleEndian.Uint32(whole[12:])),
		Batch:  whole[recordHeader:],
	}, true
}

func segmentName(number uint64) string {
	return fmt.Sprintf("%0*d%s", nameDigits, number, suffix)
}

// damagedName returns the new name of a segment without a good record. i distinguishes
// damaged segments with the same number and begins at 1.
func damagedName(number uint64, i int) string {
	if i == 1 {
		return fmt.Sprintf("%0*d%s", nameDigits, number, damagedSuffix)
	}
	return fmt.Sprintf("%0*d.%d%s", nameDigits, number, i, damagedSuffix)
}

func segmentNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameDigits {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}
