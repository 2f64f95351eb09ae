package drift

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
	index "colophon/ledger/index/paths"
)

func (d *commands) newPaths() *cobra.Command {
	command := &cobra.Command{
		Use:   "paths [PROJECT [PATH_ID]]",
		Short: "Show how the paths of a project change from build to build",
		Long: `Show how the paths of a project change from build to build. For each build, the table
has its base (the build that it is compared with), the numbers of new, modified, unchanged
and incomparable records, and the number of paths of the base that are gone. A record is
incomparable if its hash version differs from that of the path's previous record, and one
of the two records was posted without its text.

Without PROJECT, paths lists the projects. With --build, it lists the paths of one build
and, with --status, only those that are new, modified, unchanged, incomparable, gone,
validated or unvalidated. The first characters of a build's name suffice if no
other build's name begins with them. With PATH_ID, paths shows the history of one path;
drift compare --text shows how the texts of two of its events differ.`,
		Example: `  colophon drift paths
  colophon drift paths harrow-vale --all
  colophon drift paths harrow-vale --build 89023717b66e --status modified
  colophon drift paths harrow-vale --build 8902 --status unvalidated
  colophon drift paths harrow-vale 811d1f03`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			switch build := command.Flags().Changed("build"); {
			case len(args) != 1 && build, command.Flags().Changed("status") && !build:
				return cli.ExitErrorf(cli.ExitUsage, "--build requires PROJECT without PATH_ID, and --status requires --build")
			case len(args) == 0:
				return d.projects(command)
			case len(args) == 2:
				return pathHistory(d, command, args[0], args[1])
			case build:
				return pathsOfBuild(d, command, args[0])
			}
			return d.builds(command, args[0])
		},
	}
	command.ValidArgsFunction = completeRows(d, "/paths", func(p wire.ProjectRow) string { return p.Project })
	command.Flags().String("build", "", "list the paths of this `build`")
	command.Flags().String("status", "", "with --build: only paths that are "+strings.Join(pathStatuses, ", ")+" (`category`)")
	completion.RegisterFlag(command, "status", completion.FromList(pathStatuses))
	completion.RegisterFlag(command, "build", completeBuild(d))
	d.pageFlags(command.Flags())
	return command
}

// These are the values of --status that are not categories of paths.
const (
	gone        = string(index.CategoryGone)
	validated   = "validated"
	unvalidated = "unvalidated"
)

// pathStatuses lists the values of --status.
var pathStatuses = append(completion.AddPrefix("", index.Categories[:]), gone, validated, unvalidated)

// pathsOfBuild prints the paths of the build named by --build. If there is no such build, but the
// name of exactly one build starts with the text, it prints the paths of that build. With --status
// gone, it prints the paths of the base build that the build no longer has.
func pathsOfBuild(d *commands, command *cobra.Command, project string) error {
	build, _ := command.Flags().GetString("build")
	status, _ := command.Flags().GetString("status")
	if command.Flags().Changed("status") && !slices.Contains(pathStatuses, status) {
		return cli.ExitErrorf(cli.ExitUsage, "--status: must be one of %s", strings.Join(pathStatuses, ", "))
	}
	unknown := printBuild(d, command, project, build, status)
	if !errors.Is(unknown, client.ErrNotFound) {
		return unknown
	}
	var matches []string
	query := d.asOf(command)
	query.Set("limit", "1000")
	err := forEachRow(d, command, buildsPath(project), query, func(b wire.BuildRow) bool {
		if strings.HasPrefix(b.Build, build) {
			matches = append(matches, b.Build)
		}
		return len(matches) <= maxValues
	})
	switch {
	case errors.Is(err, client.ErrNotFound), len(matches) == 0 && err == nil:
		return unknown
	case err != nil:
		return err
	case len(matches) > 1:
		return cli.ExitErrorf(cli.ExitFailed, "several build names begin with %s: %s; use a longer prefix", cli.QuoteCell(build), cli.QuoteCell(fewOf(matches)))
	}
	d.PrintErrf("build %s", cli.QuoteCell(matches[0]))
	return printBuild(d, command, project, matches[0], status)
}

// printBuild prints the paths of a build that have the given status, or all of its paths if status
// is "".
func printBuild(d *commands, command *cobra.Command, project, build, status string) error {
	path, query := "/paths/"+url.PathEscape(project), d.query(command)
	switch status {
	case gone:
		path = buildsPath(project) + "/" + url.PathEscape(build) + "/gone"
	case validated, unvalidated:
		query.Set("validated", strconv.FormatBool(status == validated))
	case "":
	default:
		query.Set("status", status)
	}
	if status != gone {
		query.Set("build", build)
	}
	t := cli.NewTable(d.Out, cli.TextColumn("path"), cli.NumberColumn("event"), cli.TextColumn("category"), cli.TextColumn("validated"), cli.TextColumn("route"))
	return list(d, command, path, query, t, "no path of the build matches the filter", func(p wire.PathRow) []string {
		return []string{cli.QuoteCell(p.PathID), cli.FormatUint(p.Seq), cli.QuoteCell(p.Category), strconv.FormatBool(p.Validated), cli.QuoteCell(strings.Join(p.Route, " → "))}
	})
}

// buildsPath returns the API path that lists a project's builds.
func buildsPath(project string) string { return "/paths/" + url.PathEscape(project) + "/builds" }

// completeBuild completes a flag with the names of builds. The first argument of the command is the
// name of their project.
func completeBuild(d *commands) completion.Func {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completed(d, command, buildsPath(args[0]), url.Values{}, func(b wire.BuildRow) string { return b.Build })
	}
}

func (d *commands) projects(command *cobra.Command) error {
	t := cli.NewTable(d.Out, cli.TextColumn("project"), cli.NumberColumn("paths"), cli.NumberColumn("builds"), cli.NumberColumn("collisions"), cli.NumberColumn("first event"))
	return list(d, command, "/paths", d.query(command), t, "no paths are recorded", func(r wire.ProjectRow) []string {
		return []string{cli.QuoteCell(r.Project), cli.FormatUint(r.Paths), cli.FormatUint(r.Builds), cli.FormatUint(r.Collisions), cli.FormatUint(r.Seq)}
	})
}

func (d *commands) builds(command *cobra.Command, project string) error {
	t := cli.NewTable(d.Out, cli.TextColumn("build"), cli.TextColumn("base"), cli.NumberColumn("new"), cli.NumberColumn("modified"), cli.NumberColumn("unchanged"),
		cli.NumberColumn("incomparable"), cli.NumberColumn("gone"), cli.NumberColumn("paths"), cli.NumberColumn("first event"), cli.TextColumn("recorded"))
	return list(d, command, buildsPath(project), d.query(command), t, "no record of the project names a build", func(r wire.BuildRow) []string {
		return []string{cli.QuoteCell(r.Build), cli.QuoteOptionalCell(r.Base), cli.FormatUint(r.New), cli.FormatUint(r.Modified), cli.FormatUint(r.Unchanged),
			cli.FormatUint(r.Incomparable), cli.FormatUint(r.Gone), cli.FormatUint(r.Paths), cli.FormatUint(r.Seq), cli.QuoteCell(string(r.Time))}
	})
}
