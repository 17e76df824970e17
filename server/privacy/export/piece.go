package export

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"slices"

	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/server"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
)

// A bundle is stored in pieces. Each piece is a number of deflate blocks (RFC 1951) that end
// at a byte boundary and refer to no earlier piece. A gzip header, the pieces in their order,
// an empty last block and a gzip trailer are one gzip stream (RFC 1952). Therefore the pieces
// can be written in different processes, and each can be decompressed on its own.

const (
	// saveSize is the size at which the text in memory is stored, usually as one piece.
	saveSize = 512 << 10
	// pieceSize is the largest size of a piece before compression. With encryption, and
	// without any effect of the compression, a piece is smaller than 1 MiB.
	pieceSize = 960 << 10
)

var (
	// gzipHeader is the header of a gzip stream without a name and a time.
	gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}
	// lastBlock is an empty deflate block that is marked as the last one.
	lastBlock = []byte{3, 0}
)

// gzipTrailer returns the trailer of the gzip stream of a complete bundle.
func gzipTrailer(p privacy.ExportProgress) []byte {
	trailer := binary.LittleEndian.AppendUint32(slices.Clone(lastBlock), p.Checksum)
	return binary.LittleEndian.AppendUint32(trailer, uint32(p.Bytes)) //nolint:gosec // modulo 2^32
}

// pieces has the text that is not stored yet.
type pieces struct{ buffer bytes.Buffer }

func (p *pieces) size() int { return p.buffer.Len() }

func (p *pieces) text(s string) { p.buffer.WriteString(s) }

// record writes a record as a JSON object.
func (p *pieces) record(record exports.Record) error {
	encoder := json.NewEncoder(&p.buffer)
	encoder.SetEscapeHTML(false)
	p.text("{")
	for i, field := range record {
		if i > 0 {
			p.text(",")
		}
		p.text(`"` + field.Name + `":`)
		if err := encoder.Encode(field.Value); err != nil {
			return err
		}
		p.buffer.Truncate(p.buffer.Len() - 1) // the line break
	}
	p.text("}")
	return nil
}

// seal returns the text as compressed and encrypted pieces, and adds them to the progress.
// The buffer is then empty.
func (p *pieces) seal(progress *privacy.ExportProgress, with server.Sealer, export privacy.ExportID) [][]byte {
	var chunks [][]byte
	for raw := range slices.Chunk(p.buffer.Bytes(), pieceSize) {
		chunks = append(chunks, with.Seal(compress(raw), pieceName(export, progress.Chunks)))
		progress.Chunks++
		progress.Bytes += int64(len(raw))
		progress.Checksum = crc32.Update(progress.Checksum, crc32.IEEETable, raw)
	}
	p.buffer.Reset()
	return chunks
}

func compress(raw []byte) []byte {
	var compressed bytes.Buffer
	w, _ := flate.NewWriter(&compressed, flate.BestSpeed) // fails only for an unknown level
	_, _ = w.Write(raw)                                   // a bytes.Buffer accepts everything
	_ = w.Flush()
	return compressed.Bytes()
}

// decompress returns the text of a piece.
func decompress(compressed []byte) ([]byte, error) {
	return io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(compressed), bytes.NewReader(lastBlock))))
}

// pieceName is the additional data of the encryption of a piece, so that a piece cannot be
// exchanged for another one.
func pieceName(export privacy.ExportID, number int) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(export.UUID[:]), uint64(number)) //nolint:gosec // not negative
}
