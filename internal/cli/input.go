package cli

import (
	"io"
	"os"
)

// Maximum lengths of files, in bytes: of a record or a receipt; of an audit pack, which contains many records
// with their content; and of the manifest of an export, which has 43 bytes for each row.
const (
	MaxFile     = 64 << 20
	MaxPack     = 256 << 20
	MaxManifest = 1 << 30
)

// ReadFile reads a file of at most MaxFile bytes, or the standard input if path is "-".
func (c *Console) ReadFile(path string) ([]byte, error) { return c.ReadFileUpTo(path, MaxFile) }

// ReadFileUpTo is like ReadFile, with the limit most, in bytes.
func (c *Console) ReadFileUpTo(path string, most int64) ([]byte, error) {
	in := c.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, Exitf(ExitUsage, "%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, Exitf(ExitUsage, "reading %s: %w", path, err)
	}
	if int64(len(text)) > most {
		return nil, Exitf(ExitUsage, "%s is longer than %d bytes", path, most)
	}
	return text, nil
}
