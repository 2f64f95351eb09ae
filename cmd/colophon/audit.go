package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/logurl"
	"colophon/internal/remote"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay"
)

// auditFlags holds the flags of the audit command, and the server and the ledger from its URL
// argument.
type auditFlags struct {
	server remote.Options
	bucket string // URL of the bucket that contains the copy to audit; empty if the URL names a server
	monitor.Options
	key         string
	against     []string
	replayIndex bool
	replay      replay.Options
	follow      bool
	interval    time.Duration
	json        bool
}

const auditHelp = `Audit the ledger at URL without trusting its server. audit downloads the log and checks
the signature of the checkpoint; every entry, its link in the chain, and its leaf in the
signed tree; the hash tiles; the order of times and sequence numbers; what each event
states about its record; the idempotency keys; and the redactions.

With --state, audit saves what it has seen. The next audit continues from there, and
detects a log that has become shorter (rollback) or that was replaced by another (fork).
With --against, audit detects both with the help of checkpoints that others have seen.

With --content, audit also fetches all content, recomputes every digest, and rebuilds
each record from its content. The token needs the scope content.

With --replay-index, audit derives the answers to queries from the log itself and
compares the server's answers with them, row by row. It finds rows that the server leaves
out, adds, or changes. The token needs the scope read. audit downloads the whole log into
the folder for temporary files.

URL can also name a copy made by serve --publish:
file:///folder/v1/ledgers/NAME, s3://bucket/prefix/v1/ledgers/NAME?endpoint=URL,
gs://bucket/…, azblob://container/…, or, with --copy, the URL of a web server for the
bucket. A copy has only the log, so audit cannot check content, answers, and receipts.

audit stops at the first damage to the log. It lists all wrong answers.

Exit codes:
   0  everything is correct
   1  the audit could not be finished: it was interrupted, or the token lacks a scope
   2  bad arguments, or the state belongs to another log
   3  no server answers
   4  another audit is using the state
   6  nothing is wrong, but the server did not show everything that audit had to check
`

func newAudit(c *cli.Console) *cobra.Command {
	o := auditFlags{Options: monitor.Options{Timeout: time.Minute}, interval: 10 * time.Second}
	command := &cobra.Command{
		Use:   "audit URL --key KEY",
		Short: "Audit a ledger remotely, without trusting its server",
		Long:  auditHelp + auditExitsHelp(),
		Example: `  colophon audit https://ledger.example.org/v1/ledgers/default --key verifier.key --state audit.state
  colophon audit http://127.0.0.1:8080/v1/ledgers/default --key verifier.key --content --replay-index --json
  colophon audit https://ledger.example.org/v1/ledgers/default --key verifier.key --state audit.state --follow`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.parse(args[0]); err != nil {
				return err
			}
			if err := o.validate(command); err != nil {
				return err
			}
			return o.run(command.Context(), c)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.key, "key", c.EnvOr("COLOPHON_KEY", ""), "verifier `key` of the ledger, or a file with it, or COLOPHON_KEY")
	flags.StringVar(&o.StateFile, "state", "", "`file` that stores the state of the audit; created if it does not exist, together with the folder FILE.d")
	flags.StringArrayVar(&o.against, "against", nil, "`file` with a checkpoint of the ledger from another source; may be repeated")
	flags.BoolVar(&o.LogIsCopy, "copy", false, "treat URL as a published copy, which has only the log")
	flags.BoolVar(&o.CheckContent, "content", false, "also fetch and check all content")
	flags.BoolVar(&o.replayIndex, "replay-index", false, "derive answers to queries from the log, and compare the server's answers with them")
	flags.IntVar(&o.replay.SampleSize, "sample", 0, "with --replay-index, query `n` values of each kind; 0 means all values of a small log and 200 of a larger one, -1 means all")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that determines the random choices: the sample, the order of queries, and the entries for --receipts; 0 means that audit chooses a random one, which the report shows")
	flags.IntVar(&o.NumReceipts, "receipts", 0, "fetch and verify the receipts of `n` entries, and the same number of proofs")
	flags.StringVar(&o.replay.MetricsURL, "metrics-url", "", "`URL` of /metrics, if it has a separate address; audit sends its token only to the ledger's own host and port")
	flags.BoolVar(&o.follow, "follow", false, "keep watching the ledger until interrupted or until something is wrong")
	flags.DurationVar(&o.interval, "interval", o.interval, "with --follow, `time` between two checks")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "maximum `time` to wait for one response")
	flags.IntVar(&o.Concurrency, "parallel", 8, "maximum number of concurrent `requests`")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON; with --follow, one report per line")
	o.server.BindCredentials(c, flags)
	return command
}

