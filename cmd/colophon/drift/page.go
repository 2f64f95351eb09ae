package drift

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/show"
	"colophon/ledger/record/fields"
)

// followCursor adds the cursor of the next page to query, as the parameter with the given name. It
// returns an error if the cursors form a cycle.
func followCursor(trail *client.CursorCycleDetector, query url.Values, name, cursor string) error {
	if trail.ClosesCycle(cursor) {
		return errors.New("the server's response is malformed: the page cursors form a cycle")
	}
	query.Set(name, cursor)
	return nil
}

// list fetches the rows of a query and prints them as a table. It prints the first page that has
// rows or, with --all, every page. empty is the message for a query without rows; it may be "".
func list[R any](d *commands, command *cobra.Command, path string, query url.Values, t *cli.Table, empty string, cells func(R) []string) error {
	first, text, err := fetch[wire.RunPage[R]](d, command, path, query)
	if err != nil {
		return err
	}
	query.Del("as_of") // the cursor contains the tree size
	next, err := pages(d, command, path, query, "cursor", first, text, func(p *wire.RunPage[R]) ([]R, string) { return p.Rows, p.Next }, t, cells)
	if err == nil {
		d.conclude(command, t, next, empty, first.Incomplete)
	}
	return err
}

// pages prints the rows of answer and of the pages that follow it as one table. Like list, it stops
// after the first page that has rows unless --all is set. With --json, it prints the JSON of each
// answer instead. text is the JSON of answer. The function page returns the rows of an answer and
// the cursor of the next page, and cursor is the name of the query parameter for that cursor. pages
// returns the next cursor of the last answer that it printed, or "" if there are no more pages.
func pages[A, R any](
	d *commands, command *cobra.Command, path string, query url.Values, cursor string,
	answer *A, text []byte, page func(*A) ([]R, string), t *cli.Table, cells func(R) []string,
) (string, error) {
	defer query.Del(cursor)
	for trail := new(client.CursorCycleDetector); ; {
		found, next := page(answer)
		if len(found) > 0 || next == "" {
			if err := printPage(d, t, found, text, cells); err != nil || next == "" || !d.all {
				return next, err
			}
		}
		err := followCursor(trail, query, cursor, next)
		if err != nil {
			return "", err
		}
		if answer, text, err = fetch[A](d, command, path, query); err != nil {
			return "", err
		}
	}
}

// printPage prints the rows of a page or, with --json, the whole answer that contains them.
func printPage[R any](d *commands, t *cli.Table, page []R, answer []byte, cells func(R) []string) error {
	if d.json {
		t.RowCount += len(page)
		return cli.PrintJSONLine(d.Out, answer)
	}
	rows := make([][]string, len(page))
	for i, r := range page {
		rows[i] = cells(r)
	}
	return t.WriteRows(rows)
}

// forEachRow calls use with each row of a list, over all pages, until use returns false.
func forEachRow[R any](d *commands, command *cobra.Command, path string, query url.Values, use func(R) bool) error {
	for trail := new(client.CursorCycleDetector); ; {
		page, _, err := fetch[wire.Page[R]](d, command, path, query)
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			if !use(row) {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Del("as_of") // the cursor contains the tree size
		if err := followCursor(trail, query, "cursor", page.Next); err != nil {
			return err
		}
	}
}

// conclude prints a hint if there are more pages. If no rows were printed, it prints the message in
// empty. next is the cursor of the next page, or "" on the last page. incomplete names the parts,
// such as the output, that some IPC records lack, which can explain why there are no rows.
func (d *commands) conclude(command *cobra.Command, t *cli.Table, next, empty string, incomplete []string) {
	switch {
	case d.json:
	case next != "":
		d.PrintErrf("there might be more rows; use --all to print them")
	case t.RowCount == 0 && empty != "":
		d.PrintErrf("%s", empty)
		if len(incomplete) > 0 {
			d.sayIncomplete(command, incomplete)
		}
	}
}

// sayIncomplete prints how many IPC records lack each of the given parts. If parts is nil, it
// covers every part that is missing from any record.
func (d *commands) sayIncomplete(command *cobra.Command, parts []string) {
	counts := make(map[string]uint64)
	if !command.Flags().Changed("as-of") { // the server has these counts only for the current size
		if stats, _, err := fetch[wire.Stats](d, command, "/stats", nil); err == nil {
			counts = stats.Incomplete
		}
	}
	if parts == nil {
		parts = slices.DeleteFunc(slices.Clone(fields.IPCParts[:]), func(part string) bool { return counts[part] == 0 })
	}
	if len(parts) == 0 {
		return
	}
	lacks := make([]string, len(parts))
	for i, part := range parts {
		switch n := counts[part]; n {
		case 0:
			lacks[i] = "some lack " + cli.QuoteCell(part)
		case 1:
			lacks[i] = "1 lacks " + cli.QuoteCell(part)
		default:
			lacks[i] = cli.FormatUint(n) + " lack " + cli.QuoteCell(part)
		}
	}
	d.PrintErrf("incomplete IPC records might be the reason (%s): a record without an output is not a run, and a record that lacks any other part has no ipc_id; "+
		"GET /records?incomplete=%s lists the incomplete records", strings.Join(lacks, ", "), cli.QuoteCell(parts[0]))
}

// fetch sends a query to the ledger. It returns the answer both parsed and as the bytes that the
// server sent.
func fetch[T any](d *commands, command *cobra.Command, path string, query url.Values) (*T, []byte, error) {
	if err := d.connect(); err != nil {
		return nil, nil, err
	}
	return remote.DoJSON[T](command.Context(), d.server, client.Request{Path: remote.LedgerPath(d.ledger) + path, Query: query})
}

// printAnswer fetches an answer and passes it to print or, with --json, prints it as the server
// sent it.
func printAnswer[T any](d *commands, command *cobra.Command, path string, query url.Values, print func(*T) error) error {
	answer, text, err := fetch[T](d, command, path, query)
	switch {
	case err != nil:
		return err
	case d.json:
		return cli.PrintJSONLine(d.Out, text)
	}
	return print(answer)
}

// connect connects to the server if the command has not yet done so.
func (d *commands) connect() (err error) {
	if d.server == nil {
		d.server, err = d.from.Connect(d.Console)
	}
	return err
}

// texts returns the reader for the texts of records. connect must have been called.
func (d *commands) texts() *show.TextReader {
	if d.textReader == nil {
		d.textReader = &show.TextReader{Server: d.server, Ledger: d.ledger}
	}
	return d.textReader
}

// hash formats a hash as a table cell. Without --full, the cell contains only the first 12 digits.
func (d *commands) hash(hash string) string { return show.HashCell(hash, d.full) }

func (d *commands) hashOr(hash *string) string {
	if hash == nil {
		return cli.NoValueCell
	}
	return d.hash(*hash)
}
