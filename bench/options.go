package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"colophon/internal/cli"
)

// options are the flags that several commands share.
type options struct {
	colophon []string // each has the form [NAME=]FILE
	dir      string
	json     string
	seed     uint64
	quick    bool
}

func (o *options) bind(c *cobra.Command) {
	c.Flags().StringVar(&o.dir, "dir", os.TempDir(), "`folder` on the disk to be measured; a new folder in it is filled and removed")
	c.Flags().StringVar(&o.json, "json", "", "`file` for all figures")
	c.Flags().Uint64Var(&o.seed, "seed", 1, "`number` from which the records are generated")
	c.Flags().BoolVar(&o.quick, "quick", false, "run one short round, to see that everything works")
}

func (o *options) bindColophon(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.colophon, "colophon", nil, "`[name=]file` of a build of colophon; several builds are compared; default: one built from this tree")
}

// binary is a build of Colophon. name identifies it in the tables, and file is its path.
type binary struct{ name, file string }

// binaries returns the builds of Colophon to measure: the builds given by --colophon, or else one
// that is built from this tree.
func (o *options) binaries(ctx context.Context, scratch string) ([]binary, error) {
	var binaries []binary
	for _, given := range o.colophon {
		name, file, named := strings.Cut(given, "=")
		if !named {
			name, file = "colophon", given
		}
		binaries = append(binaries, binary{name, file})
	}
	if len(binaries) > 0 {
		return binaries, nil
	}
	file, err := buildColophon(ctx, scratch)
	return []binary{{"colophon", file}}, err
}

// buildColophon builds Colophon with the dependencies of Colophon's own module, not with those of
// the bench module.
func buildColophon(ctx context.Context, scratch string) (file string, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "colophon").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of colophon: %w; run this in the folder bench of the source, or give --colophon", err)
	}
	dir := strings.TrimSpace(string(root))
	version, err := exec.CommandContext(ctx, "git", "-C", dir, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil { // git is not installed, or the source is not a checkout
		version = []byte("devel")
	}
	file = filepath.Join(scratch, "colophon")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-X main.version="+strings.TrimSpace(string(version)), "-o", file, "./cmd/colophon")
	build.Dir = dir
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // release builds also disable cgo
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building colophon: %w: %s", err, out)
	}
	return file, nil
}

// version returns the version that a build prints.
func (b binary) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, b.file, "version").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", b.file, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// withScratch calls f with a new folder, and removes the folder afterwards.
func (o *options) withScratch(f func(scratch string) error) error {
	scratch, err := os.MkdirTemp(o.dir, "colophon-bench-")
	if err != nil {
		return fmt.Errorf("creating a folder below --dir: %w", err)
	}
	return errors.Join(f(scratch), os.RemoveAll(scratch))
}

// proofSizes returns the sizes, in leaves, of the trees for which inclusion proofs are measured.
func (o *options) proofSizes() []int {
	if o.quick {
		return []int{1000, 3000}
	}
	return []int{10_000, 100_000, 1_000_000}
}

// writeJSON writes the figures to a file as JSON, unless file is "".
func writeJSON[F any](file string, figures F) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// newProgress returns a progress bar that shows the remaining time. It shows nothing if standard
// error is not a terminal.
func newProgress(total int, what string) *cli.Progress {
	return cli.NewProgress(&cli.Console{Err: os.Stderr}, int64(total), what, progressbar.OptionSetPredictTime(true))
}
