package main

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

func (d *driftCommand) newPaths() *cobra.Command {
	command := &cobra.Command{
		Use:   "paths [PROJECT]",
		Short: "Show what became of a story's paths from build to build",
		Long: `Show the builds of a project in order: how many of their records are new, modified
and unchanged, and how many paths are gone that the build before had. Without
PROJECT, show the projects.`,
		Example: `  colophon drift paths
  colophon drift paths harrow-vale --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return d.projects(command)
			}
			return d.builds(command, args[0])
		},
	}
	d.pageFlags(command.Flags())
	return command
}

func (d *driftCommand) projects(command *cobra.Command) error {
	type row struct {
		Seq                       uint64
		Project                   string
		Paths, Builds, Collisions uint64
	}
	t := newTable(d.out, column{name: "project"}, column{"paths", true}, column{"builds", true}, column{"collisions", true}, column{"first event", true})
	return list(d, command, "/paths", d.query(command), t, "no paths are recorded", func(r row) []string {
		return []string{plain(r.Project), decimal(r.Paths), decimal(r.Builds), decimal(r.Collisions), decimal(r.Seq)}
	})
}

func (d *driftCommand) builds(command *cobra.Command, project string) error {
	type row struct {
		Seq                                   uint64
		Build, Time                           string
		New, Modified, Unchanged, Gone, Paths uint64
	}
	t := newTable(d.out, column{name: "build"}, column{"new", true}, column{"modified", true}, column{"unchanged", true},
		column{"gone", true}, column{"paths", true}, column{"first event", true}, column{name: "recorded"})
	path := "/paths/" + url.PathEscape(project) + "/builds"
	return list(d, command, path, d.query(command), t, "no record of the project names a build", func(r row) []string {
		return []string{plain(r.Build), decimal(r.New), decimal(r.Modified), decimal(r.Unchanged),
			decimal(r.Gone), decimal(r.Paths), decimal(r.Seq), plain(r.Time)}
	})
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
