package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/landing/store"
)

const defaultLimit = 100

// printContacts prints contact messages, one line of JSON each.
func printContacts(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("contacts", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	limit := flags.Int("limit", defaultLimit, "")
	var before uuid.UUID
	flags.Func("before", "", func(text string) (err error) {
		before, err = uuid.Parse(text)
		return err
	})
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *limit < 1 {
		return errUsage
	}
	cfg, err := settings.Read[settings.LandingDatabase]()
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, cfg.DatabaseURL(), nil)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer s.Close()
	messages, err := s.ContactMessages(ctx, before, *limit)
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(out)
	for _, m := range messages {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		for _, r := range string(text) {
			writeRune(lines, r)
		}
		_ = lines.WriteByte('\n') // Flush returns the error
	}
	return lines.Flush()
}

// writeRune writes a character of a line of JSON. It escapes the control characters that
// json.Marshal does not escape, because a terminal could interpret them.
func writeRune(w *bufio.Writer, r rune) {
	if r >= 0x7f && r <= 0x9f {
		fmt.Fprintf(w, `\u%04x`, r)
		return
	}
	_, _ = w.WriteRune(r)
}
