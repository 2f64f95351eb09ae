package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/rerun"
)

// maxReruns is the largest accepted value of -n.
const maxReruns = 10_000

// rerunCommand holds the flags of the rerun command, which generates the output of a record again.
type rerunCommand struct {
	*cli.Console
	server      remote.Options
	ledger      string
	endpoint    string
	api         string
	keyVariable string
	prompt      string
	labels      map[string]string
	runs        int
	timeout     time.Duration
	dryRun      bool
	json        bool
}

func newRerun(c *cli.Console) *cobra.Command {
	r := &rerunCommand{Console: c}
	command := &cobra.Command{
		Use:   "rerun SEQ --endpoint URL",
		Short: "Generate a recorded output again, and count how often it comes out the same",
		Long: `Generate the output of the IPC record SEQ again, with its payload, system prompt, model,
temperature, max_tokens and seed. rerun posts each new output to the same ledger, with
the label rerun_of=SEQ. The table shows for each run whether the output equals the
recorded one and, if not, what caused the change according to the ledger. At the end,
rerun says how reproducible the record is.

The endpoint is an Ollama server, or has an API like OpenAI's; the URL of such an API ends
in /v1, or give --api openai. The prompt is the payload's member messages or prompt, or
the member that --prompt names. If the payload has none of them, the prompt is the JSON
text of the payload. rerun also sends the payload's members top_p, top_k, min_p, stop and
the penalties and, to Ollama, its member options. --dry-run prints the request. rerun
reads the content of the record, which must not be erased; this needs the scope content.

rerun reads the API key of the endpoint from the environment variable
COLOPHON_ENDPOINT_KEY, or from the one that --key-variable names.

Exit codes: 0 all runs are posted, whatever their outputs, 1 a request failed, 2 bad
arguments, 3 the server or the endpoint cannot be reached.`,
		Example: `  colophon rerun 41 --endpoint http://127.0.0.1:11434 -n 10
  colophon rerun 41 --endpoint https://llm.example/v1 --key-variable OPENAI_API_KEY
  colophon rerun 41 --endpoint http://127.0.0.1:11434 --prompt instruction --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return r.run(command.Context(), args[0]) },
	}
	flags := command.Flags()
	r.server.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &r.ledger)
	flags.StringVar(&r.endpoint, "endpoint", "", "`URL` of the endpoint that generates the output")
	flags.StringVar(&r.api, "api", "", "`kind` of the endpoint's API: ollama or openai; the default depends on the endpoint's URL")
	flags.StringVar(&r.keyVariable, "key-variable", "COLOPHON_ENDPOINT_KEY", "environment `variable` with the API key of the endpoint")
	flags.StringVar(&r.prompt, "prompt", "", "`member` of the payload that contains the prompt")
	flags.StringToStringVar(&r.labels, "label", nil, "label for the posted runs, in the form `NAME=VALUE`; may be repeated")
	flags.IntVarP(&r.runs, "runs", "n", 10, "`number` of runs")
	flags.DurationVar(&r.timeout, "timeout", 5*time.Minute, "maximum `time` for one run")
	flags.BoolVar(&r.dryRun, "dry-run", false, "print the request to the endpoint, without sending it")
	flags.BoolVar(&r.json, "json", false, "print the report as JSON or, with --dry-run, the request")
	return command
}

func (r *rerunCommand) run(ctx context.Context, arg string) error {
	seq, endpoint, err := r.arguments(arg)
	if err != nil {
		return err
	}
	server, err := r.server.Connect(r.Console)
	if err != nil {
		return err
	}
	if !r.dryRun {
		if err := checkWritable(ctx, server, r.ledger); err != nil {
			return err
		}
	}
	recorded, err := rerun.FetchRecord(ctx, server.Ledger(r.ledger), seq)
	if err != nil {
		return server.ExplainFatal(err)
	}
	request, err := endpoint.NewRequest(recorded, r.prompt)
	if err != nil {
		return err
	}
	r.caution(recorded, request)
	if r.dryRun {
		if r.json {
			return cli.PrintAsJSON(r.Console, request)
		}
		return request.WriteText(r.Out, endpoint)
	}
	// The client retries while the ledger's server is busy, so that newly generated outputs are not
	// lost.
	patient, err := server.NewClient(client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 5}))
	if err != nil {
		return err
	}
	plan := rerun.Plan{Record: recorded, Endpoint: endpoint, Request: request, RunCount: r.runs, Labels: r.labels}
	table := cli.NewTable(r.Out, cli.NumberColumn("event"), cli.TextColumn("equal"), cli.TextColumn("output"), cli.TextColumn("cause"))
	report, err := plan.Run(ctx, patient.Ledger(r.ledger), func(run rerun.Run) error {
		if r.json {
			return nil
		}
		return table.WriteRows([][]string{run.Cells()})
	})
	switch {
	case ctx.Err() != nil:
		err = cli.ExitErrorf(cli.ExitFailed, "interrupted after %s; the runs that were posted stay in the ledger", cli.FormatCount(uint64(len(report.Runs)), "run"))
	case err != nil:
		err = server.ExplainFatal(err)
	}
	if err != nil && len(report.Runs) == 0 {
		return err
	}
	if r.json {
		return errors.Join(err, cli.PrintAsJSON(r.Console, report))
	}
	return errors.Join(err, report.WriteText(r.Out))
}

// arguments parses the argument and checks the flags. It sends no requests.
func (r *rerunCommand) arguments(arg string) (seq uint64, endpoint *rerun.Endpoint, err error) {
	if seq, err = cli.ParseSeq(arg); err != nil {
		return 0, nil, err
	}
	switch {
	case r.endpoint == "":
		return 0, nil, cli.ExitErrorf(cli.ExitUsage, "--endpoint is missing: give the URL of the endpoint that generates the output, such as http://127.0.0.1:11434")
	case r.runs < 1 || r.runs > maxReruns:
		return 0, nil, cli.ExitErrorf(cli.ExitUsage, "-n: must be a number from 1 to %d", maxReruns)
	case r.timeout <= 0:
		return 0, nil, cli.ExitErrorf(cli.ExitUsage, "--timeout: must be a positive duration, such as 5m")
	}
	if endpoint, err = rerun.NewEndpoint(r.endpoint, rerun.API(r.api)); err != nil {
		return 0, nil, err
	}
	endpoint.APIKey, endpoint.APIKeyEnvVar, endpoint.Timeout = r.EnvOr(r.keyVariable, ""), r.keyVariable, r.timeout
	if strings.ContainsFunc(endpoint.APIKey, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return 0, nil, cli.ExitErrorf(cli.ExitUsage, "%s contains characters that are not valid in an API key, such as spaces; set it to the key alone", r.keyVariable)
	}
	if endpoint.ExposesKey() {
		r.PrintErrf("warning: the API key is sent to %s unencrypted; use https if others can read the traffic", endpoint)
	}
	return seq, endpoint, nil
}

// caution warns about anything that could distort the comparison with the recorded output. It
// reports a record that is not live, wrong claims, and payload members that rerun does not send.
func (r *rerunCommand) caution(recorded *rerun.Record, request *rerun.Request) {
	if recorded.State != wire.StateLive {
		r.PrintErrf("event %d has the state %s, not live", recorded.Seq, recorded.State)
	}
	if len(recorded.MismatchedFields) > 0 {
		r.PrintErrf("event %d has wrong claims: %s", recorded.Seq, strings.Join(recorded.MismatchedFields, ", "))
	}
	if len(request.UnsentMembers) > 0 {
		r.PrintErrf("rerun does not send these payload members: %s", strings.Join(request.UnsentMembers, ", "))
	}
}
