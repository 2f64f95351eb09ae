package cli_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
)

func TestTableGrows(t *testing.T) {
	var out bytes.Buffer
	tab := cli.NewTable(&out, cli.TextColumn("name"), cli.NumberColumn("n"))
	require.NoError(t, tab.WriteRows(nil))
	require.Empty(t, out.String(), "without rows, the table must have no header")
	require.NoError(t, tab.WriteRows([][]string{{"é", "1"}, {"be", "10"}}))
	require.NoError(t, tab.WriteRows([][]string{{"long er", "2"}, {"x", "200"}}))
	require.Equal(t, "NAME   N\né      1\nbe    10\nlong er    2\nx        200\n", out.String())
	require.Equal(t, 4, tab.RowCount)
}

// Text that comes from clients is printed without control characters.
func TestCellsArePlain(t *testing.T) {
	for text, want := range map[string]string{
		"claude-2.1": "claude-2.1", "a b": "a b", "ü→…": "ü→…", "": `""`, " a": `" a"`,
		"\x1b[2J": `"\x1b[2J"`, "a\nb": `"a\nb"`, "\u202e": `"\u202e"`, "\u00a0": `"\u00a0"`,
	} {
		require.Equal(t, want, cli.QuoteCell(text))
	}
}
