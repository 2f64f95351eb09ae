// Package textdiff compares two texts word by word (spec: Figures of texts). The result depends
// only on the two texts. Time and memory are bounded for any two texts.
package textdiff

import "unicode/utf8"

// Length is the length of a text. White space separates words. In a script without spaces,
// each character is a word.
// Characters are Unicode code points.
type Length struct{ Bytes, Characters, Words uint64 }

// Figures describes how much a text changed.
type Figures struct {
	LengthA, LengthB Length // lengths of the first and the second text
	// Similarity is the number of unchanged tokens, divided by the mean number of tokens in the two
	// texts. Tokens are words and marks, such as punctuation. Similarity is 1 if neither text
	// contains a token.
	Similarity float64
	// ExceedsLimit is true if a text has more tokens to align than MaxAlignedTokens. The excess
	// tokens count as changed, so Similarity is a lower bound.
	ExceedsLimit bool
	// Work is proportional to the maximum time that the comparison can take.
	Work uint64
}

// MaxMemoryBytes returns an upper bound, in bytes, on the memory needed to compare two texts of the
// given sizes, which are also in bytes. It does not include the texts themselves.
func MaxMemoryBytes(sizeA, sizeB uint64) int64 {
	const ofToken = 100 // bytes per token for its number, its end offset, and its map entry
	a, b := int64(min(sizeA, MaxAlignedTokens)), int64(min(sizeB, MaxAlignedTokens))
	return a*b/8 + ofToken*(a+b)
}

// Op says whether the text of an Edit was kept, deleted, or inserted.
type Op string

// These are the possible values of Op.
const (
	OpEqual  Op = "equal"  // the text is in both a and b, apart from white space
	OpDelete Op = "delete" // the text is only in a
	OpInsert Op = "insert" // the text is only in b
)

// Edit is a section of text that was kept, deleted, or inserted.
type Edit struct {
	Op   Op
	Text []byte // taken from b if Op is OpEqual, because white space may differ
}

// MeasureLength returns the length of text in bytes, characters, and words.
func MeasureLength(text []byte) Length {
	l, _ := measure(text)
	return l
}

// measure returns the length of a text and the number of its tokens.
func measure(text []byte) (l Length, all int) {
	l = Length{Bytes: uint64(len(text)), Characters: uint64(utf8.RuneCount(text))}
	for t := range tokens(text) {
		all++
		if t.begins {
			l.Words++
		}
	}
	return l, all
}

// Compare returns figures about the change from a text a to a later text b.
func Compare(a, b []byte) Figures { return compare(a, b).figures }

// Diff returns the same figures as Compare, and the edits that turn a into b. Concatenating all
// edits that are not deletions yields b. Concatenating all edits that are not insertions yields a,
// except for white space, which is not compared.
func Diff(a, b []byte) (Figures, []Edit) {
	c := compare(a, b)
	return c.figures, c.edits()
}

// comparison holds the result of comparing two texts: their figures and their alignment.
type comparison struct {
	figures          Figures
	before           []byte // the beginning that the two texts share
	middleA, middleB []byte
	after            []byte // the end that the two texts share
	endsA, endsB     []int  // end offsets, in bytes, of the aligned tokens in middleA and middleB
	aligned          *alignment
	restA, restB     int // number of tokens in middleA and middleB that are not aligned
}

func compare(a, b []byte) *comparison {
	lengthA, allA := measure(a)
	lengthB, allB := measure(b)
	start, end := shared(a, b)
	c := &comparison{before: b[:start], middleA: a[start : len(a)-end], middleB: b[start : len(b)-end], after: b[len(b)-end:]}
	numbers := make(map[string]int)
	tokensA, endsA, restA := number(c.middleA, numbers)
	tokensB, endsB, restB := number(c.middleB, numbers)
	c.endsA, c.endsB, c.restA, c.restB = endsA, endsB, restA, restB
	c.aligned = align(tokensA, tokensB, len(numbers))

	const tokenSteps = 4 // cost of reading one byte, relative to one alignment step
	c.figures = Figures{LengthA: lengthA, LengthB: lengthB, Similarity: 1, ExceedsLimit: restA > 0 || restB > 0,
		Work: uint64(len(tokensA)*len(tokensB)/64 + tokenSteps*(len(a)+len(b)))}
	if allA+allB > 0 {
		same := allA - len(tokensA) - restA + c.aligned.lcsLength()
		c.figures.Similarity = float64(2*same) / float64(allA+allB)
	}
	return c
}

