package directory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	// saveInterval is the time between two writes of the file with the links.
	saveInterval = time.Minute
	// maxLinkFile is the maximum size of the file in bytes. If the links need more, the
	// oldest ones are left out.
	maxLinkFile = 16 << 20
)

// fileLink is a line of the file with the links, in JSON. The newest link is in the first
// line.
type fileLink struct {
	Key string `json:"key"`
	// Read is the time at which the entry was read from Redis.
	Read time.Time `json:"read"`
	// Entry is a marshalled edge.v1.LinkEntry.
	Entry []byte `json:"entry"`
}

// SaveLinks writes the last known links to a file every minute and when ctx ends, if they
// have changed. Another process must not use the same path.
func (r *Reader) SaveLinks(ctx context.Context, path string, log *slog.Logger) {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	var saved uint64 // the number of changes that the file contains
	failed := false
	for last := false; !last; {
		select {
		case <-ctx.Done():
			last = true
		case <-ticker.C:
		}
		links, changes := r.links.save()
		if changes == saved {
			continue
		}
		err := writeLinks(path, links)
		if err != nil && !failed {
			log.LogAttrs(ctx, slog.LevelWarn, "the copy of the short links cannot be written", slog.Any("error", err))
		}
		if failed = err != nil; !failed {
			saved = changes
		}
	}
}

// writeLinks replaces the file. A crash leaves the old or the new file.
func writeLinks(path string, links []savedEntry) error {
	var content bytes.Buffer
	for _, link := range links {
		entry, err := proto.Marshal(link.value.(*edgev1.LinkEntry))
		if err != nil {
			return err
		}
		line, err := json.Marshal(fileLink{link.key, link.read, entry})
		if err != nil {
			return err
		}
		if content.Len()+len(line) >= maxLinkFile {
			break
		}
		content.Write(append(line, '\n'))
	}
	temporary := path + ".tmp"
	if err := writeFile(temporary, content.Bytes()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return os.Rename(temporary, path)
}

func writeFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// LoadLinks reads the file that SaveLinks of an earlier process has written. The links are
// used only while Redis cannot be read. It is no error if the file does not exist.
func (r *Reader) LoadLinks(path string) error {
	file, err := os.Open(path) // #nosec G304 -- a path from the settings
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var links []savedEntry
	decoder := json.NewDecoder(io.LimitReader(file, maxLinkFile))
	for {
		var line fileLink
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("line %d of %s: %w", len(links)+1, path, err)
		}
		entry := &edgev1.LinkEntry{}
		if err := proto.Unmarshal(line.Entry, entry); err != nil {
			return fmt.Errorf("line %d of %s: %w", len(links)+1, path, err)
		}
		links = append(links, savedEntry{line.Key, entry, line.Read})
	}
	r.links.restore(links)
	return nil
}
