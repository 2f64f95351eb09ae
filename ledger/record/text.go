package record

import (
	"bytes"

	"colophon/ledger/record/pyjson"
)

// appendSystemPrompt is the normal form of a system prompt (1.3): each line
// stripped, lines joined by "\n", the whole stripped.
func appendSystemPrompt(dst, text []byte) []byte {
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

// appendOutput is the normal form of an output (1.3): stripped, runs of spaces
// (U+0020) made one.
func appendOutput(dst, text []byte) []byte {
	return appendSingle(dst, pyjson.Strip(text), ' ', 1)
}

// appendSingle shortens runs of c to at most limit.
func appendSingle(dst, text []byte, c byte, limit int) []byte {
	for len(text) > 0 {
		i := bytes.IndexByte(text, c)
		if i < 0 {
			return append(dst, text...)
		}
		n := i
		for n < len(text) && text[n] == c {
			n++
		}
		dst = append(dst, text[:i+min(n-i, limit)]...)
		text = text[n:]
	}
	return dst
}

// appendWords is the words of a text joined by one space (1.5).
func appendWords(dst, text []byte) []byte {
	start := len(dst)
	for word := range pyjson.Fields(text) {
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = append(dst, word...)
	}
	return dst
}

// questionEnd are the characters that end a question of the equivalence class.
const questionEnd = ".?!,;:？！。、…"

// appendQuestion is canonical_question (1.4). Strict stops after NFC and space.
func appendQuestion(dst, text []byte, strict bool) []byte {
	normal := appendWords(nil, pyjson.AppendNFC(nil, text))
	if strict {
		return append(dst, normal...)
	}
	lower := pyjson.AppendLower(nil, normal)
	for {
		trimmed := bytes.TrimRight(pyjson.Strip(lower), questionEnd)
		if len(trimmed) == len(lower) {
			break
		}
		lower = trimmed
	}
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
