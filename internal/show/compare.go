package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/internal/cli"
)

// PrintIPCChange prints what caused the change from IPC record a to IPC record b.
func PrintIPCChange(ctx context.Context, c *cli.Console, t *TextReader, x *wire.IPCChange, a, b *wire.RecordAnswer, full bool) error {
	if _, err := fmt.Fprintf(c.Out, "From event %d to event %d: %s\nCause: %s.\n", a.Seq, b.Seq, cli.QuoteCell(x.Summary), cli.QuoteCell(string(x.Cause))); err != nil {
		return err
	}
	if err := printCaveats(c, a, b); err != nil {
		return err
	}
	rows := make([][]string, len(x.Differences))
	for i, d := range x.Differences {
		rows[i] = []string{cli.QuoteCell(d.Variable), t.ValueCell(ctx, d.Variable, d.A, a.Seq, full), t.ValueCell(ctx, d.Variable, d.B, b.Seq, full)}
	}
	columns := []cli.Column{cli.TextColumn("variable"), cli.TextColumn(fmt.Sprintf("event %d", a.Seq)), cli.TextColumn(fmt.Sprintf("event %d", b.Seq))}
	if err := printSection(c, rows, columns...); err != nil {
		return err
	}
	rows = nil
	for _, d := range x.Differences {
		for _, m := range d.Members {
			rows = append(rows, []string{cli.QuoteCell(m.Pointer), memberValue(m.A, m.AValue), memberValue(m.B, m.BValue)})
		}
	}
	columns[0] = cli.TextColumn("payload member")
	return printSection(c, rows, columns...)
}

// maxMemberValue is the length in bytes beyond which a table truncates a value.
const maxMemberValue = 60

// memberValue formats the value of a payload member as a table cell. It returns the posted value if
// the server returned one, and otherwise the value's digest.
func memberValue(digest *string, value json.RawMessage) string {
	switch {
	case digest == nil:
		return "none"
	case value == nil:
		return "digest " + cli.QuoteCell(*digest)
	case len(value) > maxMemberValue:
		return cli.QuoteCell(strings.ToValidUTF8(string(value[:maxMemberValue]), "")) + "…"
	}
	return cli.QuoteCell(string(value))
}

// PrintRunDAGChange prints where run-DAG b diverges from run-DAG a.
func PrintRunDAGChange(c *cli.Console, x *wire.RunDAGChange, a, b *wire.RecordAnswer) error {
	if _, err := fmt.Fprintf(c.Out, "From event %d to event %d: %s\n", a.Seq, b.Seq, cli.QuoteCell(x.Summary)); err != nil {
		return err
	}
	for _, list := range []struct {
		what  string
		names []string
	}{
		{"Differing stages", x.DifferingStages},
		{fmt.Sprintf("Only in event %d", a.Seq), x.OnlyInA},
		{fmt.Sprintf("Only in event %d", b.Seq), x.OnlyInB},
		{"Differing cache dimensions", x.DifferingDimensions},
	} {
		if err := printNames(c, list.what, list.names); err != nil {
			return err
		}
	}
	return printCaveats(c, a, b)
}

// PrintInputs prints the first words of the inputs of two IPC records, or nothing if neither input can
// be read.
func PrintInputs(ctx context.Context, c *cli.Console, t *TextReader, a, b *wire.RecordAnswer) error {
	of := func(r *wire.RecordAnswer) string {
		return t.Excerpt(ctx, "input_hash", r.Hashes.Get("input_hash"), r.Seq)
	}
	ofA, ofB := of(a), of(b)
	switch {
	case ofA == "" && ofB == "":
		return nil
	case ofA == ofB:
		_, err := fmt.Fprintf(c.Out, "\nInput of both events:%s\n", ofA)
		return err
	}
	_, err := fmt.Fprintf(c.Out, "\nInput of event %d:%s\nInput of event %d:%s\n", a.Seq, orUnknown(ofA), b.Seq, orUnknown(ofB))
	return err
}

func orUnknown(words string) string {
	if words == "" {
		return " unknown"
	}
	return words
}

// PrintPathChange prints the paths and builds of two path fingerprints, and warns if the paths
// differ.
func PrintPathChange(c *cli.Console, a, b *wire.RecordAnswer) error {
	var of [2]struct{ Record wire.PathFingerprintEvent }
	var paths [2]string
	for i, r := range []*wire.RecordAnswer{a, b} {
		if err := json.Unmarshal(r.Event, &of[i]); err != nil {
			return fmt.Errorf("decoding the event in the server's response: %w", err)
		}
		p := &of[i].Record
		paths[i] = fmt.Sprintf("path %s of %s (%s)", cli.QuoteCell(r.Hashes.Get("path_id")), cli.QuoteCell(p.Project), cli.QuoteCell(strings.Join(p.Route, " → ")))
	}
	first, second := &of[0].Record, &of[1].Record
	if first.Project == second.Project && slices.Equal(first.Route, second.Route) {
		builds := cli.QuoteOptionalCell(first.Build)
		if then := cli.QuoteOptionalCell(second.Build); then != builds {
			builds += " to build " + then
		}
		_, err := fmt.Fprintf(c.Out, "From event %d to event %d: %s, build %s.\n", a.Seq, b.Seq, paths[0], builds)
		return errors.Join(err, printCaveats(c, a, b))
	}
	_, err := fmt.Fprintf(c.Out, "Event %d: %s, build %s.\nEvent %d: %s, build %s.\nThe paths differ: these are not two versions of one passage.\n",
		a.Seq, paths[0], cli.QuoteOptionalCell(first.Build), b.Seq, paths[1], cli.QuoteOptionalCell(second.Build))
	return errors.Join(err, printCaveats(c, a, b))
}

