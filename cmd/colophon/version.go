package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
)

// version is the version of a release. The linker sets it (-ldflags -X main.version=v1.2.3).
var version string

// buildVersion returns the version set by the linker. If there is none, it returns the module
// version or the commit that Go recorded, or "devel" if Go recorded neither.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "devel-" + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return "devel"
}

// versionLine returns the line that colophon version and colophon --version print.
func versionLine() string {
	return fmt.Sprintf("colophon %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary and of the Go release that built it",
		Example: "  colophon version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(c.Out, versionLine())
			return err
		},
	}
}