// run audits the ledger and prints a report. With --follow, it keeps auditing until something is
// wrong or ctx is canceled.
func (o *auditFlags) run(ctx context.Context, c *cli.Console) (err error) {
	if o.Server, err = o.source(c); err != nil {
		return err
	}
	if o.Keys, err = c.ReadCurrentKeys(o.key); err != nil {
		return err
	}
	for _, name := range o.against {
		note, err := os.ReadFile(name)
		if err != nil {
			return cli.FileStateErrorf("--against: %w", err)
		}
		o.SeenCheckpoints = append(o.SeenCheckpoints, monitor.NamedCheckpoint{Name: name, Text: note})
	}
	if o.replayIndex {
		o.AnswerChecker = replay.New(o.replay)
	}
	progress := auditProgress{console: c, ledger: o.Ledger}
	o.Logger, o.Progress = slog.New(consoleHandler{c}), progress.set
	defer boundAuditMemory()()
	print := func(r *monitor.Report) error {
		progress.finish()
		report := newAuditReport(r)
		return errors.Join(report.print(c, o.json, o.follow), report.exit())
	}
	if o.follow {
		err = monitor.Follow(ctx, o.Options, o.interval, print)
	} else {
		var r *monitor.Report
		if r, err = monitor.Run(ctx, o.Options); r != nil {
			err = errors.Join(print(r), err)
		}
	}
	progress.finish()
	return explainAudit(ctx, o.Options, err)
}

// source returns the server or bucket from which the audit reads the log.
func (o *auditFlags) source(c *cli.Console) (fetch.Server, error) {
	if o.bucket != "" {
		return logurl.BucketServer(o.bucket)
	}
	server, err := o.server.Connect(c)
	if err != nil {
		return fetch.Server{}, err
	}
	return fetchFrom(server), nil
}

// fetchFrom converts a connection to the form that package fetch uses. It requests compressed
// responses unless the server is on this machine.
func fetchFrom(s *remote.Connection) fetch.Server {
	u, err := url.Parse(s.URL)
	return fetch.Server{URL: s.URL, Token: s.Token, Transport: s.Transport, AcceptCompression: err == nil && !cli.IsLoopback(u.Hostname()), ExplainError: s.Explain}
}

// auditMemory is the soft memory limit of the Go runtime during an audit, in bytes. An audit needs
// less live memory than this. Near the limit, the garbage collector runs more often. GOMEMLIMIT
// overrides the limit.
const auditMemory = 352 << 20

// boundAuditMemory sets the Go memory limit to auditMemory unless GOMEMLIMIT has already set one.
// The returned function removes the limit again.
func boundAuditMemory() (end func()) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(auditMemory)
	return func() { debug.SetMemoryLimit(math.MaxInt64) }
}

// auditProgress shows a progress bar for the current step of an audit.
type auditProgress struct {
	console *cli.Console
	ledger  string
	bar     *cli.Progress // nil between steps
	step    string
	done    uint64
}

func (p *auditProgress) set(step string, done, total uint64) {
	if p.bar == nil || step != p.step || done < p.done {
		p.finish()
		p.bar = cli.NewProgress(p.console, int64(min(total, math.MaxInt64)), step+" "+p.ledger)
	}
	p.bar.Set(done)
	p.step, p.done = step, done
}

func (p *auditProgress) finish() {
	if p.bar != nil {
		p.bar.Finish()
		p.bar = nil
	}
}

// consoleHandler is a slog.Handler that prints warnings and errors to the console, followed by the
// values of their attributes.
type consoleHandler struct{ *cli.Console }

// Enabled implements slog.Handler.
func (consoleHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (h consoleHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	for a := range r.Attrs {
		text += ": " + a.Value.String()
	}
	h.PrintErrf("%s", text)
	return nil
}

// WithAttrs implements slog.Handler. It ignores the attributes, because an audit sets none.
func (h consoleHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler. It ignores the group, because an audit opens none.
func (h consoleHandler) WithGroup(string) slog.Handler { return h }

// parse parses the URL argument of the audit command and sets the ledger and either the server or
// the bucket.
func (o *auditFlags) parse(text string) error {
	at, err := logurl.Parse(text)
	o.Ledger, o.server.URL, o.bucket = at.Ledger, at.ServerURL, at.BucketURL
	o.LogIsCopy = o.LogIsCopy || at.BucketURL != ""
	return err
}

func (o *auditFlags) validate(command *cobra.Command) error {
	given := command.Flags().Changed
	switch {
	case o.key == "":
		return cli.ExitErrorf(cli.ExitUsage, "--key is required: specify the verifier key that the ledger's operator published, or a file that contains it")
	case o.follow && (o.replayIndex || o.CheckContent || o.NumReceipts > 0):
		return cli.ExitErrorf(cli.ExitUsage, "--follow watches only the log; omit it to audit content, answers, or receipts")
	case (given("sample") || given("metrics-url")) && !o.replayIndex:
		return cli.ExitErrorf(cli.ExitUsage, "--sample and --metrics-url require --replay-index")
	case given("seed") && !o.replayIndex && o.NumReceipts == 0:
		return cli.ExitErrorf(cli.ExitUsage, "--seed requires --replay-index or --receipts")
	case o.replay.MetricsURL != "" && !strings.HasPrefix(o.replay.MetricsURL, "http://") && !strings.HasPrefix(o.replay.MetricsURL, "https://"):
		return cli.ExitErrorf(cli.ExitUsage, "--metrics-url %q is not a URL such as %s/metrics", o.replay.MetricsURL, remote.DefaultURL)
	case o.Timeout <= 0 || o.interval <= 0 || o.Concurrency < 1 || o.replay.SampleSize < -1 || o.NumReceipts < 0:
		return cli.ExitErrorf(cli.ExitUsage, "--timeout, --interval, and --parallel must be positive; --sample must be at least -1; --receipts must be at least 0")
	}
	return nil
}