// printCaveats warns about records that are not live or that claim wrong hashes, because a
// comparison with such a record can mislead.
func printCaveats(c *cli.Console, a, b *wire.RecordAnswer) error {
	records := []*wire.RecordAnswer{a, b}
	if a.Seq == b.Seq {
		records = records[:1]
	}
	for _, r := range records {
		if r.State != "" && r.State != wire.StateLive {
			if _, err := fmt.Fprintf(c.Out, "Event %d is %s, not live.\n", r.Seq, cli.QuoteCell(string(r.State))); err != nil {
				return err
			}
		}
		var fields []string
		for field, check := range r.Checks {
			if check.Result == wire.CheckResultMismatch {
				fields = append(fields, field)
			}
		}
		slices.Sort(fields)
		if err := printNames(c, fmt.Sprintf("Wrong claims of event %d", r.Seq), fields); err != nil {
			return err
		}
	}
	return nil
}

// printNames prints names on one line, labeled with what. It prints nothing if names is empty.
func printNames(c *cli.Console, what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	cells := make([]string, len(names))
	for i, name := range names {
		cells[i] = cli.QuoteCell(name)
	}
	_, err := fmt.Fprintf(c.Out, "%s: %s\n", what, strings.Join(cells, ", "))
	return err
}

// ValueCell formats the value of a variable as a table cell. If the value is a hash, ValueCell
// shortens it unless full is set, and appends the first words of the hashed text. It reads the text
// from the record with the given seq.
func (t *TextReader) ValueCell(ctx context.Context, variable string, value json.RawMessage, seq uint64, full bool) string {
	text := plainValue(value)
	if len(text) == 64 && strings.Trim(text, "0123456789abcdef") == "" {
		return HashCell(text, full) + t.Excerpt(ctx, variable, text, seq)
	}
	return text
}

// plainValue returns the JSON value of a variable as a table cell.
func plainValue(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return cli.QuoteCell(string(value)) // the value is a number
	}
	return cli.QuoteOptionalCell(text)
}

// PrintTextDiff prints how similar two versions of a text are, how the length changes, and a word diff.
// of is the text's name in the message, for example "output". If the versions are equal, PrintTextDiff
// prints only the length.
func PrintTextDiff(c *cli.Console, of string, x *wire.TextDiff) error {
	if x.A.SHA256 == x.B.SHA256 {
		_, err := fmt.Fprintf(c.Out, "\nThe %s is the same: %s.\n", of, cli.FormatCount(x.A.Words, "word"))
		return err
	}
	length := ""
	if x.LengthChange != nil {
		length = " (" + signedShare(*x.LengthChange) + ")"
	}
	change := wire.TextChange{Similarity: &x.Similarity, LowerBound: x.LowerBound}
	if _, err := fmt.Fprintf(c.Out, "\nThe %s is %s similar; its length changes from %d to %s%s.\n", of,
		similarity(&change), x.A.Words, cli.FormatCount(x.B.Words, "word"), length); err != nil {
		return err
	}
	return printDiff(c, x.Edits)
}

// PrintEffectTextSummary prints how similar the outputs of each pair are and how much their lengths change.
// The figures are medians and quartiles over all pairs. PrintEffectTextSummary prints nothing if t does not
// contain them.
func PrintEffectTextSummary(c *cli.Console, t *wire.EffectTextSummary) error {
	if t == nil || t.Similarity == nil || t.LengthChange == nil {
		return nil
	}
	of := cli.FormatCount(t.Pairs, "pair")
	if t.Partial {
		of = "the first " + of
	}
	s, l := t.Similarity, t.LengthChange
	text := fmt.Sprintf("Over %s, the median similarity of the outputs is %s (quartiles %s and %s), and the median change in length is %s (quartiles %s and %s).", of,
		cli.FormatPercent(float64(s.Median)), cli.FormatPercent(float64(s.Q1)), cli.FormatPercent(float64(s.Q3)), signedShare(l.Median), signedShare(l.Q1), signedShare(l.Q3))
	if t.WordsA != nil && t.WordsB != nil {
		text += fmt.Sprintf(" The median length goes from %.0f to %.0f words.", float64(t.WordsA.Median), float64(t.WordsB.Median))
	}
	_, err := fmt.Fprintf(c.Out, "%s\n\n", text)
	return err
}

// PrintMostChangedPairs prints a table of the pairs whose outputs changed most.
func PrintMostChangedPairs(c *cli.Console, t *wire.EffectTextSummary) error {
	rows := make([][]string, len(t.MostChanged))
	for i, p := range t.MostChanged {
		change := cli.NoValueCell
		if p.LengthChange != nil {
			change = signedShare(*p.LengthChange)
		}
		input := cli.NoValueCell
		if p.Name != nil {
			input = cli.QuoteCell(p.Name.Words)
		}
		rows[i] = []string{cli.FormatUint(p.A), cli.FormatUint(p.B), cli.FormatPercent(float64(p.Similarity)), change, input}
	}
	return cli.NewTable(c.Out, cli.NumberColumn("event A"), cli.NumberColumn("event B"), cli.NumberColumn("similar"), cli.NumberColumn("length"), cli.TextColumn("input")).WriteRows(rows)
}
