package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

const (
	segmentHeader = 16
	recordHeader  = 24
	formatVersion = 1
	// maxBatch is the maximum size of a payload. It is a little larger than the largest
	// batch of the collector, 256 KiB.
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

// parseSegmentHeader reports whether the first bytes of a segment are an intact header.
// It returns errVersion if the header is intact and has another version.
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
