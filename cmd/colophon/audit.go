package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// auditFlags is the command line of audit.
type auditFlags struct {
	server remote.Options
	auditOptions
}

// auditOptions say what an audit checks.
type auditOptions struct {
	ledger      string
	key         string
	state       string
	against     []string
	content     bool
	replayIndex bool
	sample      int
	seed        uint64
	receipts    int
	metricsURL  string
	follow      bool
	interval    time.Duration
	timeout     time.Duration
	parallel    int
	json        bool
}

const auditHelp = `Audit the ledger at URL without believing its server anything: download the log and
check the signature, every entry, its link in the chain and its leaf in the signed
tree, the hash tiles, the order of times and numbers, all that each event says of its
record, the idempotency keys and what is redacted.

With --state the audit is remembered: the next one goes on from there, and tells a log
that was taken back (rollback) from one that was exchanged (fork). --against does the
same with checkpoints that others have seen.

--content fetches all content too (the token needs the scope content), recomputes
every digest, and makes each record anew from it. --replay-index derives everything
from the log itself and compares the server's answers with it, row by row: nothing left
out, nothing added (the token needs the scope read; the log is downloaded as a whole
into the folder for temporary files).

The audit ends at the first damage of the log; of answers, it lists what is wrong.

Exit codes:
   0  all is as it should be
   1  the audit could not be finished: interrupted, or the token may not
   2  bad arguments, or the state is of another log
   3  no server answers
   4  another audit has the state
   6  nothing is wrong, but the server does not show all that was to be checked
`

func newAudit(c *cli.Console) *cobra.Command {
	o := auditFlags{auditOptions: auditOptions{timeout: time.Minute, interval: 10 * time.Second}}
	command := &cobra.Command{
		Use:   "audit URL --key KEY",
		Short: "Check a ledger from afar, trusting nobody",
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
			server, err := o.server.Connect(c)
			if err != nil {
				return err
			}
			return runAudit(command.Context(), c, server, o.auditOptions)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.key, "key", c.Environment("COLOPHON_KEY", ""), "verifier `key` of the ledger, or a file with it, or COLOPHON_KEY")
	flags.StringVar(&o.state, "state", "", "`file` that remembers the audit; made if absent, with a folder of that name and .d")
	flags.StringArrayVar(&o.against, "against", nil, "`file` with a checkpoint of the ledger that somebody has seen; may be repeated")
	flags.BoolVar(&o.content, "content", false, "fetch and check all content too")
	flags.BoolVar(&o.replayIndex, "replay-index", false, "derive the answers from the log, and compare the server's with them")
	flags.IntVar(&o.sample, "sample", 0, "with --replay-index, ask about `n` values of each kind; 0 is all of a small log, 200 of a larger one, -1 all")
	flags.Uint64Var(&o.seed, "seed", 0, "`number` that chooses the sample, the order of the questions, and the entries of --receipts; 0 is any, which the report names")
	flags.IntVar(&o.receipts, "receipts", 0, "fetch and verify the receipts of `n` entries, and as many proofs")
	flags.StringVar(&o.metricsURL, "metrics-url", "", "`URL` of /metrics, where it has an address of its own, which gets no token")
	flags.BoolVar(&o.follow, "follow", false, "go on watching the ledger until interrupted or something is wrong")
	flags.DurationVar(&o.interval, "interval", o.interval, "with --follow, `time` between two looks")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "longest `time` that one answer may take")
	flags.IntVar(&o.parallel, "parallel", 8, "`requests` at once")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON; with --follow, each on a line")
	o.server.BindCredentials(c, flags)
	return command
}

// parse takes the URL of a ledger apart.
func (o *auditFlags) parse(text string) error {
	const before = "/v1/ledgers/"
	refusal := cli.Exitf(cli.ExitUsage, "%q is not the URL of a ledger like %s%sdefault", text, remote.DefaultURL, before)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return refusal
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	at := strings.LastIndex(path, before)
	if at < 0 {
		return refusal
	}
	name, err := url.PathUnescape(path[at+len(before):])
	prefix, prefixErr := url.PathUnescape(path[:at])
	if err != nil || prefixErr != nil || name == "" || strings.Contains(name, "/") {
		return refusal
	}
	// Nothing of the URL but what is before the ledgers: not its fragment either.
	server := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: prefix, RawPath: path[:at]}
	o.ledger, o.server.URL = name, server.String()
	return nil
}

