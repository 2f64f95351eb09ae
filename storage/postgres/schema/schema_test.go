package schema

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	sqlComment = regexp.MustCompile(`(?m)^\s*--.*$`)
	// additive matches schema changes that cannot break the statements of earlier builds.
	additive = regexp.MustCompile(`^(CREATE TABLE IF NOT EXISTS|CREATE INDEX IF NOT EXISTS|ALTER TABLE \w+ ADD COLUMN IF NOT EXISTS) `)
)

// Migrations only add to the tables, because servers of the previous build use the same tables
// during a rolling upgrade.
func TestMigrationsOnlyAdd(t *testing.T) {
	texts, err := steps()
	require.NoError(t, err)
	require.NotEmpty(t, texts)
	for i, text := range texts {
		for statement := range strings.SplitSeq(sqlComment.ReplaceAllString(text, ""), ";\n") {
			statement = strings.Join(strings.Fields(statement), " ")
			if statement == "" {
				continue
			}
			require.Regexp(t, additive, statement, "step %d", i+1)
			if strings.HasPrefix(statement, "ALTER") && strings.Contains(statement, " NOT NULL") {
				require.Contains(t, statement, " DEFAULT ", "step %d: earlier builds leave the column out", i+1)
			}
		}
	}
}
