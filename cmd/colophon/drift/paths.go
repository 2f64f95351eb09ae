package drift

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
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
and, with --status, only those that are new, modified, unchanged, incomparable or gone.
With PATH_ID, it shows the history of one path; drift compare --text shows how the texts
of two of its events differ.`,
		Example: `  colophon drift paths
  colophon drift paths harrow-vale --all
  colophon drift paths harrow-vale --build 89023717b66e --status modified
  colophon drift paths harrow-vale 811d1f03`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			switch build := command.Flags().Changed("build"); {
			case len(args) != 1 && build, command.Flags().Changed("status") && !build:
				return cli.Exitf(cli.ExitUsage, "--build needs PROJECT and no PATH_ID, and --status needs --build")
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
	command.ValidArgsFunction = completeRows(d, "/paths", func(p wire.Project) string { return p.Project })
	command.Flags().String("build", "", "list the paths of this `build`")
	command.Flags().String("status", "", "with --build: only paths that are new, modified, unchanged, incomparable or gone (`category`)")
	d.pageFlags(command.Flags())
	return command
}

// pathsOfBuild prints the paths of a build. With --status gone, it prints the paths of the base that
// the build no longer has.
func pathsOfBuild(d *commands, command *cobra.Command, project string) error {
	build, _ := command.Flags().GetString("build")
	status, _ := command.Flags().GetString("status")
	path, query := "/paths/"+url.PathEscape(project), d.query(command)
	if status == "gone" {
		path += "/builds/" + url.PathEscape(build) + "/gone"
	} else {
		query.Set("build", build)
		if status != "" {
			query.Set("status", status)
		}
	}
	t := cli.NewTable(d.Out, cli.TextColumn("path"), cli.NumberColumn("event"), cli.TextColumn("category"), cli.TextColumn("validated"), cli.TextColumn("route"))
	return list(d, command, path, query, t, "no path of that build passes the filter", func(p wire.Path) []string {
		return []string{cli.Plain(p.PathID), cli.Decimal(p.Seq), cli.Plain(p.Category), strconv.FormatBool(p.Validated), cli.Plain(strings.Join(p.Route, " → "))}
	})
}

func (d *commands) projects(command *cobra.Command) error {
	t := cli.NewTable(d.Out, cli.TextColumn("project"), cli.NumberColumn("paths"), cli.NumberColumn("builds"), cli.NumberColumn("collisions"), cli.NumberColumn("first event"))
	return list(d, command, "/paths", d.query(command), t, "no paths are recorded", func(r wire.Project) []string {
		return []string{cli.Plain(r.Project), cli.Decimal(r.Paths), cli.Decimal(r.Builds), cli.Decimal(r.Collisions), cli.Decimal(r.Seq)}
	})
}

func (d *commands) builds(command *cobra.Command, project string) error {
	t := cli.NewTable(d.Out, cli.TextColumn("build"), cli.TextColumn("base"), cli.NumberColumn("new"), cli.NumberColumn("modified"), cli.NumberColumn("unchanged"),
		cli.NumberColumn("incomparable"), cli.NumberColumn("gone"), cli.NumberColumn("paths"), cli.NumberColumn("first event"), cli.TextColumn("recorded"))
	path := "/paths/" + url.PathEscape(project) + "/builds"
	return list(d, command, path, d.query(command), t, "no record of the project names a build", func(r wire.Build) []string {
		return []string{cli.Plain(r.Build), cli.PlainOr(r.Base), cli.Decimal(r.New), cli.Decimal(r.Modified), cli.Decimal(r.Unchanged),
			cli.Decimal(r.Incomparable), cli.Decimal(r.Gone), cli.Decimal(r.Paths), cli.Decimal(r.Seq), cli.Plain(string(r.Time))}
	})
}
