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

// shownEvent is the part of an event that is shown.
type shownEvent struct {
	Actor  string                     `json:"actor"`
	Record map[string]json.RawMessage `json:"record"`
}

// maxValue is the maximum length of a value that is shown, in bytes.
const maxValue = 200

// Record prints a record or another event: its values, its hashes with their checks, and its
// content with the first words.
func Record(ctx context.Context, c *cli.Console, t *Texts, r *wire.RecordRow, full bool) error {
	var e shownEvent
	if err := json.Unmarshal(r.Event, &e); err != nil {
		return fmt.Errorf("decoding the event in the server's response: %w", err)
	}
	state := ""
	if r.State != "" {
		state = ", " + cli.Plain(string(r.State))
	}
	if _, err := fmt.Fprintf(c.Out, "Event %d: %s%s, recorded %s by %s\n", r.Seq, cli.Plain(string(r.Kind)), state, cli.Plain(string(r.Time)), cli.Plain(e.Actor)); err != nil {
		return err
	}
	if r.RedactedBy != nil {
		if _, err := fmt.Fprintf(c.Out, "Its content was erased: event %d says why.\n", *r.RedactedBy); err != nil {
			return err
		}
	}
	if err := section(c, members(&e), cli.TextColumn("member"), cli.TextColumn("value")); err != nil {
		return err
	}
	if err := section(c, hashes(ctx, t, r, full), cli.TextColumn("hash"), cli.TextColumn("value"), cli.TextColumn("check"), cli.TextColumn("text")); err != nil {
		return err
	}
	return section(c, pieces(&e, full), cli.TextColumn("content"), cli.NumberColumn("bytes"), cli.TextColumn("sha256"))
}

// section prints a table after an empty line, unless it has no rows.
func section(c *cli.Console, rows [][]string, columns ...cli.Column) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(c.Out); err != nil {
		return err
	}
	return cli.NewTable(c.Out, columns...).Write(rows)
}

// members returns a table row for each member of the record that is not null, except hashes and
// content.
func members(e *shownEvent) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(e.Record)) {
		value := string(e.Record[name])
		if name == "hashes" || name == "content" || value == "null" {
			continue
		}
		var text string
		if json.Unmarshal(e.Record[name], &text) == nil {
			value = cli.Plain(text)
		}
		if len(value) > maxValue {
			value = strings.ToValidUTF8(value[:maxValue], "") + "…"
		}
		rows = append(rows, []string{cli.Plain(name), value})
	}
	return rows
}

// hashes returns a table row for each hash of a record, with its check and the first words of its
// text.
func hashes(ctx context.Context, t *Texts, r *wire.RecordRow, full bool) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(r.Hashes)) {
		value, check := r.Hashes.Get(name), cli.None
		if found, checked := r.Checks[name]; checked {
			check = string(found.Result)
			if claimed := found.Claimed.Value; claimed != nil && found.Result == wire.Mismatch {
				check += ": claimed " + Hash(*claimed, full)
			}
		}
		text := cli.None
		if value == "" {
			value = cli.None
		} else {
			if r.RedactedBy == nil && name != "ipc_id" {
				if words := t.Of(ctx, name, value, r.Seq); words != "" {
					text = words[1:]
				}
			}
			value = Hash(value, full)
		}
		rows = append(rows, []string{cli.Plain(name), value, cli.Plain(check), text})
	}
	return rows
}

// pieces returns a table row for each piece of content that a record names.
func pieces(e *shownEvent, full bool) (rows [][]string) {
	var named map[string]struct {
		SHA256 string
		Size   uint64
	}
	if json.Unmarshal(e.Record["content"], &named) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		rows = append(rows, []string{cli.Plain(name), cli.Decimal(named[name].Size), Hash(named[name].SHA256, full)})
	}
	return rows
}

// Hash returns a hash as a table cell: its first 12 digits unless full is set.
func Hash(hash string, full bool) string {
	const digits = 12
	if full || len(hash) <= digits {
		return cli.Plain(hash)
	}
	return cli.Plain(hash[:digits]) + "…"
}
