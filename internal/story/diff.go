package story

import (
	"regexp"
	"strings"
	"time"

	"github.com/sergi/go-diff/diffmatchpatch"

	"colophon/ledger/record/rules"
)

// NormalizedText returns a text in the form from which its content_fingerprint is computed: without
// links, and with normalised white space (spec: Content fingerprints).
func NormalizedText(content string) string {
	return string(rules.AppendCollapsedWhitespace(nil, rules.AppendWithoutLinks(nil, []byte(content))))
}

// token is a word or the white space between two words.
var token = regexp.MustCompile(`\S+|\s+`)

// maxDiffTime limits the search for the shortest difference of two texts. If the time runs
// out, the difference is correct but longer than necessary.
const maxDiffTime = 5 * time.Second

// MarkdownDiff shows how the prose of one text became that of another, as Markdown: a block quotation
// of the paragraphs that differ, with deleted words in <del> and inserted ones in <ins>. "…"
// stands for equal paragraphs.
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

// vocabulary numbers words, so that a text becomes a string of runes for the library to compare.
// It skips surrogates, because a string cannot hold them.
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

// paragraphs collects the words of a difference.
type paragraphs struct {
	done    []string // empty for equal paragraphs
	current strings.Builder
	changed bool
	open    diffmatchpatch.Operation // operation of the open tag
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

// tag closes the open tag and opens the tag of op.
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

// special escapes characters that have a meaning in Markdown or in HTML within it.
var special = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "|", `\|`, "~", `\~`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", " ", "\r", " ")

// listItem matches a word that begins a list item at the beginning of a line.
var listItem = regexp.MustCompile(`^([-+]|[0-9]+[.)])$`)

// escape escapes a text so that Markdown shows it unchanged.
func escape(text string) string {
	if listItem.MatchString(text) {
		return text[:len(text)-1] + `\` + text[len(text)-1:]
	}
	return special.Replace(text)
}
