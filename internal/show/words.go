// Package show prints records and their texts in human-readable form.
package show

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
)

// TextReader reads the texts of a ledger's records. It reads each text at most once.
type TextReader struct {
	Server *remote.Connection
	Ledger string

	words  map[string]string // excerpts, keyed by digest
	texts  map[string][]byte // texts that are longer than their excerpts, keyed by excerpt
	denied bool              // true if the credentials do not allow reading content
}

// maxTexts is the maximum number of texts that one command reads to show their first words. For
// any further texts, only the digests are shown.
const maxTexts = 2000

// contents maps the name of a hash to the name of the content from which it is computed.
var contents = map[string]string{
	"input": "payload", "input_hash": "payload", "ipc_id": "payload", "system_prompt": "system_prompt", "system_prompt_hash": "system_prompt", "output_hash": "output",
	"question_hash": "question", "content_fingerprint": "content", "raw_content_fingerprint": "content",
}

// Excerpt returns the first words of the text with the given digest, in quotation marks and
// preceded by a space. name is the name of the hash, and seq identifies a record that contains it.
// If the TextReader has already read another text with the same first words, the excerpt starts
// where the two texts differ. Excerpt returns "" if the text cannot be read.
func (t *TextReader) Excerpt(ctx context.Context, name, digest string, seq uint64) string {
	content, known := contents[name]
	if !known || t.denied {
		return ""
	}
	if text, read := t.words[digest]; read {
		return text
	}
	if t.words == nil {
		t.words, t.texts = make(map[string]string), make(map[string][]byte)
	}
	if len(t.words) >= maxTexts {
		return ""
	}
	text, err := t.Server.Ledger(t.Ledger).Records.Content(ctx, seq, content)
	if t.denied = errors.Is(err, client.ErrForbidden); err != nil {
		return ""
	}
	text = longestText(text)
	words := firstWords(text)
	if other, same := t.texts[words]; same {
		words = "…" + firstWords(text[differsAt(text, other):])
	} else if strings.HasSuffix(words, "…") {
		t.texts[words] = text
	}
	if words != "" {
		words = ` "` + words + `"`
	}
	t.words[digest] = words
	return words
}

// maxWords is the maximum length, in characters, of the excerpt that FirstWords returns.
const maxWords = 40

// FirstWords returns the beginning of text on one line. If text is a JSON object, it returns the
// beginning of the longest string in it.
func FirstWords(text []byte) string { return firstWords(longestText(text)) }

// longestText returns the longest top-level string in text if text is a JSON object. If it is not
// an object, or has no strings, longestText returns text unchanged.
func longestText(text []byte) []byte {
	var object map[string]any
	if json.Unmarshal(text, &object) == nil {
		longest := ""
		for _, value := range object {
			if s, is := value.(string); is && (len(s) > len(longest) || len(s) == len(longest) && s < longest) {
				longest = s
			}
		}
		if longest != "" {
			return []byte(longest)
		}
	}
	return text
}

// differsAt returns the byte offset of the word in which text first differs from other.
func differsAt(text, other []byte) int {
	n := 0
	for n < min(len(text), len(other)) && text[n] == other[n] {
		n++
	}
	return bytes.LastIndexAny(text[:n], " \n\t") + 1
}

func firstWords(text []byte) string {
	var line strings.Builder
	length := 0
	for word := range strings.FieldsFuncSeq(strings.ToValidUTF8(string(text[:min(len(text), 4096)]), "\ufffd"), func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		if n := utf8.RuneCountInString(word); length+n <= maxWords {
			if length > 0 {
				line.WriteByte(' ')
			}
			line.WriteString(word)
			length += n + 1
			continue
		}
		if length == 0 { // the first word alone is too long
			line.WriteString(string([]rune(word)[:maxWords]))
		}
		line.WriteString("…")
		break
	}
	return line.String()
}

// printDiff prints a word diff. On a color terminal, deleted words are red and inserted words are
// green. Otherwise, they appear as [-words-] and {+words+}.
func printDiff(c *cli.Console, edits []wire.TextEdit) error {
	marks := map[wire.EditOp][2]string{wire.EditDelete: {"[-", "-]"}, wire.EditInsert: {"{+", "+}"}}
	if c.UsesColors() {
		marks = map[wire.EditOp][2]string{wire.EditDelete: {"\x1b[31m", "\x1b[0m"}, wire.EditInsert: {"\x1b[32m", "\x1b[0m"}}
	}
	codes := cli.UnfilteredWriter(c.Out) // c.Out escapes all control codes, including those for colors
	for _, e := range edits {
		for _, part := range []struct {
			raw  bool
			text string
		}{{true, marks[e.Op][0]}, {false, e.Text}, {true, marks[e.Op][1]}} {
			to := c.Out
			if part.raw {
				to = codes
			}
			if _, err := to.Write([]byte(part.text)); err != nil {
				return err
			}
		}
	}
	_, err := c.Out.Write([]byte("\n"))
	return err
}

// TextChangeCells returns the similarity of two texts and their lengths in words as table cells.
func TextChangeCells(c *wire.TextChange) (similar, words string) {
	switch {
	case c == nil || c.B == nil && c.Unavailable == "":
		return cli.NoValueCell, cli.NoValueCell
	case c.Unavailable != "":
		return string(c.Unavailable), cli.NoValueCell
	case c.A == nil:
		return cli.NoValueCell, cli.FormatUint(c.B.Words)
	}
	return similarity(c), cli.FormatUint(c.A.Words) + " → " + cli.FormatUint(c.B.Words)
}

// similarity formats the similarity of two texts as a percentage, or as a lower bound if only a
// bound is known.
func similarity(c *wire.TextChange) string {
	if c.LowerBound {
		return "≥ " + cli.FormatPercent(float64(*c.Similarity))
	}
	return cli.FormatPercent(float64(*c.Similarity))
}

// signedShare formats a relative change as a percentage, with a plus sign if it is an increase.
func signedShare(part wire.Decimal) string {
	if part > 0 {
		return "+" + cli.FormatPercent(float64(part))
	}
	return cli.FormatPercent(float64(part))
}
