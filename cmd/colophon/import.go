package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/ledger"
)

// importOptions is the command line of import.
type importOptions struct {
	server     remote.Options
	ledger     string
	onMismatch string // empty: as the ledger is set
	retries    int    // attempts in a row that may fail without any line answered
	maxLine    cli.Size
}

func newImport(c *cli.Console) *cobra.Command {
	var o importOptions
	command := &cobra.Command{
		Use:   "import FILE...",
		Short: "Post the records of NDJSON files to a server",
		Long: `Post records to a server, as fast as it takes them. A FILE has one record a line,
{"kind": …, "record": {…}, "idempotency_key"?: …}, plain or compressed with gzip or
zstd; - is the standard input.

An import can be cut short at any point and done again: what the ledger has is
answered as replayed and not added twice. For that a line without idempotency_key
and run_id gets a key from its digest and from how often it has occurred in this
import, so that two equal lines are two records. When the connection drops, or the
server has no room, import waits, connects again and goes on.

In the end it prints how many lines of each kind were accepted, replayed (the
ledger had them), mismatched (accepted, but a claimed hash is not what the ledger
computes; GET /records?flag=mismatch lists them) and refused.

Exit codes: 1 a line was refused or could not be read, 2 bad arguments or no such
file, 3 the server cannot be reached.`,
		Example: `  colophon import generations.ndjson.gz run-dags.ndjson.zst
  zcat old.ndjson.gz | colophon import --ledger archive --on-mismatch reject -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			return runImport(command.Context(), c, o, files)
		},
	}
	o.server.Bind(c, command.Flags())
	command.Flags().StringVar(&o.ledger, "ledger", ledger.Default, "`name` of the ledger")
	command.Flags().StringVar(&o.onMismatch, "on-mismatch", "", "`what` the ledger does with a record whose claims do not hold: accept or reject; default as the ledger is set")
	command.Flags().IntVar(&o.retries, "retries", 8, "`number` of attempts in a row to go on after the connection dropped")
	o.maxLine = 8 << 20
	command.Flags().TextVar(&o.maxLine, "max-line", o.maxLine, "largest `size` of a line; the server has a bound of its own")
	return command
}

// importer posts lines and counts what becomes of them.
type importer struct {
	console  *cli.Console
	options  importOptions
	client   *httpClient
	progress *cli.Progress
	tally    *tally
	// window bounds what is read and not answered, by importLine.weight.
	window *semaphore.Weighted
	flight flight
}

// windowBytes is the size of importer.window.
const windowBytes = 32 << 20

func runImport(ctx context.Context, c *cli.Console, o importOptions, files []string) error {
	switch o.onMismatch {
	case "", ledger.AcceptMismatch, ledger.RejectMismatch:
	default:
		return cli.Exitf(cli.ExitUsage, "--on-mismatch: %q is neither accept nor reject", o.onMismatch)
	}
	size, err := checkFiles(files)
	if err != nil {
		return cli.Exitf(cli.ExitUsage, "%w", err)
	}
	server, err := newClient(c, o.server)
	if err != nil {
		return err
	}
	if err := checkWritable(ctx, server, o.ledger); err != nil {
		return err
	}
	im := &importer{
		console: c, options: o, client: server, tally: newTally(),
		progress: cli.NewProgress(c, size, "importing", progressbar.OptionShowBytes(true)),
		window:   semaphore.NewWeighted(windowBytes),
	}
	err = im.run(ctx, files)
	im.progress.Finish()
	if printErr := im.tally.print(c); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err == nil && im.tally.failed() {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return err
}

// checkFiles finds out before anything is sent that a file is missing. It
// returns how many bytes there are to read, -1 if that cannot be known.
func checkFiles(files []string) (size int64, err error) {
	stdin, known := 0, true
	for _, name := range files {
		if name == "-" {
			stdin, known = stdin+1, false
			continue
		}
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("there is no file %s", name)
		}
		if err != nil {
			return 0, err
		}
		if info.IsDir() {
			return 0, fmt.Errorf("%s is a folder; name the files in it", name)
		}
		size += info.Size()
		known = known && info.Mode().IsRegular()
	}
	if stdin > 1 {
		return 0, errors.New("the standard input can be read only once")
	}
	if !known {
		return -1, nil
	}
	return size, nil
}

// checkWritable finds out before anything is sent that there is no such ledger,
// or that it takes no more writes.
func checkWritable(ctx context.Context, server *httpClient, name string) error {
	answer, err := server.call(ctx, http.MethodGet, ledgerPath(name), nil)
	if p := (*problem)(nil); errors.As(err, &p) && p.Status == http.StatusNotFound {
		return cli.Exitf(cli.ExitUsage, "the server has no ledger %q%s; make it with: colophon ledger create %s", name, server.orNoGrant(), name)
	}
	if err != nil {
		return err
	}
	var info wire.LedgerDescription
	if err := json.Unmarshal(answer, &info); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	if info.Frozen {
		return cli.Exitf(cli.ExitFailed, "ledger %q is frozen: it takes no more records", name)
	}
	return nil
}

// path is where the lines are posted.
func (o importOptions) path() string {
	path := ledgerPath(o.ledger) + "/batch"
	if o.onMismatch != "" {
		path += "?on_mismatch=" + url.QueryEscape(o.onMismatch)
	}
	return path
}

// run posts every line of the files and returns when each is answered, or when
// it cannot go on.
func (im *importer) run(ctx context.Context, files []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan importLine, 256)
	go im.read(ctx, files, lines)
	failures := 0 // attempts in a row that got no answer
	for {
		before := im.tally.answered()
		finished, err := im.attempt(ctx, lines)
		if finished && im.flight.empty() {
			return nil
		}
		if ctx.Err() != nil {
			return cli.Exitf(cli.ExitFailed, "interrupted; the same import again goes on from here")
		}
		if err == nil {
			err = errCutOff // the server ended its answer before the end of the lines
		}
		if p := (*problem)(nil); errors.As(err, &p) && !p.temporary() {
			return fmt.Errorf("the server refuses the import: %w", p)
		}
		if im.tally.answered() > before {
			failures = 0
		}
		if failures++; failures > im.options.retries {
			return cli.Exitf(cli.ExitUnreachable, "giving up after %d attempts: %w\nThe same import again goes on from here", failures, err)
		}
		wait := pause(failures, err)
		im.progress.Say("%v; trying again in %.1f s (%d of %d)", err, wait.Seconds(), failures, im.options.retries)
		if !sleep(ctx, wait) {
			return cli.Exitf(cli.ExitFailed, "interrupted; the same import again goes on from here")
		}
	}
}

// read feeds the lines of all files to the sender, as fast as the window allows.
func (im *importer) read(ctx context.Context, files []string, lines chan<- importLine) {
	defer close(lines)
	keys := newKeyer()
	for _, name := range files {
		in := &input{name: name, maxLine: int(im.options.maxLine), stdin: im.console.In, read: im.progress.Add}
		for line, err := range in.lines() {
			if err != nil {
				im.tally.unreadable(line, err)
				continue
			}
			keys.complete(&line)
			if im.window.Acquire(ctx, line.weight()) != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}
}
