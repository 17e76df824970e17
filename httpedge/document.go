package httpedge

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// ETag returns a weak entity tag for content. A weak tag is the same for the content and
// its compressed form.
func ETag(content []byte) string {
	sum := sha256.Sum256(content)
	return `W/"` + hex.EncodeToString(sum[:8]) + `"`
}

// Gzip compresses content as much as possible, which is slow.
func Gzip(content []byte) []byte {
	var compressed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // fails only for an invalid level
	_, _ = w.Write(content)                                        // writing to memory cannot fail
	_ = w.Close()
	return compressed.Bytes()
}

// ETagMatches reports whether the client already has the version with this tag.
func ETagMatches(h http.Header, etag string) bool {
	for _, line := range h.Values("If-None-Match") {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}

// AcceptsGzip reports whether the client accepts a response that is compressed with gzip.
func AcceptsGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			value, weighted := strings.CutPrefix(strings.TrimSpace(strings.ToLower(weight)), "q=")
			q, err := strconv.ParseFloat(value, 64)
			return !weighted || err == nil && q > 0
		}
	}
	return false
}
