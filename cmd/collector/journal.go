package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

var errDamaged = errors.New("the journal is damaged")

// runJournal runs "collector journal" with the given arguments. It only reads the
// journal, so a collector may use the same journal at the same time. It returns errUsage
// for invalid arguments and errDamaged if the journal has damaged records.
func runJournal(args []string, out, notes io.Writer) error {
	if len(args) == 0 || len(args) > 2 {
		return errUsage
	}
	var command func(dir string, out, notes io.Writer) error
	switch args[0] {
	case "inspect":
		command = inspect
	case "export":
		command = export
	default:
		return errUsage
	}
	if len(args) == 2 {
		return command(args[1], out, notes)
	}
	cfg, err := settings.Read[struct {
		Dir string `env:"TRIBUTARY_JOURNAL_DIR"`
	}]()
	if err != nil {
		return err
	}
	if cfg.Dir == "" {
		return errors.New("the folder of the journal is missing: pass it as an argument or set TRIBUTARY_JOURNAL_DIR")
	}
	return command(cfg.Dir, out, notes)
}

func inspect(dir string, out, _ io.Writer) error {
	report, err := journal.Read(dir, func(journal.Record) error { return nil })
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(out)
	fmt.Fprintf(lines, "segments  %d\nbytes     %d\nrecords   %d\nclicks    %d\n", report.Segments, report.Bytes, report.Records, report.Clicks)
	if report.Records > 0 {
		fmt.Fprintf(lines, "oldest    %s\nnewest    %s\n", report.Oldest.Format(time.RFC3339Nano), report.Newest.Format(time.RFC3339Nano))
	}
	fmt.Fprintf(lines, "damaged   %d\n", damagedRecords(report))
	for _, d := range report.Damage {
		fmt.Fprintf(lines, "  %s: %d bytes at offset %d, %d records\n", d.Segment, d.Bytes, d.Offset, d.Records)
	}
	if tail := report.Tail; tail.Bytes > 0 {
		fmt.Fprintf(lines, "unfinished write of %d bytes at the end of %s (this is not damage)\n", tail.Bytes, tail.Segment)
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if len(report.Damage) > 0 {
		return errDamaged
	}
	return nil
}

func damagedRecords(report journal.Report) (n int) {
	for _, d := range report.Damage {
		n += d.Records
	}
	return n
}

func export(dir string, out, notes io.Writer) error {
	lines := bufio.NewWriter(out)
	var clicks, invalid int
	report, err := journal.Read(dir, func(r journal.Record) error {
		var batch edgev1.ClickBatch
		if err := proto.Unmarshal(r.Batch, &batch); err != nil {
			invalid++
			fmt.Fprintf(notes, "%s: the record at offset %d cannot be decoded: %v\n", r.Segment, r.Offset, err)
			return nil
		}
		for _, click := range batch.Clicks {
			line, err := clickLine(click)
			if err != nil {
				return err
			}
			if _, err := lines.Write(append(line, '\n')); err != nil {
				return err
			}
			clicks++
		}
		return nil
	})
	if err := errors.Join(err, lines.Flush()); err != nil {
		return err
	}
	damaged := damagedRecords(report) + invalid
	fmt.Fprintf(notes, "%d clicks in %d records, %d damaged records\n", clicks, report.Records, damaged)
	if damaged > 0 {
		return errDamaged
	}
	return nil
}

// clickLine returns a click as JSON. The keys are the names of the proto fields. Ids are
// formatted as UUIDs. Hashes, and ids that are not valid UUIDs, are formatted in base64.
func clickLine(click *edgev1.Click) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(click)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for name, value := range map[string][]byte{
		"id": click.Id, "workspace_id": click.WorkspaceId, "program_id": click.ProgramId,
		"participant_id": click.ParticipantId, "link_id": click.LinkId,
	} {
		if id, err := uuid.FromBytes(value); err == nil {
			fields[name] = json.RawMessage(`"` + id.String() + `"`)
		}
	}
	return json.Marshal(fields)
}
