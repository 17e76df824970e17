//go:build operations

package backup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/tributary-hq/tributary/storage/pgsession"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
)

// checkFailures causes failures of the backups and checks that the commands of the manual
// find them.
func (s *site) checkFailures() {
	t := s.t
	t.Helper()
	commands := s.manual.block(t, checks, 0)
	query, rest, _ := strings.Cut(commands, "\n")
	check, verify, _ := strings.Cut(rest, "\n")
	if !strings.Contains(query, "pg_stat_archiver") || !strings.Contains(check, " check") || !strings.Contains(verify, " verify ") {
		t.Fatalf("the commands are not the query, check and verify:\n%s", commands)
	}
	s.run(commands)

	// The repository is missing. Postgres keeps the segment and archives it later.
	away := s.repository() + "-away"
	if err := os.Rename(s.repository(), away); err != nil {
		t.Fatal(err)
	}
	s.sell("unarchived", 3, &shop.Partner{Promo: "SAVE-BOB"})
	segment := s.query("select pg_walfile_name(pg_switch_wal())")
	process.Await(t, "the query finds the failure", func() error {
		if _, err := s.try(query); err == nil {
			return errors.New("it succeeds")
		}
		return nil
	})
	if _, err := s.try(check); err == nil {
		t.Error("check succeeds without a repository")
	}
	waiting := filepath.Join(s.data(), "pg_wal", "archive_status", segment+".ready")
	if _, err := os.Stat(waiting); err != nil {
		t.Errorf("the segment %s does not wait: %v", segment, err)
	}
	if _, err := os.Stat(filepath.Join(s.data(), "pg_wal", segment)); err != nil {
		t.Errorf("the segment %s was deleted: %v", segment, err)
	}
	if err := os.Rename(away, s.repository()); err != nil {
		t.Fatal(err)
	}
	process.Await(t, "the segment is archived after the repair", func() error {
		_, err := s.try(query)
		return err
	})
	s.run(commands)
	unit := unitCommand(t, "tributary-backup-verify.service", "")
	s.run(unit)

	damaged := s.file("home/damaged")
	s.run("cp -a " + s.repository() + " " + damaged)
	s.damage(filepath.Join(damaged, "backup"))
	for _, command := range []string{verify, unit} {
		if out, err := s.try(command, "PGBACKREST_REPO1_PATH="+damaged); err == nil || !strings.Contains(out, "status: error") {
			t.Errorf("%s\nwith a damaged file ends with %v, want an error:\n%s", command, err, out)
		}
	}
	if out, err := s.try("pgbackrest --stanza=tributary --pg1-path="+s.file("elsewhere")+" restore", "PGBACKREST_REPO1_CIPHER_PASS=another"); err == nil {
		t.Errorf("pgBackRest restores with a wrong passphrase:\n%s", out)
	}
}

// damage changes some bytes in the largest file of a folder.
func (s *site) damage(folder string) {
	s.t.Helper()
	var largest string
	var size int64
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := os.OpenFile(largest, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteAt([]byte("damaged bytes"), size/2); err != nil {
		s.t.Fatal(err)
	}
}

// checkStandby checks that commands can read from a standby, which supports no
// notifications. The cluster is a standby afterwards.
func (s *site) checkStandby() {
	s.t.Helper()
	s.running.Interrupt(s.t)
	s.write("data/standby.signal", "")
	s.start()
	process.Await(s.t, "the standby accepts connections", func() error {
		out, err := s.try("psql -AXqt -c 'select pg_is_in_recovery()'")
		if err == nil && out != "t" {
			err = errors.New(out)
		}
		return err
	})
	if err := pgsession.Check(s.t.Context(), s.url("tributary")); err != nil {
		s.t.Errorf("the check for connection poolers on a standby returns %v", err)
	}
}

// wrongKeys are the keys of another installation.
var wrongKeys = []string{"TRIBUTARY_HASH_KEY=" + wrongKey, "TRIBUTARY_ENCRYPTION_KEYS=k:" + wrongKey}

var wrongKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32))

// checkKeys checks that a core with wrong keys neither starts nor repeats erasures, as after
// a restore with the settings of another installation.
func (s *site) checkKeys() {
	t := s.t
	t.Helper()
	for _, setting := range wrongKeys {
		name, _, _ := strings.Cut(setting, "=")
		core := process.Start(t, s.With(setting), process.Binary(t, "core"), "serve")
		core.WantExit(t, name+": ")
	}
	replay := process.Start(t, s.With(wrongKeys...), process.Binary(t, "core"), "erasures", "replay", s.erasureLog)
	replay.WantExit(t, "TRIBUTARY_HASH_KEY: ")
}