func (o *auditFlags) validate(command *cobra.Command) error {
	given := command.Flags().Changed
	switch {
	case o.key == "":
		return cli.Exitf(cli.ExitUsage, "--key is missing: give the ledger's verifier key, as its operator has published it, or a file with it")
	case o.follow && (o.replayIndex || o.content || o.receipts > 0):
		return cli.Exitf(cli.ExitUsage, "--follow watches the log alone; audit content, answers and receipts without it")
	case (given("sample") || given("metrics-url")) && !o.replayIndex:
		return cli.Exitf(cli.ExitUsage, "--sample and --metrics-url mean nothing without --replay-index")
	case given("seed") && !o.replayIndex && o.receipts == 0:
		return cli.Exitf(cli.ExitUsage, "--seed means nothing without --replay-index or --receipts")
	case o.metricsURL != "" && !strings.HasPrefix(o.metricsURL, "http://") && !strings.HasPrefix(o.metricsURL, "https://"):
		return cli.Exitf(cli.ExitUsage, "--metrics-url %q is not a URL like %s/metrics", o.metricsURL, remote.DefaultURL)
	case o.timeout <= 0 || o.interval <= 0 || o.parallel < 1 || o.sample < -1 || o.receipts < 0:
		return cli.Exitf(cli.ExitUsage, "--timeout, --interval and --parallel must be positive, --sample at least -1, --receipts at least 0")
	}
	return nil
}

// auditor is one audit.
type auditor struct {
	*cli.Console
	auditOptions
	given []*proofs.Verifier // keys that are trusted
	keys  []*proofs.Verifier // those, and all that follow from them
	// known are keys, and those that they replaced. What only the latter have signed counts
	// as far as the log that is walked confirms it.
	known []*proofs.Verifier
	// histories are those of the log's keys that keys and known are from.
	histories []*proofs.KeyHistory
	fetch     *fetcher
	memory    *auditMemory
	others    []audit.Seen // checkpoints that others have seen
	older     []olderNote  // those of them that the newest key has not signed
	metrics   *scrape      // nil where they are not compared
	// published is the size of the log before the metrics were fetched; what they are
	// as of is not less.
	published uint64
	report    *auditReport
}

// runAudit audits a ledger of a server, and prints the report.
func runAudit(ctx context.Context, c *cli.Console, server *remote.Server, o auditOptions) error {
	a := &auditor{Console: c, auditOptions: o}
	for a.seed == 0 {
		a.seed = rand.Uint64() >> 11 // #nosec G404 -- a server cannot know it; every reader of JSON has it exactly
	}
	var err error
	if a.given, err = c.ReadKeys(o.key); err != nil {
		return err
	}
	notes, err := readAgainst(o.against)
	if err != nil {
		return err
	}
	if a.fetch, err = newFetcher(remoteOf(server), remote.LedgerPath(o.ledger), o.timeout, 2*o.parallel); err != nil {
		return err
	}
	defer boundMemory()()
	if err := a.followKeys(ctx); err != nil {
		return a.explain(ctx, err)
	}
	if a.memory, err = openAuditMemory(o.state, a.known); err != nil {
		return err
	}
	if a.memory.converted {
		a.Say("%s is of an earlier version, without checksums: the checkpoints in it count, and the log is walked from its beginning", o.state)
	}
	if err = a.followKeys(ctx); err == nil {
		err = a.openAgainst(notes)
	}
	if err == nil {
		err = a.audit(ctx)
	}
	return errors.Join(a.explain(ctx, err), a.memory.close())
}

// remoteOf is what the auditor has of a server.
func remoteOf(s *remote.Server) remoteServer {
	u, err := url.Parse(s.URL)
	return remoteServer{url: s.URL, token: s.Token, transport: s.Transport, compress: err == nil && !cli.Loopback(u.Hostname()), explain: s.Explain}
}

// memoryLimit is what the auditor's memory grows to before the collector does all it can,
// in bytes, unless GOMEMLIMIT says: what is in use is bounded by less.
const memoryLimit = 352 << 20

// boundMemory sets that limit until end.
func boundMemory() (end func()) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(memoryLimit)
	return func() { debug.SetMemoryLimit(math.MaxInt64) }
}

// audit audits the ledger once, or goes on watching it.
func (a *auditor) audit(ctx context.Context) error {
	if a.follow {
		return a.watch(ctx)
	}
	return a.once(ctx)
}

// once audits the ledger and reports.
func (a *auditor) once(ctx context.Context) error {
	if err := a.round(ctx); err != nil {
		return err
	}
	if err := a.report.print(a.Console, a.json, false); err != nil {
		return err
	}
	if !a.report.Clean {
		return &cli.ExitError{Code: a.report.Code}
	}
	return nil
}

// round audits the ledger as it is now. What it finds is in the report; an error says
// why it could not be finished.
func (a *auditor) round(ctx context.Context) error {
	a.report = newAuditReport(a)
	if a.replayIndex || a.receipts > 0 {
		a.report.Seed = a.seed
	}
	err := a.checks(ctx)
	if d := auditDamage(err); d != nil {
		a.report.found(findingOf(d))
		err = nil
	}
	a.report.conclude()
	if err == nil && a.report.Clean {
		err = a.rememberDone()
	}
	return err
}

