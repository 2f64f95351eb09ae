package story

import (
	"regexp"
	"strings"
	"time"

	"github.com/sergi/go-diff/diffmatchpatch"

	"colophon/ledger/record/rules"
)

// NormalizedText returns content in the form from which its content_fingerprint is computed:
// without links, and with normalized white space (spec: Content fingerprints).
func NormalizedText(content string) string {
	return string(rules.AppendCollapsedText(nil, rules.AppendWithoutLinks(nil, []byte(content))))
}

// token matches a word or the white space between two words.
var token = regexp.MustCompile(`\S+|\s+`)

// maxDiffTime limits the search for the shortest diff between two texts. If the time runs out, the
// diff is correct but longer than necessary.
const maxDiffTime = 5 * time.Second

// MarkdownDiff returns Markdown that shows how prose changed from before to after. It quotes the
// paragraphs that differ, with deleted words in <del> and inserted words in <ins>. "…" stands for
// paragraphs that did not change.
func MarkdownDiff(before, after string) string {
	var words vocabulary
	a, b := words.encode(NormalizedText(before)), words.encode(NormalizedText(after))
	d := diffmatchpatch.New()
	d.DiffTimeout = maxDiffTime
	var p paragraphs
	for _, part := range d.DiffCleanupMerge(d.DiffMainRunes(a, b, false)) {
		for _, word := range part.Text {
			p.add(part.Type, words.texts[word])
		}
	}
	return p.markdown()
}

// vocabulary assigns a rune to each distinct word, so that the diff library can compare texts as
// strings of runes. It never assigns surrogates, because a Go string cannot encode them.
type vocabulary struct {
	numbers map[string]rune
	texts   map[rune]string
}

func (v *vocabulary) encode(text string) (encoded []rune) {
	if v.numbers == nil {
		v.numbers, v.texts = make(map[string]rune), make(map[rune]string)
	}
	for _, word := range token.FindAllString(text, -1) {
		number, known := v.numbers[word]
		if !known {
			if number = rune(len(v.numbers) + 1); number >= 0xD800 {
				number += 0x800
			}
			v.numbers[word], v.texts[number] = number, word
		}
		encoded = append(encoded, number)
	}
	return encoded
}

// paragraphs assembles the Markdown of a diff, one paragraph at a time.
type paragraphs struct {
	done    []string // an empty string stands for an unchanged paragraph
	current strings.Builder
	changed bool
	open    diffmatchpatch.Operation // the operation whose HTML tag is open
}

var tags = map[diffmatchpatch.Operation]string{diffmatchpatch.DiffDelete: "del", diffmatchpatch.DiffInsert: "ins"}

func (p *paragraphs) add(op diffmatchpatch.Operation, word string) {
	p.changed = p.changed || op != diffmatchpatch.DiffEqual
	if strings.Contains(word, "\n") {
		p.tag(diffmatchpatch.DiffEqual)
		if op == diffmatchpatch.DiffDelete {
			p.current.WriteString(" <del>¶</del> ")
			return
		}
		p.end()
		p.changed = op != diffmatchpatch.DiffEqual
		return
	}
	p.tag(op)
	p.current.WriteString(escape(word))
}

// tag closes the open HTML tag and opens the tag for op, unless that tag is already open.
func (p *paragraphs) tag(op diffmatchpatch.Operation) {
	if op == p.open {
		return
	}
	if name := tags[p.open]; name != "" {
		p.current.WriteString("</" + name + ">")
	}
	if name := tags[op]; name != "" {
		p.current.WriteString("<" + name + ">")
	}
	p.open = op
}

func (p *paragraphs) end() {
	text := ""
	if p.changed {
		text = p.current.String()
	}
	p.done = append(p.done, text)
	p.current.Reset()
}

func (p *paragraphs) markdown() string {
	p.tag(diffmatchpatch.DiffEqual)
	p.end()
	var lines []string
	for i, text := range p.done {
		if text == "" {
			if i > 0 && p.done[i-1] == "" {
				continue
			}
			text = "…"
		}
		lines = append(lines, "> "+text+"\n")
	}
	return strings.Join(lines, ">\n")
}

// markdownEscaper escapes characters that are special in Markdown or in embedded HTML, and replaces line
// breaks with spaces.
var markdownEscaper = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "|", `\|`, "~", `\~`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", " ", "\r", " ")

// listItem matches a word that would start a list item if it were at the beginning of a line.
var listItem = regexp.MustCompile(`^([-+]|[0-9]+[.)])$`)

// escape escapes text so that it appears unchanged when the Markdown is rendered.
func escape(text string) string {
	if listItem.MatchString(text) {
		return text[:len(text)-1] + `\` + text[len(text)-1:]
	}
	return markdownEscaper.Replace(text)
}
