package rules

import (
	"bytes"
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (spec: Path ids)
	"encoding/hex"
	"slices"

	"colophon/ledger/record/pyjson"
)

// FingerprintVersion names the fingerprint rules (spec: Path fingerprints).
const FingerprintVersion = "adr-004"

// Hexadecimal digits of fingerprints, of path ids, and of the path ids of routes that met
// another route under their eight (spec: Path ids).
const (
	FingerprintDigits = 8
	PathIDDigits      = 8
	LongPathIDDigits  = 16
)

// IsPathID reports whether a text can be claimed as a path_id.
func IsPathID(text []byte) bool {
	return IsDigits(text, PathIDDigits) || IsDigits(text, LongPathIDDigits)
}

// JoinRoute joins the passage names of a route: its identity.
func JoinRoute(passages [][]byte) []byte { return bytes.Join(passages, []byte(" → ")) }

// RouteID is the MD5 of a route in hexadecimal digits: its path_id begins it (spec: Path ids).
func RouteID(passages [][]byte) []byte {
	sum := md5.Sum(JoinRoute(passages)) // #nosec G401 -- by definition (spec: Path ids)
	return hex.AppendEncode(nil, sum[:])
}

// ContentFingerprint is the fingerprint of a path's content without its links. scratch is
// overwritten and returned, for the next call.
func ContentFingerprint(scratch, content []byte) (fingerprint, used []byte) {
	return fingerprintOf(AppendWithoutLinks(slices.Grow(scratch[:0], len(content)), content))
}

// RawFingerprint is the fingerprint of a path's content with its links, as ContentFingerprint.
func RawFingerprint(scratch, content []byte) (fingerprint, used []byte) {
	return fingerprintOf(append(scratch[:0], content...))
}

// fingerprintOf is the first eight digits of MD5 over a text by rule W. It overwrites the
// text and returns its memory.
func fingerprintOf(text []byte) (fingerprint, used []byte) {
	sum := md5.Sum(AppendWhitespaceRule(text[:0], text)) // #nosec G401 -- by definition (spec: Path ids)
	return hex.AppendEncode(nil, sum[:FingerprintDigits/2]), text
}

// AppendWhitespaceRule is rule W (spec: Content fingerprints): runs of U+0020 made one, runs of
// two or more line feeds made two, the whole stripped. dst may be text[:0].
func AppendWhitespaceRule(dst, text []byte) []byte {
	start := len(dst)
	dst = appendShortened(dst, text, " ")
	dst = appendShortened(dst[:start], dst[start:], "\n\n")
	return append(dst[:start], pyjson.Strip(dst[start:])...)
}

// AppendWithoutLinks is rule L (spec: Content fingerprints): wiki links deleted, then Markdown
// links. Neither reaches over a line feed.
func AppendWithoutLinks(dst, text []byte) []byte {
	for more := true; more; {
		var line []byte
		line, text, more = bytes.Cut(text, []byte("\n"))
		start := len(dst)
		dst = appendWithout(dst, line, "[[", "]]", "")
		dst = appendWithout(dst[:start], dst[start:], "[", "](", ")")
		if more {
			dst = append(dst, '\n')
		}
	}
	return dst
}

// appendWithout deletes, leftmost first, each shortest stretch of a line from
// begin over middle to end (no end: to middle). Once one of them is not found
// no later start can match either, so the work is linear. What is appended is never
// ahead of what is read: dst may be line[:0].
func appendWithout(dst, line []byte, begin, middle, end string) []byte {
	for {
		start := bytes.Index(line, []byte(begin))
		if start < 0 {
			return append(dst, line...)
		}
		stop := start + len(begin)
		for _, part := range [...]string{middle, end} {
			i := bytes.Index(line[stop:], []byte(part))
			if i < 0 {
				return append(dst, line...)
			}
			stop += i + len(part)
		}
		dst = append(dst, line[:start]...)
		line = line[stop:]
	}
}
