package rules

import (
	"bytes"
	"slices"

	"colophon/ledger/record/pyjson"
)

// AppendNormalisedSystemPrompt appends the normal form of a system prompt (spec: IPC hashes): each line is
// stripped, the lines are joined with "\n", and the result is stripped.
func AppendNormalisedSystemPrompt(dst, text []byte) []byte {
	start := len(dst)
	first := true
	for line := range pyjson.Lines(text) {
		if !first {
			dst = append(dst, '\n')
		}
		first = false
		dst = append(dst, pyjson.Strip(line)...)
	}
	return append(dst[:start], pyjson.Strip(dst[start:])...)
}

// AppendNormalisedOutput appends the normal form of an output (spec: IPC hashes), in which whitespace at both
// ends is stripped and each run of spaces (U+0020) becomes one space.
func AppendNormalisedOutput(dst, text []byte) []byte {
	return appendShortened(dst, pyjson.Strip(text), " ")
}

// appendShortened appends text with the runs of one character shortened. limit consists of one or
// more copies of that character, and each longer run is replaced with limit. dst may be text[:0].
func appendShortened(dst, text []byte, limit string) []byte {
	for {
		i := indexRun(text, limit[0], len(limit)+1)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), limit...)
		for i < len(text) && text[i] == limit[0] {
			i++
		}
		text = text[i:]
	}
}

// indexRun returns the index of the first run of at least n bytes equal to c, or -1 if there is
// none. It tests only every nth byte, because such a run contains at least one tested byte.
// bytes.Index would be slower, because it stops at every single c and texts contain many spaces.
func indexRun(text []byte, c byte, n int) int {
	for i := n - 1; i < len(text); i += n {
		if text[i] != c {
			continue
		}
		start, end := i, i+1
		for start > 0 && text[start-1] == c {
			start--
		}
		for end < len(text) && text[end] == c {
			end++
		}
		if end-start >= n {
			return start
		}
		i = end // text[end] is not c, so the next run begins after end
	}
	return -1
}

// AppendWords appends the words of text, joined by single spaces (spec: Citation hashes). dst may
// be text[:0].
func AppendWords(dst, text []byte) []byte {
	start := len(dst)
	for word := range pyjson.Fields(text) {
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = append(dst, word...)
	}
	return dst
}

// questionEnd contains the characters that are removed from the end of a question, unless the mode
// is strict.
const questionEnd = ".?!,;:？！。、…"

// AppendCanonicalQuestion appends the canonical form of a question (spec: Canonical question). If strict is
// true, it only converts text to NFC and normalises the whitespace.
func AppendCanonicalQuestion(dst, text []byte, strict bool) []byte {
	composed := pyjson.AppendNFC(make([]byte, 0, len(text)), text)
	normal := AppendWords(composed[:0], composed) // overwrites only bytes that have already been read
	if strict {
		return append(dst, normal...)
	}
	lower := pyjson.AppendLower(make([]byte, 0, len(normal)), normal)
	for {
		trimmed := bytes.TrimRight(pyjson.Strip(lower), questionEnd)
		if len(trimmed) == len(lower) {
			break
		}
		lower = trimmed
	}
	dst = slices.Grow(dst, len(lower))
	start := len(dst)
	for word := range pyjson.Fields(lower) {
		switch string(word) {
		case "the", "a", "an":
			continue
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = append(dst, word...)
	}
	return dst
}
