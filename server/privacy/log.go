package privacy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	erasures "github.com/tributary-hq/tributary/storage/postgres/privacy"
)

// Log is the erasure log: a file outside the database.
type Log interface {
	// Append writes an entry. When it returns nil, the entry is on disk.
	Append(entry privacy.ErasureLogEntry) error
}

// FileLog is an erasure log in a file: one JSON object per line. Several processes can append
// to the same file on one machine.
type FileLog struct {
	mu   sync.Mutex
	file *os.File
}

// OpenLog opens the erasure log at path, or creates it. Only the user of the process can read
// the file.
func OpenLog(path string) (*FileLog, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the path is a setting
	if err != nil {
		return nil, fmt.Errorf("erasure log: %w", err)
	}
	return &FileLog{file: file}, nil
}

// Append writes an entry and waits until it is on disk.
func (l *FileLog) Append(entry privacy.ErasureLogEntry) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A crash can leave an incomplete line without a line break. Each entry therefore also
	// starts with a line break, so that it does not continue such a line.
	if _, err := l.file.Write(append(append([]byte{'\n'}, line...), '\n')); err != nil {
		return fmt.Errorf("erasure log: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("erasure log: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *FileLog) Close() error { return l.file.Close() }

// NoLog is the erasure log of a deployment that has none.
type NoLog struct{}

// Append does nothing.
func (NoLog) Append(privacy.ErasureLogEntry) error { return nil }

// ReadLog returns the entries of an erasure log, and the number of lines that are not valid,
// for example because a crash has cut them off.
func ReadLog(r io.Reader) (entries []privacy.ErasureLogEntry, invalid int, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var entry privacy.ErasureLogEntry
		if json.Unmarshal(lines.Bytes(), &entry) != nil || !entry.Valid() {
			invalid++
			continue
		}
		entries = append(entries, entry)
	}
	return entries, invalid, lines.Err()
}

// Replay erases the subject of an entry of the erasure log again, after a restore of a backup that
// is older than the erasure. It does not repeat the checks that can refuse an erasure, such as for
// open payouts, because the subject was erased before. It returns the id of the erasure whose job
// the caller must run, or false if the database has no such subject or the subject is erased.
func (s *Service) Replay(ctx context.Context, entry privacy.ErasureLogEntry) (id privacy.ErasureID, replayed bool, err error) {
	subject, err := uuid.Parse(entry.Subject)
	if err != nil {
		return id, false, fmt.Errorf("subject: %w", err)
	}
	erasure := privacy.NewErasure(privacy.ErasureSubject(entry.Kind), subject, entry.At.UTC())
	erasure.Workspace = entry.Workspace
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		replayed = false
		switch erasure.Subject {
		case privacy.EraseParticipant:
			p, err := participants.LockByID(ctx, tx, *entry.Workspace, affiliate.ParticipantID{UUID: subject})
			if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
				return nil
			}
			if err != nil || p.ErasedAt != nil {
				return err
			}
			replayed, erasure.Mode = true, &p.Mode
			return s.eraseParticipant(ctx, tx, erasure, p, affiliate.System)
		case privacy.ErasePartner:
			account, found, err := erasures.LockAccount(ctx, tx, affiliate.UserID{UUID: subject})
			if err != nil || !found || account.ErasedAt != nil {
				return err
			}
			participations, err := participants.LockAllOfPartner(ctx, tx, account.ID)
			if err != nil {
				return err
			}
			replayed = true
			return s.erasePartner(ctx, tx, erasure, account, participations)
		case privacy.EraseWorkspace:
			workspace, found, err := erasures.LockWorkspaceForErasure(ctx, tx, affiliate.WorkspaceID{UUID: subject})
			if err != nil || !found || workspace.ErasedAt != nil {
				return err
			}
			replayed = true
			return s.eraseWorkspace(ctx, tx, erasure, workspace, affiliate.System)
		}
		return fmt.Errorf("unknown kind %q", entry.Kind)
	})
	if err != nil || !replayed {
		return id, false, err
	}
	return erasure.ID, true, erasures.MarkLogged(ctx, s.DB, erasure.ID, s.Now())
}
