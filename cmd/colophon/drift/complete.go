package drift

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
)

// completeNames completes the first argument from a fixed list of names. It completes the following
// arguments, up to most arguments in total, with the values that runs have for the name given as the
// first argument.
func (d *commands) completeNames(names []string, most int) completion.Func {
	return func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return completion.FromList(names)(command, args, toComplete)
		case len(args) < most:
			return completed(d, command, "/drift/groups", url.Values{"by": {args[0]}}, func(g wire.RunGroup) string { return g.Value })
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRows completes the first argument with the value of each row of the list at path.
func completeRows[R any](d *commands, path string, value func(R) string) completion.Func {
	return completion.FirstArgumentOnly(func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completed(d, command, path, url.Values{}, value)
	})
}

// completed returns one value for each row on the first page of a list. It returns no values if the
// request fails.
func completed[R any](d *commands, command *cobra.Command, path string, query url.Values, value func(R) string) (values []string, _ cobra.ShellCompDirective) {
	defer limitTime(command)()
	page, _, err := fetch[wire.Page[R]](d, command, path, query)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, row := range page.Rows {
		values = append(values, cli.QuoteCell(value(row)))
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// limitTime sets a time limit for completing an argument. The caller must call cancel.
func limitTime(command *cobra.Command) (cancel context.CancelFunc) {
	ctx, cancel := context.WithTimeout(command.Context(), completion.Timeout)
	command.SetContext(ctx)
	return cancel
}
