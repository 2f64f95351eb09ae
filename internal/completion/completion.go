// Package completion implements shell completion for the values of flags and arguments.
package completion

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/rerun"
	"colophon/ledger"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/formats"
)

var (
	// Groupings lists the names by which runs can be grouped.
	Groupings = []string{"ipc_id", "input", "input_hash", "system_prompt_hash", "output_hash", "model", "ollama_build_hash", "label:"}
	// EffectVariables lists the variables whose effects can be queried.
	EffectVariables = []string{"input", "input_hash", "system_prompt_hash", "model", "temperature", "max_tokens", "seed", "ollama_build_hash", "label:"}
)

// flagValues maps the name of a flag to its possible values, which shell completion offers.
var flagValues = map[string][]string{
	"api":         {string(rerun.APIOllama), string(rerun.APIOpenAI)},
	"by":          Groupings,
	"format":      AddPrefix("", formats.ImportFormats),
	"kind":        AddPrefix("", record.RecordKinds[:]),
	"on-mismatch": {ledger.MismatchPolicyAccept, ledger.MismatchPolicyReject},
	"sort":        {"recent", "runs", "stability", "flips"},
	"status":      AddPrefix("", paths.Categories[:]),
	"where":       append(AddPrefix("state=", record.States[:]), AddPrefix("incomplete=", fields.IPCParts[1:])...), // IPCParts[0] is omitted: every IPC record has an input
}

// AddPrefix converts the elements of a list to strings and puts prefix in front of each.
func AddPrefix[S ~string](prefix string, list []S) []string {
	texts := make([]string, len(list))
	for i, name := range list {
		texts[i] = prefix + string(name)
	}
	return texts
}

// RegisterAllFlags registers shell completion for the flags of a command and of its subcommands.
func RegisterAllFlags(c *cli.Console, command *cobra.Command) {
	command.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, completes := command.GetFlagCompletionFunc(f.Name); completes {
			return // the command has its own completion function
		}
		var complete Func
		switch values, known := flagValues[f.Name]; {
		case f.Name == "ledger":
			complete = LedgerNames(c)
		case known:
			complete = FromList(values)
		default:
			return
		}
		RegisterFlag(command, f.Name, complete)
	})
	for _, below := range command.Commands() {
		RegisterAllFlags(c, below)
	}
}

// RegisterFlag registers complete as the completion function of a flag. It panics if the command
// has no such flag or the flag already has a completion function.
func RegisterFlag(command *cobra.Command, name string, complete Func) {
	if err := command.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err)
	}
}

// Func lists the possible values of a flag or of the next argument. toComplete is what the user has
// typed so far. The list is empty if the server does not answer.
type Func = func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// FromList returns a Func that completes the given values. If any of them ends with a colon, which
// means that it is only a prefix, the shell adds no space after a completion.
func FromList(values []string) Func {
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(values, func(v string) bool { return strings.HasSuffix(v, ":") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return cobra.FixedCompletions(values, directive)
}

// FirstArgumentOnly returns a Func that uses complete for the first argument and completes no others.
func FirstArgumentOnly(complete Func) Func {
	return func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(command, args, toComplete)
	}
}

// Timeout limits how long shell completion waits for the server.
const Timeout = time.Second

// LedgerNames returns a Func that completes the names of the ledgers on the server that the flags or
// the environment specify.
func LedgerNames(c *cli.Console) Func {
	return func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var from remote.Options
		from.Bind(c, pflag.NewFlagSet("", pflag.ContinueOnError))
		for name, value := range map[string]*string{"server": &from.URL, "token-file": &from.TokenFile, "ca-file": &from.CAFile} {
			if f := command.Flag(name); f != nil {
				*value = f.Value.String()
			}
		}
		server, err := from.Connect(c, client.WithTimeout(Timeout))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, _, err := remote.DoJSON[wire.LedgerList](command.Context(), server, client.Request{Path: "/v1/ledgers"})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, l := range list.Ledgers {
			found = append(found, cli.QuoteCell(l.Name))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
