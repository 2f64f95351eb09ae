package cli

import (
	"io"
	"os"
)

// Maximum sizes of files, in bytes. MaxFileBytes applies to records and receipts. MaxPackBytes applies to audit packs,
// which contain many records with their content. MaxManifestBytes applies to the manifest of an export, which
// contains 43 bytes per row.
const (
	MaxFileBytes     = 64 << 20  // for records and receipts
	MaxPackBytes     = 256 << 20 // for audit packs
	MaxManifestBytes = 1 << 30   // for the manifest of an export
)

// ReadFile returns the contents of a file, or of standard input if path is "-". It returns an error
// if the contents are longer than MaxFileBytes bytes.
func (c *Console) ReadFile(path string) ([]byte, error) { return c.ReadFileUpTo(path, MaxFileBytes) }

// ReadFileUpTo is like ReadFile, but accepts at most limit bytes.
func (c *Console) ReadFileUpTo(path string, limit int64) ([]byte, error) {
	in := c.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, ExitErrorf(ExitUsage, "%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, ExitErrorf(ExitUsage, "reading %s: %w", path, err)
	}
	if int64(len(text)) > limit {
		return nil, ExitErrorf(ExitUsage, "%s is longer than %d bytes", path, limit)
	}
	return text, nil
}
