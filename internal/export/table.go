package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/safefile"
	"colophon/internal/table"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// TableOptions selects the rows of an export and the file to write.
type TableOptions struct {
	Ledger    string
	QueryPath string // path of the list or query, relative to the ledger's path
	AsOf      uint64 // tree size at which to query the ledger; 0 means the current size
	Format    table.Format
	File      string // name of the file to write
}

// TableResult describes an export that has been written.
type TableResult struct {
	Manifest    *proofs.ExportManifest // the ledger's signed statement about the rows
	VerifierKey string                 // verifier key of the ledger, according to the server
}

// WriteTable writes the rows of a list or query to a file, and their signed manifest to another
// file next to it. It verifies the manifest with the keys that the server names. Existing files are
// replaced only when all rows have been fetched and verified.
func WriteTable(ctx context.Context, c *cli.Console, server *remote.Connection, o TableOptions) (*TableResult, error) {
	spool, err := os.CreateTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+".rows.*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	ledger := server.Ledger(o.Ledger)
	done, err := fetchRows(ctx, c, server, ledger, o, spool)
	if err != nil {
		return nil, err
	}
	history, err := ledger.Log.Keys(ctx)
	if err != nil {
		return nil, server.ExplainFatal(err)
	}
	manifest := table.NewManifest(o.Format, done.Manifest, done.AnswerWithoutRows, done.LeafHashes)
	signed, _, err := manifest.Verify(history.Verifiers()...)
	if err != nil {
		return nil, fmt.Errorf("verifying the manifest from the server: %w", err)
	}
	if err := write(c, o, spool, signed.RowCount); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := safefile.Replace(o.File+table.ManifestSuffix, append(text, '\n')); err != nil {
		return nil, err
	}
	return &TableResult{Manifest: signed, VerifierKey: history.CurrentKey().String()}, nil
}

// fetchRows fetches the rows and writes them to spool, one per line.
func fetchRows(ctx context.Context, c *cli.Console, server *remote.Connection, ledger *client.Ledger, o TableOptions, spool *os.File) (*client.ExportTrailer, error) {
	progress := cli.NewProgress(c, -1, "rows")
	defer progress.Finish()
	out := bufio.NewWriterSize(spool, 256<<10)
	done, err := ledger.Export(ctx, o.QueryPath, o.AsOf, func(row []byte) error {
		progress.Add(1)
		_, err := out.Write(append(row, '\n'))
		return err
	})
	if err != nil {
		return nil, server.ExplainFatal(err)
	}
	return done, out.Flush()
}

// write writes the rows in the spool to o.File, in o.Format. It replaces an existing file
// atomically.
func write(c *cli.Console, o TableOptions, spool *os.File, rows uint64) (err error) {
	out, err := os.CreateTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // fails, harmlessly, once the file has been renamed
	passes := int64(2)
	if o.Format == table.FormatNDJSON {
		passes = 1
	}
	progress := cli.NewProgress(c, passes*int64(rows), "writing "+o.File)
	defer progress.Finish()
	buffered := bufio.NewWriterSize(out, 256<<10)
	err = table.WriteRows(buffered, o.Format, func() iter.Seq2[[]byte, error] { return linesOf(spool, progress) })
	if err := errors.Join(err, buffered.Flush(), out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", o.File, err)
	}
	if err := os.Rename(out.Name(), o.File); err != nil {
		return err
	}
	return safefile.SyncDir(filepath.Dir(o.File))
}

// linesOf yields the lines of spool from its beginning. A line is valid only until the next one is
// yielded.
func linesOf(spool *os.File, progress *cli.Progress) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if _, err := spool.Seek(0, 0); err != nil {
			yield(nil, err)
			return
		}
		lines := bufio.NewScanner(spool)
		lines.Buffer(make([]byte, 0, 256<<10), pyjson.MaxSourceBytes)
		for lines.Scan() {
			progress.Add(1)
			if !yield(lines.Bytes(), nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}
