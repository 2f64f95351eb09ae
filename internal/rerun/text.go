package rerun

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"colophon/internal/cli"
)

// WriteText writes the request as it would be sent to an endpoint. It never writes the key.
func (r *Request) WriteText(out io.Writer, to *Endpoint) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "POST %s\nContent-Type: application/json\n", r.URL)
	if to.APIKey != "" {
		fmt.Fprintf(&text, "Authorization: Bearer $%s\n", to.APIKeyEnvVar)
	}
	text.WriteByte('\n')
	if err := cli.PrintJSON(&text, r.Body); err != nil {
		return err
	}
	_, err := text.WriteTo(out)
	return err
}

// Cells returns the cells of a table row that describes the run. They contain the event, whether
// the output equals the recorded output, the output's hash, and the cause.
func (r *Run) Cells() []string {
	equal, cause := "no", cli.NoValueCell
	if r.OutputMatches {
		equal = "yes"
	}
	if r.Cause != "" {
		cause = cli.QuoteCell(string(r.Cause))
	}
	return []string{cli.FormatUint(r.Seq), equal, cli.QuoteCell(r.OutputHash), cause}
}

// WriteText writes each distinct run summary once, with the number of runs that share it. Then it
// writes the conclusion.
func (r *Report) WriteText(out io.Writer) error {
	said := make(map[string]uint64)
	for _, run := range r.Runs {
		if run.Summary != "" {
			said[run.Summary]++
		}
	}
	var text strings.Builder
	for _, says := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&text, "\n%s: %s", cli.FormatCount(said[says], "run"), cli.QuoteCell(says))
	}
	if text.Len() > 0 {
		text.WriteString("\n\n")
	}
	_, err := fmt.Fprintf(out, "%s%s\n", text.String(), r.Summary)
	return err
}