// checks does what was asked for, up to the first damage of the log.
func (a *auditor) checks(ctx context.Context) error {
	if a.replayIndex {
		if err := a.scrapeFirst(ctx); err != nil {
			return err
		}
	}
	if err := a.followKeys(ctx); err != nil {
		return err
	}
	log, err := openPublishedLog(ctx, a.fetch, a.keys, a.parallel)
	if err != nil {
		return err
	}
	whole := a.content || a.replayIndex
	if a.memory.at.Size > 0 || !whole {
		if err := a.walkOn(ctx, log); err != nil {
			return err
		}
	}
	if whole {
		if err := a.walkAll(ctx, log); err != nil {
			return err
		}
	}
	return a.checkReceipts(ctx, log)
}

// walkOn walks the log on from where the last audit ended, and remembers.
func (a *auditor) walkOn(ctx context.Context, log *publishedLog) error {
	x := audit.Extension{From: a.memory.at, Past: a.memory.past, Seen: a.seen(), Reached: func(at audit.Position) error { return a.reach(ctx, log, at) }}
	at, err := a.walk(ctx, log, x)
	if err != nil {
		return errors.Join(err, a.memory.rewind())
	}
	return a.remember(log, at)
}

// walk walks the log and notes in the report what it came to. The error is a
// *audit.Damage where there is some; that the checkpoint was seen is remembered all the same.
func (a *auditor) walk(ctx context.Context, log *publishedLog, x audit.Extension) (audit.Position, error) {
	bar := cli.NewProgress(a.Console, int64(min(log.head.Size, math.MaxInt64)), "auditing "+a.ledger)
	defer bar.Finish()
	options := audit.Options{Verifiers: a.bounded(), Successors: a.keys, Ledger: a.ledger, Now: time.Now(), Progress: func(done, _ uint64) { bar.Set(done) }}
	report, at, err := audit.Extend(ctx, log, options, x)
	if err != nil {
		return at, err
	}
	a.report.Walked += report.Size - x.From.Size
	a.report.KeyUses += report.Keys
	a.report.signed(report.Checkpoint)
	if report.Damage != nil {
		if err := a.rememberDamaged(ctx, log, report.Damage); err != nil {
			a.Say("the checkpoint of the damaged log is not remembered: %v", err) // the damage comes first
		}
		return at, report.Damage
	}
	a.takeKeys(at.Keys, nil)
	a.report.walked(at)
	return at, a.checkOlder(at, x.Past)
}

// followKeys finds the keys that follow from those given: each was handed over by the one
// before. What the log's events say of them is remembered from earlier walks; what the
// server says counts only as far as the handovers show it: not for bounds, which the walk
// takes from the events, nor for the keys before those given, which may have been stolen
// since they were retired.
func (a *auditor) followKeys(ctx context.Context) error {
	answer, err := a.fetch.get(ctx, "/log/key", maxNote)
	if err != nil && !errors.Is(err, errTooMuch) {
		return err
	}
	var served *proofs.KeyHistory // nil: the keys that are given may do
	if err == nil && answer.status == http.StatusOK {
		if served, err = proofs.ParseLogKey(answer.body); err != nil {
			served = nil
		}
	}
	var walked *proofs.KeyHistory
	if a.memory != nil {
		walked = a.memory.history()
	}
	a.takeKeys(walked, served)
	return nil
}

// takeKeys takes over the keys that follow from those given, in the log as it was walked
// and as its server shows it. Either may be nil.
func (a *auditor) takeKeys(walked, served *proofs.KeyHistory) {
	a.keys, a.known, a.histories = nil, nil, nil
	if walked != nil {
		a.keys = addKeys(a.keys, walked.Following(a.given...)...)
	}
	a.keys = addKeys(a.keys, a.given...)
	if served != nil {
		for _, key := range served.Following(a.keys...) {
			a.keys = addKeys(a.keys, key.Unbounded())
		}
	}
	a.known = addKeys(a.known, a.keys...)
	if walked != nil && slices.ContainsFunc(a.keys, walked.Trusts) {
		a.histories = append(a.histories, walked)
		a.known = addKeys(a.known, walked.Verifiers()...)
	}
	if served != nil && slices.ContainsFunc(a.keys, served.Trusts) {
		a.histories = append(a.histories, served)
		for _, key := range served.Verifiers() {
			a.known = addKeys(a.known, key.Unbounded())
		}
	}
	if a.memory != nil {
		a.memory.keys = a.keys
	}
}

// bounded are the given keys, with the bounds of those that are known to be retired.
func (a *auditor) bounded() []*proofs.Verifier {
	var list []*proofs.Verifier
	if walked := a.memory.history(); walked != nil {
		for _, key := range walked.Verifiers() {
			if slices.ContainsFunc(a.given, func(v *proofs.Verifier) bool { return v.String() == key.String() }) {
				list = append(list, key)
			}
		}
	}
	return addKeys(list, a.given...)
}

// addKeys appends those keys that are not in the list.
func addKeys(list []*proofs.Verifier, keys ...*proofs.Verifier) []*proofs.Verifier {
	for _, key := range keys {
		if !slices.ContainsFunc(list, func(v *proofs.Verifier) bool { return v.String() == key.String() }) {
			list = append(list, key)
		}
	}
	return list
}
