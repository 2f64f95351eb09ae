package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// Names that the shell completes.
var (
	groupings       = []string{"ipc_id", "input", "input_hash", "system_prompt_hash", "output_hash", "model", "label:"}
	effectVariables = []string{"input", "input_hash", "system_prompt_hash", "model", "temperature", "max_tokens", "seed"}
)

// fixed lets the shell complete the values of a flag.
func fixed(command *cobra.Command, flag string, values ...string) {
	if err := command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)); err != nil {
		panic(err) // the flag exists
	}
}

// completion lists the values that the next argument can have. It lists none if the server
// does not answer.
type completion = func(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// completeNames completes the first argument from a list, and the others by the values that runs
// have of it.
func (d *driftCommand) completeNames(names []string, most int) completion {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return names, cobra.ShellCompDirectiveNoFileComp
		case len(args) < most:
			return completed(d, command, "/drift/groups", url.Values{"by": {args[0]}}, func(g wire.Group) string { return g.Value })
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRows completes the first argument by the rows of a list.
func completeRows[R any](d *driftCommand, path string, value func(R) string) completion {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completed(d, command, path, url.Values{}, value)
	}
}

// completed returns the values of the first page of a list.
func completed[R any](d *driftCommand, command *cobra.Command, path string, query url.Values, value func(R) string) (values []string, _ cobra.ShellCompDirective) {
	page, _, err := fetchDrift[wire.Page[R]](d, command, path, query)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, row := range page.Rows {
		values = append(values, cli.Plain(value(row)))
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}
