package main

import (
	"colophon/internal/testing/ledgertest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Like audit, fsck gives advice for each finding.
func TestFsckGivesAdvice(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	for name, c := range map[string]struct {
		change func(*forge)
		says   string
	}{
		"content": {func(f *forge) { require.NoError(t, f.x.DeleteContent(f.contentOf("other", "output"))) }, "Then repeat the redactions"},
		"fork":    {func(f *forge) { f.rewrite(w.Size-1, `"actor":"anonymous"`, `"actor":"somebody"`) }, "high-water mark"},
		"event":   {func(f *forge) { f.rewrite(3, `"actor":"anonymous"`, `"actor":""`) }, "who could use the signing key"},
		"entry":   {func(f *forge) { f.flip(3, 60) }, `"A damaged log"`},
	} {
		data := w.Copy(t)
		f := newForge(t, w, data)
		c.change(f)
		f.done()
		o := commandLine(t.Context(), "fsck", "--data", data, "--key", w.Key)
		require.Equal(t, 1, o.code)
		_, advice, found := strings.Cut(o.stdout, "\n  what now  ")
		require.True(t, found, "%s: %s", name, o.stdout)
		require.Contains(t, advice, c.says, name)
	}
	o := commandLine(t.Context(), "fsck", "--data", w.DataDir, "--key", w.Key)
	require.NotContains(t, o.stdout, "what now")
}
