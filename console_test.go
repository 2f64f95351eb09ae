package colophon_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConsoleIsBuilt checks that console/dist was built from the current sources. It compares
// digests of the sources, so it does not need Node.js. CI also rebuilds the console and compares
// the bytes.
func TestConsoleIsBuilt(t *testing.T) {
	listed, err := os.ReadFile("console/dist/sources.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(listed)), "\n")
	require.Greater(t, len(lines), 10)
	for _, line := range lines {
		want, name, found := strings.Cut(line, "  ")
		require.True(t, found, line)
		text, err := os.ReadFile(filepath.Join("console", filepath.FromSlash(name)))
		require.NoError(t, err, "console/dist was built from a file that is gone: run make console")
		sum := sha256.Sum256(text)
		require.Equal(t, want, hex.EncodeToString(sum[:]), "%s has changed since console/dist was built: run make console", name)
	}
}
