package show

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// shownEvent holds the members of an event that are printed.
type shownEvent struct {
	Actor  string                     `json:"actor"`
	Record map[string]json.RawMessage `json:"record"`
}

// maxValue is the length in bytes beyond which a value is truncated.
const maxValue = 200

// PrintRecord prints a record or another event. It shows the values, the hashes, and a list of the
// content. For each hash, it also shows the check and the first words of the text.
func PrintRecord(ctx context.Context, c *cli.Console, t *TextReader, r *wire.RecordAnswer, full bool) error {
	var e shownEvent
	if err := json.Unmarshal(r.Event, &e); err != nil {
		return fmt.Errorf("decoding the event in the server's response: %w", err)
	}
	state := ""
	if r.State != "" {
		state = ", " + cli.QuoteCell(string(r.State))
	}
	if _, err := fmt.Fprintf(c.Out, "Event %d: %s%s, recorded %s by %s\n", r.Seq, cli.QuoteCell(string(r.Kind)), state, cli.QuoteCell(string(r.Time)), cli.QuoteCell(e.Actor)); err != nil {
		return err
	}
	if r.RedactedBy != nil {
		if _, err := fmt.Fprintf(c.Out, "Its content was erased; see event %d for the reason.\n", *r.RedactedBy); err != nil {
			return err
		}
	}
	if err := printSection(c, memberRows(&e), cli.TextColumn("member"), cli.TextColumn("value")); err != nil {
		return err
	}
	if err := printSection(c, hashRows(ctx, t, r, full), cli.TextColumn("hash"), cli.TextColumn("value"), cli.TextColumn("check"), cli.TextColumn("text")); err != nil {
		return err
	}
	return printSection(c, contentRows(&e, full), cli.TextColumn("content"), cli.NumberColumn("bytes"), cli.TextColumn("sha256"))
}

// printSection prints a table after an empty line, unless it has no rows.
func printSection(c *cli.Console, rows [][]string, columns ...cli.Column) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(c.Out); err != nil {
		return err
	}
	return cli.NewTable(c.Out, columns...).WriteRows(rows)
}

// memberRows returns a table row for each non-null member of the record, except hashes and content.
func memberRows(e *shownEvent) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(e.Record)) {
		value := string(e.Record[name])
		if name == "hashes" || name == "content" || value == "null" {
			continue
		}
		var text string
		if json.Unmarshal(e.Record[name], &text) == nil {
			value = cli.QuoteCell(text)
		}
		if len(value) > maxValue {
			value = strings.ToValidUTF8(value[:maxValue], "") + "…"
		}
		rows = append(rows, []string{cli.QuoteCell(name), value})
	}
	return rows
}

// hashRows returns a table row for each hash of a record, with its check and the first words of the
// hashed text.
func hashRows(ctx context.Context, t *TextReader, r *wire.RecordAnswer, full bool) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(r.Hashes)) {
		value, check := r.Hashes.Get(name), cli.NoValueCell
		if found, checked := r.Checks[name]; checked {
			check = string(found.Result)
			if claimed := found.Claimed.Value; claimed != nil && found.Result == wire.CheckResultMismatch {
				check += ": claimed " + HashCell(*claimed, full)
			}
		}
		text := cli.NoValueCell
		if value == "" {
			value = cli.NoValueCell
		} else {
			if r.RedactedBy == nil && name != "ipc_id" {
				if words := t.Excerpt(ctx, name, value, r.Seq); words != "" {
					text = words[1:]
				}
			}
			value = HashCell(value, full)
		}
		rows = append(rows, []string{cli.QuoteCell(name), value, cli.QuoteCell(check), text})
	}
	return rows
}

// contentRows returns a table row for each piece of content listed in the record.
func contentRows(e *shownEvent, full bool) (rows [][]string) {
	var named map[string]struct {
		SHA256 string
		Size   uint64
	}
	if json.Unmarshal(e.Record["content"], &named) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		rows = append(rows, []string{cli.QuoteCell(name), cli.FormatUint(named[name].Size), HashCell(named[name].SHA256, full)})
	}
	return rows
}

// HashCell formats a hash as a table cell. It keeps only the first 12 digits unless full is set.
func HashCell(hash string, full bool) string {
	const digits = 12
	if full || len(hash) <= digits {
		return cli.QuoteCell(hash)
	}
	return cli.QuoteCell(hash[:digits]) + "…"
}
