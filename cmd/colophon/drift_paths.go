package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
)

func (d *driftCommand) newPaths() *cobra.Command {
	command := &cobra.Command{
		Use:   "paths [PROJECT [PATH_ID]]",
		Short: "Show how the paths of a project change from build to build",
		Long: `Show how the paths of a project change from build to build. For each build, the table
has the build that it is compared with, the numbers of new, modified, unchanged, and
incomparable records, and the number of paths that are gone since its base. A record is
incomparable if its hash version is another than that of the record before it, and one of
the two came without its text. Without PROJECT, paths lists the projects. With PATH_ID, it shows the history of one path.`,
		Example: `  colophon drift paths
  colophon drift paths harrow-vale --all`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return d.projects(command)
			}
			if len(args) == 2 {
				return pathHistory(d, command, args[0], args[1])
			}
			return d.builds(command, args[0])
		},
	}
	command.ValidArgsFunction = completeRows(d, "/paths", func(p wire.Project) string { return p.Project })
	d.pageFlags(command.Flags())
	return command
}

func (d *driftCommand) projects(command *cobra.Command) error {
	t := cli.NewTable(d.Out, cli.TextColumn("project"), cli.NumberColumn("paths"), cli.NumberColumn("builds"), cli.NumberColumn("collisions"), cli.NumberColumn("first event"))
	return list(d, command, "/paths", d.query(command), t, "no paths are recorded", func(r wire.Project) []string {
		return []string{cli.Plain(r.Project), cli.Decimal(r.Paths), cli.Decimal(r.Builds), cli.Decimal(r.Collisions), cli.Decimal(r.Seq)}
	})
}

func (d *driftCommand) builds(command *cobra.Command, project string) error {
	t := cli.NewTable(d.Out, cli.TextColumn("build"), cli.TextColumn("base"), cli.NumberColumn("new"), cli.NumberColumn("modified"), cli.NumberColumn("unchanged"),
		cli.NumberColumn("incomparable"), cli.NumberColumn("gone"), cli.NumberColumn("paths"), cli.NumberColumn("first event"), cli.TextColumn("recorded"))
	path := "/paths/" + url.PathEscape(project) + "/builds"
	return list(d, command, path, d.query(command), t, "no record of the project names a build", func(r wire.Build) []string {
		return []string{cli.Plain(r.Build), cli.PlainOr(r.Base), cli.Decimal(r.New), cli.Decimal(r.Modified), cli.Decimal(r.Unchanged),
			cli.Decimal(r.Incomparable), cli.Decimal(r.Gone), cli.Decimal(r.Paths), cli.Decimal(r.Seq), cli.Plain(string(r.Time))}
	})
}
