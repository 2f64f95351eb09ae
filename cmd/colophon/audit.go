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
	"colophon/internal/remote"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay"
)

// auditFlags is the command line of audit.
type auditFlags struct {
	server remote.Options
	bucket string // URL of the bucket with the copy to audit; empty for one that is served by HTTP
	monitor.Options
	key         string
	against     []string
	replayIndex bool
	replay      replay.Options
	follow      bool
	interval    time.Duration
	json        bool
}

const auditHelp = `Audit the ledger at URL without trusting its server: download the log and check the
signature, every entry, its link in the chain and its leaf in the signed tree, the hash
tiles, the order of times and numbers, what each event states about its record, the
idempotency keys, and the redactions.

With --state the audit is remembered: the next one continues from there, and detects a
log that has become shorter (rollback) or that was replaced by another (fork). --against
does the same with checkpoints that others have seen.

--content also fetches all content (the token needs the scope content), recomputes every
digest, and rebuilds each record from it. --replay-index derives every answer from the
log itself and compares the server's answers with it, row by row, so that nothing is left
out or added (the token needs the scope read; the whole log is downloaded into the folder
for temporary files).

URL may also be of a copy that serve --publish has made: file:///folder/v1/ledgers/NAME,
s3://bucket/prefix/v1/ledgers/NAME?endpoint=URL, or with --copy that of a web server
for the bucket. A copy has only the log: content, answers and receipts are not checked.

The audit ends at the first damage to the log. It lists all wrong answers.

Exit codes:
   0  everything is correct
   1  the audit could not be finished: interrupted, or the token lacks a right
   2  bad arguments, or the state is of another log
   3  no server answers
   4  another audit uses the state
   6  nothing is wrong, but the server does not show everything that was to be checked
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
	flags.StringVar(&o.key, "key", c.Environment("COLOPHON_KEY", ""), "verifier `key` of the ledger, or a file with it, or COLOPHON_KEY")
	flags.StringVar(&o.State, "state", "", "`file` that stores the state of the audit; created if it does not exist, with a folder named like it plus .d")
	flags.StringArrayVar(&o.against, "against", nil, "`file` with a checkpoint of the ledger that somebody has seen; may be repeated")
	flags.BoolVar(&o.Copy, "copy", false, "URL is that of a published copy, which has only the log")
	flags.BoolVar(&o.Content, "content", false, "fetch and check all content too")
	flags.BoolVar(&o.replayIndex, "replay-index", false, "derive the answers from the log, and compare the server's with them")
	flags.IntVar(&o.replay.Sample, "sample", 0, "with --replay-index, ask about `n` values of each kind; 0 is all of a small log, 200 of a larger one, -1 all")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that chooses the sample, the order of the questions, and the entries of --receipts; 0 is any, which the report names")
	flags.IntVar(&o.Receipts, "receipts", 0, "fetch and verify the receipts of `n` entries, and as many proofs")
	flags.StringVar(&o.replay.MetricsURL, "metrics-url", "", "`URL` of /metrics if it has a separate address; it gets no token")
	flags.BoolVar(&o.follow, "follow", false, "keep watching the ledger until interrupted or until something is wrong")
	flags.DurationVar(&o.interval, "interval", o.interval, "with --follow, `time` between two looks")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "longest `time` that one answer may take")
	flags.IntVar(&o.Parallel, "parallel", 8, "`requests` at once")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON; with --follow, each on a line")
	o.server.BindCredentials(c, flags)
	return command
}

// run audits the ledger, once or until something is wrong, and prints the reports.
func (o *auditFlags) run(ctx context.Context, c *cli.Console) (err error) {
	if o.Server, err = o.source(c); err != nil {
		return err
	}
	if o.Keys, err = c.ReadKeys(o.key); err != nil {
		return err
	}
	for _, name := range o.against {
		note, err := os.ReadFile(name)
		if err != nil {
			return cli.Refused("--against: %w", err)
		}
		o.Against = append(o.Against, monitor.Note{Name: name, Text: note})
	}
	if o.replayIndex {
		o.Answers = replay.New(o.replay)
	}
	progress := auditProgress{console: c, ledger: o.Ledger}
	o.Log, o.Progress = slog.New(sayHandler{c}), progress.set
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

// source returns where the log comes from.
func (o *auditFlags) source(c *cli.Console) (fetch.Server, error) {
	if o.bucket != "" {
		return fetchFromBucket(o.bucket)
	}
	server, err := o.server.Connect(c)
	if err != nil {
		return fetch.Server{}, err
	}
	return fetchFrom(server), nil
}

// fetchFrom describes the server of the flags to packages that do not trust it.
func fetchFrom(s *remote.Server) fetch.Server {
	u, err := url.Parse(s.URL)
	return fetch.Server{URL: s.URL, Token: s.Token, Transport: s.Transport, Compress: err == nil && !cli.Loopback(u.Hostname()), Explain: s.Explain}
}

// auditMemory is the memory limit of the Go runtime during an audit, in bytes. Near it, the
// garbage collector does all it can. An audit keeps less than that in use. GOMEMLIMIT overrides it.
const auditMemory = 352 << 20

// boundAuditMemory sets that limit until end.
func boundAuditMemory() (end func()) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(auditMemory)
	return func() { debug.SetMemoryLimit(math.MaxInt64) }
}

// auditProgress shows a bar for the current step of an audit.
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

// sayHandler is a slog.Handler that says messages on the console, with the values of their
// attributes.
type sayHandler struct{ *cli.Console }

// Enabled implements slog.Handler.
func (sayHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (h sayHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	for a := range r.Attrs {
		text += ": " + a.Value.String()
	}
	h.Say("%s", text)
	return nil
}

// WithAttrs implements slog.Handler. An audit logs without further attributes.
func (h sayHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h sayHandler) WithGroup(string) slog.Handler { return h }

// parse takes the URL of a ledger apart.
func (o *auditFlags) parse(text string) error {
	at, err := parseLogAddress(text)
	o.Ledger, o.server.URL, o.bucket = at.ledger, at.server, at.bucket
	o.Copy = o.Copy || at.bucket != ""
	return err
}

func (o *auditFlags) validate(command *cobra.Command) error {
	given := command.Flags().Changed
	switch {
	case o.key == "":
		return cli.Exitf(cli.ExitUsage, "--key is missing: give the ledger's verifier key, as its operator has published it, or a file with it")
	case o.follow && (o.replayIndex || o.Content || o.Receipts > 0):
		return cli.Exitf(cli.ExitUsage, "--follow watches the log alone; audit content, answers and receipts without it")
	case (given("sample") || given("metrics-url")) && !o.replayIndex:
		return cli.Exitf(cli.ExitUsage, "--sample and --metrics-url need --replay-index")
	case given("seed") && !o.replayIndex && o.Receipts == 0:
		return cli.Exitf(cli.ExitUsage, "--seed needs --replay-index or --receipts")
	case o.replay.MetricsURL != "" && !strings.HasPrefix(o.replay.MetricsURL, "http://") && !strings.HasPrefix(o.replay.MetricsURL, "https://"):
		return cli.Exitf(cli.ExitUsage, "--metrics-url %q is not a URL like %s/metrics", o.replay.MetricsURL, remote.DefaultURL)
	case o.Timeout <= 0 || o.interval <= 0 || o.Parallel < 1 || o.replay.Sample < -1 || o.Receipts < 0:
		return cli.Exitf(cli.ExitUsage, "--timeout, --interval and --parallel must be positive, --sample at least -1, --receipts at least 0")
	}
	return nil
}
