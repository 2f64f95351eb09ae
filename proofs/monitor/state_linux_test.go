package monitor

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If an audit without a state file fails to start, it leaves no temporary folder behind. In this
// test, it can create the folder but no files in it, because their paths would be too long.
func TestFailedAuditLeavesNoFiles(t *testing.T) {
	const (
		longest = syscall.PathMax - 1 // longest possible path; the system also counts the terminating zero byte
		name    = len("/colophon-audit-") + 10
	)
	temporary := t.TempDir()
	for missing := longest - name - len(temporary); missing > 1; missing = longest - name - len(temporary) {
		temporary = filepath.Join(temporary, strings.Repeat("d", min(missing-1, 200)))
	}
	require.NoError(t, os.MkdirAll(temporary, 0o700))
	t.Setenv("TMPDIR", temporary)
	_, err := openState("", nil)
	require.ErrorIs(t, err, syscall.ENAMETOOLONG)
	require.ErrorContains(t, err, factsFile)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
}
