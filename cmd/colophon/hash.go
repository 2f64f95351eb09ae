package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"colophon/ledger/record"
)

func newHash(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "hash KIND FILE",
		Short: "Compute the hashes and checks of a record, without a server",
		Long: `Compute what the ledger would record of a record, and print it as JSON: its
hashes, its checks, its digests. KIND is ipc_record, run_dag, citation_set or
path_fingerprint; FILE is the record as it would be posted, - the standard input.

Exit codes: 1 the record is not acceptable, 2 bad arguments or no such file.`,
		Example: `  colophon hash ipc_record record.json`,
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			kind := record.Kind(args[0])
			if !slices.Contains(record.Kinds[:], kind) {
				return exitf(exitUsage, "%q is no kind; it is one of %s", kind, record.Kinds)
			}
			body, err := c.readFile(args[1])
			if err != nil {
				return err
			}
			return printHashes(c, kind, body)
		},
	}
}

func printHashes(c *console, kind record.Kind, body []byte) error {
	r, err := record.NoLimits().Parse(kind, body)
	if refused := (*record.Error)(nil); errors.As(err, &refused) {
		for _, p := range refused.Problems {
			c.say("%s", place{p.Pointer, p.Detail})
		}
		return &exitError{code: exitFailed}
	}
	if err != nil {
		return err
	}
	defer r.Release()
	return printJSON(c.out, r.AppendComputed(nil))
}

// Bounds of files, in bytes: of a record or a receipt, and of an audit pack, which has
// many with their content.
const (
	maxFile = 64 << 20
	maxPack = 256 << 20
)

// readFile reads a file of at most maxFile bytes, or the standard input for "-".
func (c *console) readFile(path string) ([]byte, error) { return c.readFileUpTo(path, maxFile) }

// readFileUpTo is readFile with another bound.
func (c *console) readFileUpTo(path string, most int64) ([]byte, error) {
	in := c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, exitf(exitUsage, "%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, exitf(exitUsage, "reading %s: %w", path, err)
	}
	if int64(len(text)) > most {
		return nil, exitf(exitUsage, "%s is longer than %d bytes", path, most)
	}
	return text, nil
}

// printJSON prints a JSON value with indentation, otherwise as it is.
func printJSON(out io.Writer, value []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, value, "", "  "); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	text.WriteByte('\n')
	_, err := text.WriteTo(out)
	return err
}
