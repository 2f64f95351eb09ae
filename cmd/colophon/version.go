package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
)

// version is set by the linker when a release is built (-ldflags -X main.version=v1.2.3).
var version string

// buildVersion returns the version that the linker set. Without it, buildVersion returns the module
// version or the commit that Go recorded, and "devel" if Go recorded neither.
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

// versionLine is the line that colophon version and colophon --version print.
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
