package main

import (
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/proofs/monitor"
)

// auditFlags is the command line of audit.
type auditFlags struct {
	server remote.Options
	monitor.Options
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
	o := auditFlags{Options: monitor.Options{Timeout: time.Minute, Interval: 10 * time.Second}}
	command := &cobra.Command{
		Use:   "audit URL --key KEY",
		Short: "Check a ledger from afar, trusting nobody",
		Long:  auditHelp + monitor.ExitsHelp(),
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
			return monitor.Run(command.Context(), c, server, o.Options)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.Key, "key", c.Environment("COLOPHON_KEY", ""), "verifier `key` of the ledger, or a file with it, or COLOPHON_KEY")
	flags.StringVar(&o.State, "state", "", "`file` that remembers the audit; made if absent, with a folder of that name and .d")
	flags.StringArrayVar(&o.Against, "against", nil, "`file` with a checkpoint of the ledger that somebody has seen; may be repeated")
	flags.BoolVar(&o.Content, "content", false, "fetch and check all content too")
	flags.BoolVar(&o.ReplayIndex, "replay-index", false, "derive the answers from the log, and compare the server's with them")
	flags.IntVar(&o.Sample, "sample", 0, "with --replay-index, ask about `n` values of each kind; 0 is all of a small log, 200 of a larger one, -1 all")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that chooses the sample, the order of the questions, and the entries of --receipts; 0 is any, which the report names")
	flags.IntVar(&o.Receipts, "receipts", 0, "fetch and verify the receipts of `n` entries, and as many proofs")
	flags.StringVar(&o.MetricsURL, "metrics-url", "", "`URL` of /metrics, where it has an address of its own, which gets no token")
	flags.BoolVar(&o.Follow, "follow", false, "go on watching the ledger until interrupted or something is wrong")
	flags.DurationVar(&o.Interval, "interval", o.Interval, "with --follow, `time` between two looks")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "longest `time` that one answer may take")
	flags.IntVar(&o.Parallel, "parallel", 8, "`requests` at once")
	flags.BoolVar(&o.JSON, "json", false, "print the report as JSON; with --follow, each on a line")
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
	o.Ledger, o.server.URL = name, server.String()
	return nil
}

func (o *auditFlags) validate(command *cobra.Command) error {
	given := command.Flags().Changed
	switch {
	case o.Key == "":
		return cli.Exitf(cli.ExitUsage, "--key is missing: give the ledger's verifier key, as its operator has published it, or a file with it")
	case o.Follow && (o.ReplayIndex || o.Content || o.Receipts > 0):
		return cli.Exitf(cli.ExitUsage, "--follow watches the log alone; audit content, answers and receipts without it")
	case (given("sample") || given("metrics-url")) && !o.ReplayIndex:
		return cli.Exitf(cli.ExitUsage, "--sample and --metrics-url mean nothing without --replay-index")
	case given("seed") && !o.ReplayIndex && o.Receipts == 0:
		return cli.Exitf(cli.ExitUsage, "--seed means nothing without --replay-index or --receipts")
	case o.MetricsURL != "" && !strings.HasPrefix(o.MetricsURL, "http://") && !strings.HasPrefix(o.MetricsURL, "https://"):
		return cli.Exitf(cli.ExitUsage, "--metrics-url %q is not a URL like %s/metrics", o.MetricsURL, remote.DefaultURL)
	case o.Timeout <= 0 || o.Interval <= 0 || o.Parallel < 1 || o.Sample < -1 || o.Receipts < 0:
		return cli.Exitf(cli.ExitUsage, "--timeout, --interval and --parallel must be positive, --sample at least -1, --receipts at least 0")
	}
	return nil
}