// shared returns the lengths, in bytes, of the beginning and the end that the two texts share. Each
// of them is bounded by white space, so no token is split.
func shared(a, b []byte) (start, end int) {
	most := min(len(a), len(b))
	for start < most && a[start] == b[start] {
		start++
	}
	if start == len(a) && start == len(b) {
		return start, 0
	}
	for start > 0 && !isSpace(a[start-1]) {
		start--
	}
	for end < most-start && a[len(a)-end-1] == b[len(b)-end-1] {
		end++
	}
	for end > 0 && !isSpace(a[len(a)-end]) {
		end--
	}
	return start, end
}

// number returns the first MaxAlignedTokens tokens of text as numbers, along with the byte offsets of
// their ends. Equal tokens get equal numbers, which are recorded in numbers. rest is the number of
// remaining tokens.
func number(text []byte, numbers map[string]int) (list, ends []int, rest int) {
	for t := range tokens(text) {
		if len(list) == MaxAlignedTokens {
			rest++
			continue
		}
		n, known := numbers[string(text[t.start:t.end])]
		if !known {
			n = len(numbers)
			numbers[string(text[t.start:t.end])] = n
		}
		list, ends = append(list, n), append(ends, t.end)
	}
	return list, ends, rest
}

// edits returns the diff. White space before a token is treated as part of that token.
func (c *comparison) edits() []Edit {
	d := diff{a: c.middleA, b: c.middleB}
	for _, m := range c.aligned.matches() {
		if m.a > 0 {
			d.upTo(OpDelete, c.endsA[m.a-1])
		}
		if m.b > 0 {
			d.upTo(OpInsert, c.endsB[m.b-1])
		}
		d.atA = c.endsA[m.a]
		d.upTo(OpEqual, c.endsB[m.b])
	}
	endA, endB := len(c.middleA), len(c.middleB)
	if c.restA == 0 { // only white space follows the last aligned token
		endA = last(c.endsA)
	}
	if c.restB == 0 {
		endB = last(c.endsB)
	}
	d.upTo(OpDelete, endA)
	d.upTo(OpInsert, endB)
	d.upTo(OpEqual, len(c.middleB))

	before, after := Edit{OpEqual, c.before}, Edit{OpEqual, c.after}
	list := append([]Edit{before}, d.edits...)
	list = append(list, after)
	return joined(list)
}

// last returns the last number of a list, or 0 if the list is empty.
func last(list []int) int {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1]
}

// diff accumulates the edits between two texts.
type diff struct {
	a, b     []byte
	atA, atB int // edits covers a[:atA] and b[:atB]
	edits    []Edit
}

// upTo adds an edit whose text extends to byte offset end. The text is taken from a if op is
// OpDelete, and from b otherwise.
func (d *diff) upTo(op Op, end int) {
	text, at := d.b, &d.atB
	if op == OpDelete {
		text, at = d.a, &d.atA
	}
	d.edits = append(d.edits, Edit{op, text[*at:max(*at, end)]})
	*at = max(*at, end)
}

// joined drops empty edits and joins adjacent edits that have the same Op. The texts of such edits
// must be adjacent slices of a or of b.
func joined(list []Edit) []Edit {
	kept := list[:0]
	for _, e := range list {
		if len(e.Text) == 0 {
			continue
		}
		if n := len(kept); n > 0 && kept[n-1].Op == e.Op {
			kept[n-1].Text = kept[n-1].Text[:len(kept[n-1].Text)+len(e.Text)]
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
